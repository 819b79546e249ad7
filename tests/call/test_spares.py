"""Spare instances: made ahead of the call, used once, and dropped in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.call.conftest import ECHO, from_eight_threads, until
from tests.call.test_concurrency import COUNT
from wasmrt import PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities
from wasmrt.errors import ConfigurationError, DeadlineExceededError, FuelExhaustedError, TrapError
from wasmrt.guest.engine import wat2wasm
from wasmrt.limits import MAX_SPARE_BYTES, MAX_SPARE_INSTANCES, MIB
from wasmrt.testing.attacks import Body, tool

SPIN = "(loop $again (br $again))"


@pytest.fixture
def runtime() -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, spare_instances=2)) as made:
        yield made


def made(runtime: WasmToolRuntime, body: Body, **options: object) -> PreparedTool:
    return runtime.prepare("tool", wat2wasm(tool(body)), **options)  # type: ignore[arg-type]


def warm(prepared: PreparedTool) -> None:
    """Call it often enough for its spares to be made."""
    for _ in range(3):
        prepared.execute({})
    until(lambda: prepared.ready_spares > 0)


def test_a_tool_that_is_called_once_gets_no_spare_and_one_that_is_called_again_does(runtime: WasmToolRuntime) -> None:
    once, often = made(runtime, COUNT), runtime.prepare("often", wat2wasm(tool(COUNT)))
    once.execute({})
    warm(often)  # the thread works in order: what `once` asked for was looked at before
    assert once.ready_spares == 0


def test_every_spare_is_fresh_and_used_once_from_eight_threads(runtime: WasmToolRuntime) -> None:
    counter = made(runtime, COUNT)
    warm(counter)
    answers = from_eight_threads(counter)
    assert answers == [1] * 800
    assert counter.ready_spares <= 2


def test_a_call_with_a_spare_uses_as_much_fuel_as_one_without(runtime: WasmToolRuntime) -> None:
    step = "(local.tee $i (i32.add (local.get $i) (i32.const 1)))"
    start = f"(local $i i32) (loop $again (br_if $again (i32.lt_u {step} (i32.const 9))))"
    counter = made(runtime, Body(start=start))
    first = counter.execute({}).usage.fuel
    warm(counter)
    assert counter.execute({}).usage.fuel == first


def test_the_limits_of_a_call_hold_in_a_spare(runtime: WasmToolRuntime) -> None:
    limits = ResourceLimits(timeout_seconds=0.2)
    when_asked = Body(execute=f"(if (i32.gt_u (local.get $length) (i32.const 2)) (then {SPIN})) (call $ok)")
    spinner = made(runtime, when_asked, limits=limits)
    warm(spinner)
    with pytest.raises((DeadlineExceededError, FuelExhaustedError)):
        spinner.execute({"spin": True})
    assert spinner.execute({}).result is not None


def test_a_trap_in_a_spare_is_told_and_the_next_call_works(runtime: WasmToolRuntime) -> None:
    broken = made(
        runtime, Body(execute="(if (i32.gt_u (local.get $length) (i32.const 2)) (then (unreachable))) (call $ok)")
    )
    warm(broken)
    with pytest.raises(TrapError):
        broken.execute({"trap": True})
    assert broken.execute({}).result is not None


def test_a_start_function_that_asks_the_host_runs_only_in_a_call(runtime: WasmToolRuntime) -> None:
    asking = made(runtime, Body(imports=("now-millis",), start="(drop (call $now-millis))"))
    usual = runtime.prepare("usual", wat2wasm(tool(COUNT)))
    for _ in range(3):
        assert asking.execute({}).usage.host_calls == 1
    warm(usual)  # after the thread has tried the other
    assert asking.ready_spares == 0
    assert asking.execute({}).usage.host_calls == 1


def test_spares_go_when_the_tool_is_prepared_under_another_grant_or_forgotten(runtime: WasmToolRuntime) -> None:
    first = made(runtime, ECHO)
    warm(first)
    second = made(runtime, ECHO, capabilities=Capabilities.none().with_workspace_read(["a/"]))
    assert first.ready_spares == 0
    warm(second)
    runtime.forget("tool")
    assert second.ready_spares == 0
    assert second.execute({"still": 1}).result == {"still": 1}


def test_a_spare_made_under_one_grant_serves_no_other(runtime: WasmToolRuntime) -> None:
    counter = made(runtime, COUNT)
    warm(counter)
    until(lambda: counter.ready_spares == 2)
    counter.capabilities = Capabilities.none().with_workspace_read(["a/"])
    assert counter.execute({}).result == 1
    until(lambda: counter.ready_spares > 0)


def test_the_memory_of_all_spares_together_is_bounded(runtime: WasmToolRuntime) -> None:
    limits = ResourceLimits(memory_bytes=128 * MIB)
    tools = [runtime.prepare(f"tool-{n}", wat2wasm(tool(ECHO)), limits=limits) for n in range(4)]
    for _ in range(4):
        for one in tools:
            one.execute({})
    until(lambda: sum(one.ready_spares for one in tools) == MAX_SPARE_BYTES // (128 * MIB))
    for one in tools:
        assert one.execute({"still": 1}).result == {"still": 1}


def test_closing_drops_the_spares_and_ends_their_thread() -> None:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, spare_instances=1)) as runtime:
        counter = made(runtime, COUNT)
        warm(counter)
        assert any(thread.name == "wasmrt-spares" for thread in threading.enumerate())
    assert counter.ready_spares == 0
    assert not any(thread.name == "wasmrt-spares" for thread in threading.enumerate())


@pytest.mark.parametrize("count", [-1, MAX_SPARE_INSTANCES + 1, True, 1.5])
def test_the_number_of_spares_has_bounds(count: object) -> None:
    with pytest.raises(ConfigurationError, match="spare_instances"):
        WasmRuntimeConfig(spare_instances=count)  # type: ignore[arg-type]


def test_without_a_thread_for_them_there_are_no_spares_and_calls_go_on(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = made(runtime, COUNT)

    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        assert [counter.execute({}).result for _ in range(20)] == [1] * 20
        assert counter.ready_spares == 0
    warm(counter)
