from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wasmrt.install import Catalog, Draft, digest_of


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "data")


@pytest.fixture
def draft() -> Callable[..., Draft]:
    def make(name: str, data: bytes, **more: object) -> Draft:
        return Draft(name=name, digest=digest_of(data), size_bytes=len(data), world="any", **more)  # type: ignore[arg-type]

    return make
