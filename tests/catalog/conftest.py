from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wasmrt.catalog import Catalog, ComponentInfo, NewVersion
from wasmrt.core.component_bytes import ComponentBytes


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "data")


@pytest.fixture
def draft() -> Callable[..., NewVersion]:
    def make(name: str, data: bytes, *, sidecar: str | None = None, **info: Any) -> NewVersion:
        known = ComponentInfo(world="any", **info)
        return NewVersion(name=name, component=ComponentBytes(data), info=known, sidecar=sidecar)

    return make
