from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from made_components import component

from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.installer import Installer
from wasmrt.core.component_bytes import ComponentBytes, digest_of


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "data")


@pytest.fixture
def installer(catalog: Catalog) -> Installer:
    """An installer with a stub engine that accepts all components."""

    def prepare(name: str, component: ComponentBytes, _tools: object) -> ComponentInfo:
        schema = digest_of(component.data[-40:])[:8]
        return ComponentInfo(world="any", description=f"{name}, described", schema_digest=schema)

    return Installer(catalog, prepare=prepare)


@pytest.fixture
def tool_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a component file, with a sidecar next to it if one is given."""

    def write(data: bytes | None = None, *, name: str = "answer", sidecar: object = None) -> Path:
        path = tmp_path / f"{name}.wasm"
        path.write_bytes(component() if data is None else data)
        beside = tmp_path / f"{name}.capabilities.json"
        beside.unlink(missing_ok=True)
        if sidecar is not None:
            beside.write_text(sidecar if isinstance(sidecar, str) else json.dumps(sidecar))
        return path

    return write
