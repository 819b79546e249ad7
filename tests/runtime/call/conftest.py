from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.compiled import Installation
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm

ECHO = Body(execute="(call $say (local.get $params) (local.get $length))")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))


@pytest.fixture
def isolation() -> Isolation:
    """Where the guests of `runtime` run; modules about in-process guests override it."""
    return Isolation.PROCESS


@pytest.fixture
def runtime(isolation: Isolation) -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=isolation)) as runtime:
        yield runtime


Prepare = Callable[..., PreparedTool]


@pytest.fixture
def prepare(runtime: WasmToolRuntime) -> Prepare:
    def make(
        body: Body = ECHO, name: str = "tool", limits: ResourceLimits | None = None, **options: object
    ) -> PreparedTool:
        return runtime.prepare(name, wat2wasm(tool(body)), limits=limits, **options)  # type: ignore[arg-type]

    return make


def says(text: str, **parts: object) -> Body:
    """A tool that always returns `text`."""
    data = text.encode()
    return Body(text=data, execute=f"(call $say (i32.const 1024) (i32.const {len(data)}))", **parts)  # type: ignore[arg-type]


def fails(text: str) -> Body:
    data = text.encode()
    return Body(text=data, execute=f"(call $fail (i32.const 1024) (i32.const {len(data)}))")


def from_eight_threads(prepared: PreparedTool) -> list[object]:
    """The results of a hundred calls from each of eight threads."""
    answers: list[object] = []

    def work() -> None:
        answers.extend(prepared.execute({}).result for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def until(condition: Callable[[], bool]) -> None:
    """Yield to other threads until `condition` is true; fail after 20 s."""
    for _ in range(20_000):
        if condition():
            return
        threading.Event().wait(0.001)
    pytest.fail("the condition never held")
