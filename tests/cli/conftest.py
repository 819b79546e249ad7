from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import wasmtime
from click.testing import CliRunner, Result

from tests.cli.registry import BUNDLED, FakeRegistry, serve_registry
from tests.compiled import Installation
from wasmrt.cli import cli


@pytest.fixture
def home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate installation that shares compiled code with all tests."""
    folder = sharing_code(tmp_path / "home")
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    return folder


@pytest.fixture
def registry(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRegistry]:
    """A registry that the installation trusts; no login is stored for it."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with serve_registry(home) as registry:
        yield registry


@pytest.fixture
def absent_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installation that does not exist yet."""
    folder = tmp_path / "absent-home"
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    return folder


@pytest.fixture
def wasmrt(home: Path) -> Callable[..., Result]:
    """Runs the command without a terminal."""

    def run(*arguments: str | Path, stdin: str | bytes = "", code: int = 0) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], input=stdin, prog_name="wasmrt")
        assert result.exit_code == code, f"exit code {result.exit_code}: {result.stderr or result.exception!r}"
        return result

    return run


@pytest.fixture
def tool_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a working component (by default the bundled echo), with or without a sidecar."""

    def write(name: str = "parrot", *, data: bytes | None = None, sidecar: object = None, of: str = "echo") -> Path:
        path = tmp_path / f"{name}.wasm"
        path.write_bytes((BUNDLED / f"{of}.wasm").read_bytes() if data is None else data)
        beside = tmp_path / f"{name}.capabilities.json"
        beside.unlink(missing_ok=True)
        if sidecar is not None:
            beside.write_text(sidecar if isinstance(sidecar, str) else json.dumps(sidecar))
        return path

    return write


@pytest.fixture
def encode() -> Callable[[str], bytes]:
    """Encodes WebAssembly text as bytes."""
    return lambda text: bytes(wasmtime.wat2wasm(text))
