"""Guests whose values take the engine long to convert, which nothing interrupts: their worker is ended."""

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

# Four hundred thousand headers, which the engine makes host values of before anybody can look at one.
RECORDS = Body(
    imports=("fetch",),
    execute=f"""(drop (memory.grow (i32.const 900)))
    (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const 400000)
      {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)""",
)
SHORT = ResourceLimits(timeout_seconds=0.05, memory_bytes=64 * MIB)


def test_a_caller_is_answered_though_the_engine_has_not_let_go_of_the_guest(runtime: WasmToolRuntime) -> None:
    slow = runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT)
    for _ in range(5):
        with pytest.raises(DeadlineExceededError) as caught:
            slow.execute({})
        assert caught.value.usage is not None
        assert runtime.pipeline.admission.running == 0  # its worker was ended, and its permit given back
    honest = runtime.prepare("honest", wat2wasm(tool(Body(imports=("fetch",)))))
    assert honest.execute({}).result == {"ok": True}


def test_a_runtime_that_closes_has_no_guest_left_that_nobody_waits_for() -> None:
    with (
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime,
        pytest.raises(DeadlineExceededError),
    ):
        runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT).execute({})
    assert runtime.pipeline.admission.running == 0


def test_a_tool_behind_an_alias_is_put_away_before_its_caller_goes_on(runtime: WasmToolRuntime) -> None:
    runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=SHORT)
    asker = relay(runtime, "asker", "slow")
    for _ in range(5):
        with pytest.raises(GuestError, match="deadline"):
            asker.execute({})
        assert runtime.pipeline.admission.running == 0


def test_a_time_beyond_what_threads_can_wait_is_as_good_as_any(prepare: Prepare) -> None:
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


def test_what_a_guest_raises_apart_reaches_its_caller(prepare: Prepare) -> None:
    failing = Body(imports=("fetch",), text=b"no", execute="(call $fail (i32.const 1024) (i32.const 2))")
    with pytest.raises(GuestError, match="no") as caught:
        prepare(failing).execute({})
    assert isinstance(caught.value, ToolError)
    assert caught.value.usage is not None
    assert caught.value.usage.fuel > 0


def test_params_that_take_longer_than_a_call_may_last_end_it_while_they_are_read(prepare: Prepare) -> None:
    echo = prepare(limits=ResourceLimits(timeout_seconds=0.001))
    numbers = 2_000_000
    text = f'{{"x":[{",".join(["1"] * numbers)}]}}'

    def call() -> None:
        with pytest.raises(DeadlineExceededError):
            echo.execute(text)

    assert turns(call) < numbers / 10
