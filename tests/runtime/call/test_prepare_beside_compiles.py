"""A compiled component does not wait for other components' compilation."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasmrt.testing.attacks import Body, tool

from wasmrt import Isolation, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import Engine
from wasmrt.sandbox.isolation.pool import home

HONEST = bytes(wasmtime.wat2wasm(tool(Body())))
SLOW = [bytes(wasmtime.wat2wasm(tool(Body(text=b"%d" % number)))) for number in range(3)]
SECONDS = 30


class Gate:
    """Blocks every compilation while closed."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def pass_through(self) -> None:
        if not self.open.is_set():
            self.waiting.release()
            assert self.open.wait(SECONDS)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A gate in front of the compiler, in this process and in compile workers."""
    gate = Gate()
    compile_here, compile_there = Engine.compile, home._start_compiler

    def here(engine: Engine, data: bytes) -> Any:
        gate.pass_through()
        return compile_here(engine, data)

    @contextmanager
    def there(*arguments: Any) -> Iterator[Any]:
        gate.pass_through()
        with compile_there(*arguments) as answer:
            yield answer

    monkeypatch.setattr(Engine, "compile", here)
    monkeypatch.setattr(home, "_start_compiler", there)
    return gate


@pytest.mark.parametrize("isolation", [Isolation.PROCESS, Isolation.IN_PROCESS])
def test_compiled_tools_are_ready_while_all_compile_permits_are_in_use(
    isolation: Isolation, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    config = WasmRuntimeConfig(isolation=isolation, cache_dir=tmp_path / "cache", max_concurrent_compiles=2)
    with WasmToolRuntime(config) as runtime, WasmToolRuntime(config) as another, ThreadPoolExecutor() as threads:
        runtime.prepare("honest", HONEST)
        gate.open.clear()
        slow = [threads.submit(runtime.prepare, f"slow-{number}", data) for number, data in enumerate(SLOW)]
        try:
            for _ in range(2):
                assert gate.waiting.acquire(timeout=SECONDS)
            from_memory = threads.submit(runtime.prepare, "honest", HONEST)
            from_disk = threads.submit(another.prepare, "honest", HONEST)
            under_another_name = threads.submit(runtime.prepare, "also-honest", HONEST)
            for warm in (from_memory, from_disk, under_another_name):
                assert warm.result(SECONDS).execute({}).result == {"ok": True}
            assert not any(each.done() for each in slow)
        finally:
            gate.open.set()
        for each in slow:
            each.result(SECONDS)
