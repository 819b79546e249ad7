"""file_search stops before the call's deadline, and returns the number of files that it has not read."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from wasmrt import Isolation, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.clock import SystemClock


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("files", "count"), [(40, "not_searched"), (100, "not_searched_at_least")])
def test_a_search_that_takes_too_long_returns_the_number_of_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, count: str
) -> None:
    for number in range(files):
        (tmp_path / f"{number:03}.txt").write_text("one\n")
    seconds = itertools.count()
    monkeypatch.setattr(SystemClock, "monotonic_ns", lambda self: next(seconds) * 1_000_000_000)
    with WasmToolRuntime(WasmRuntimeConfig(workspace=tmp_path, isolation=Isolation.IN_PROCESS)) as runtime:
        found = runtime.prepare_installed("file_search").execute({"pattern": "one"}).result
    assert found["truncated"] and found["files_searched"] == len(found["matches"]) == 29
    assert found[count] == min(files, 45) - 29
