"""The locations of data: per user, or all in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places


def test_one_variable_moves_all_folders(tmp_path: Path) -> None:
    places = find_places({"WASMRT_HOME": str(tmp_path)})
    assert {places.data.parent, places.cache.parent} == {tmp_path}
    assert places.data != places.cache


def test_without_the_variable_the_users_folders_apply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = find_places({})
    assert (places.data.name, places.cache.name) == ("wasmrt", "wasmrt")


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="absolute"):
        find_places({"WASMRT_HOME": "here"})
