from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import StorePlace
from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.core.component_bytes import ComponentBytes

KEY = bytes(range(32))


@pytest.fixture
def catalog(tmp_path: Path, store_place: StorePlace) -> Catalog:
    """A catalog in a folder, or in a database that hosts share."""
    place = store_place(tmp_path / "data")
    if isinstance(place, Path):
        return Catalog(place)
    return Catalog(tmp_path / "data", (place, lambda: KEY))


@pytest.fixture
def draft() -> Callable[..., NewVersion]:
    def make(name: str, data: bytes, *, sidecar: str | None = None, **info: Any) -> NewVersion:
        known = ComponentInfo(world="any", **info)
        return NewVersion(name=name, component=ComponentBytes(data), info=known, sidecar=sidecar)

    return make
