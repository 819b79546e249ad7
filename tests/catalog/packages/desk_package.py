"""The package for these tests, built from source: three tools in one component, and credentials of two vendors."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.sandbox.guests.build import BUILT, NotHere, _need_rust, _run, _wasm_tools

HERE = Path(__file__).parent
SOURCE = HERE / "guest"
WIT = HERE.parents[2] / "wit/near-agent/0.4.1"
TARGET = "wasm32-unknown-unknown"


def component() -> bytes:
    """Return the component, building it if necessary; skip the test if a toolchain is missing."""
    digest = hashlib.sha256()
    for path in sorted([*SOURCE.rglob("*.rs"), *SOURCE.glob("Cargo.*"), *WIT.glob("*.wit")]):
        digest.update(path.read_bytes())
    final = BUILT / f"package-{digest.hexdigest()[:16]}.wasm"
    if not final.is_file():
        BUILT.mkdir(exist_ok=True)
        try:
            _need_rust(TARGET, prepare=False)
            with TemporaryDirectory(dir=BUILT) as work:
                _build(Path(work), final)
        except NotHere as absent:
            pytest.skip(f"toolchain {absent.missing.toolchain} missing: {absent.missing.reason}")
    return final.read_bytes()


def _build(work: Path, final: Path) -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR", BUILT / "cargo"))
    _run(["cargo", "build", "--locked", "--release", "--target", TARGET], cwd=SOURCE, CARGO_TARGET_DIR=str(target))
    _wasm_tools("component", "new", target / TARGET / "release/guest_package.wasm", "-o", work / "out.wasm")
    (work / "out.wasm").replace(final)


def write_package(folder: Path, wasm: bytes, *, port: int = 443, edits: Mapping[str, str] | None = None) -> Path:
    """Write the package into a folder; `edits` replace parts of its manifest."""
    shutil.copytree(HERE / "desk", folder, dirs_exist_ok=True)
    manifest = (folder / "manifest.toml").read_text().replace("65000", str(port))
    for old, new in (edits or {}).items():
        assert old in manifest
        manifest = manifest.replace(old, new)
    (folder / "manifest.toml").write_text(manifest)
    (folder / "wasm").mkdir(exist_ok=True)
    (folder / "wasm/desk_tool.wasm").write_bytes(wasm)
    return folder
