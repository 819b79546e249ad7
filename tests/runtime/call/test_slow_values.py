"""Values that the engine converts slowly and uninterruptibly: their worker is killed."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.core.test_strict_json import turns
from tests.runtime.call.conftest import Prepare
from tests.runtime.call.test_invoke import relay
from wasmrt import ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import DeadlineExceededError, GuestError, ToolError
from wasmrt.core.limits import MIB
from wasmrt.sandbox.guest.engine import wat2wasm

# Four hundred thousand headers, which the engine converts to host values before they can be checked.
RECORDS = Body(
    imports=("fetch",),
    execute=f"""(drop (memory.grow (i32.const 900)))
    (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const 400000)
      {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)""",
)
SHORT = ResourceLimits(timeout_seconds=0.05, memory_bytes=64 * MIB)


def test_a_caller_gets_its_error_while_the_engine_still_runs_the_guest(runtime: WasmToolRuntime) -> None:
    slow = runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT)
    for _ in range(5):
        with pytest.raises(DeadlineExceededError) as caught:
            slow.execute({})
        assert caught.value.usage is not None
        assert runtime.pipeline.admission.running == 0  # its worker was killed, and its permit released
    honest = runtime.prepare("honest", wat2wasm(tool(Body(imports=("fetch",)))))
    assert honest.execute({}).result == {"ok": True}


def test_a_closed_runtime_has_no_abandoned_guests() -> None:
    with (
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime,
        pytest.raises(DeadlineExceededError),
    ):
        runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT).execute({})
    assert runtime.pipeline.admission.running == 0


def test_an_invoked_tool_is_released_before_its_caller_continues(runtime: WasmToolRuntime) -> None:
    runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT)
    asker = relay(runtime, "asker", "slow")
    for _ in range(5):
        with pytest.raises(GuestError, match="deadline"):
            asker.execute({})
        assert runtime.pipeline.admission.running == 0


def test_a_timeout_beyond_the_thread_limit_is_accepted(prepare: Prepare) -> None:
    forever = prepare(Body(imports=("fetch",)), limits=ResourceLimits(timeout_seconds=2**60))
    assert forever.execute({}).result == {"ok": True}


def test_the_callers_context_variables_are_seen_by_its_callbacks(
    runtime: WasmToolRuntime, guest: Callable[[str], bytes]
) -> None:
    whose = contextvars.ContextVar("whose", default="nobody's")
    whose.set("the caller's")
    seen: list[str] = []
    tool_ = runtime.prepare("provider", guest("rust-tool")).tool("progress")
    tool_.execute({}, on_progress=lambda *_: seen.append(whose.get()))
    assert set(seen) == {"the caller's"}


def test_errors_from_a_guests_thread_reach_its_caller(prepare: Prepare) -> None:
    failing = Body(imports=("fetch",), text=b"no", execute="(call $fail (i32.const 1024) (i32.const 2))")
    with pytest.raises(GuestError, match="no") as caught:
        prepare(failing).execute({})
    assert isinstance(caught.value, ToolError)
    assert caught.value.usage is not None
    assert caught.value.usage.fuel > 0


def test_reading_params_beyond_the_deadline_ends_the_call(prepare: Prepare) -> None:
    echo = prepare(limits=ResourceLimits(timeout_seconds=0.001))
    numbers = 2_000_000
    text = f'{{"x":[{",".join(["1"] * numbers)}]}}'

    def call() -> None:
        with pytest.raises(DeadlineExceededError):
            echo.execute(text)

    assert turns(call) < numbers / 10
