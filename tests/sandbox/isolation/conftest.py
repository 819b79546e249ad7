"""Runtimes with guests in workers, and marks for features that a machine may lack, whose tests are then skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.compiled import Installation
from tests.shared_zygote import separate_zygotes
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.isolation.confine import layers
from wasmrt.sandbox.isolation.pool.program import Program

STANDING = {layer.name for layer in layers() if layer.standing}
NOBODY = 65534

needs_seccomp = pytest.mark.skipif("seccomp" not in STANDING, reason="this machine has no seccomp: nothing to prove")
needs_landlock = pytest.mark.skipif("landlock" not in STANDING, reason="this machine has no Landlock: nothing to prove")
as_users = pytest.mark.parametrize("user", [0, NOBODY] if os.getuid() == 0 else [0], ids=lambda user: f"user-{user}")
"""As this user (0: no change), and, for root, also as nobody."""


@pytest.fixture(scope="package", autouse=True)
def _separate() -> Iterator[None]:
    with separate_zygotes():
        yield


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))


@pytest.fixture
def runtime() -> Iterator[WasmToolRuntime]:
    """A runtime with guests in workers."""
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation="process")) as runtime:  # type: ignore[arg-type]
        yield runtime


ECHO = Body(execute="(call $say (local.get $params) (local.get $length))")


def prepared(runtime: WasmToolRuntime, body: Body = ECHO, name: str = "tool", **options: Any) -> PreparedTool:
    """A tool with this body, ready to be called."""
    return runtime.prepare(name, wat2wasm(tool(body)), **options)


def program_of(tool: PreparedTool) -> Program:
    """The tool's component in workers."""
    program = tool._target.component
    assert isinstance(program, Program)
    return program


def process_of(tool: PreparedTool, user: str | None = "local") -> int:
    """The process of the worker that waits for the user's next call, or for the first call of any user."""
    program = program_of(tool)
    worker = program._idle_workers.take(program, user)
    assert worker is not None
    program._idle_workers.put(program, user, worker)
    return worker.pid
