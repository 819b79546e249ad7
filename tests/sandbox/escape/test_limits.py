"""Exceeded limits report limit, usage and setting, and apply wherever guest code runs."""

from __future__ import annotations

import asyncio
import threading

import pytest
from wasmrt.testing import attacks
from wasmrt.testing.attacks import Body

from tests.runtime.call.conftest import until
from tests.sandbox.escape.conftest import Make, ended
from wasmrt import ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import (
    BudgetExceededError,
    CancelledError,
    DeadlineExceededError,
    FuelExhaustedError,
    InvalidComponentError,
    MemoryLimitError,
    OutputLimitError,
    RuntimeClosedError,
    TrapError,
)
from wasmrt.core.limits import MAX_HOST_CALLS, MAX_RANDOM_BYTES, MIB
from wasmrt.sandbox.guest.engine import wat2wasm

_HOUR = 3_600_000_000_000
_ASLEEP = Body(
    imports=("subscribe-duration", "block"),
    execute=f"(call $block (call $subscribe-duration (i64.const {_HOUR}))) (call $ok)",
)
_LOOP = "(loop $again (br $again)) (unreachable)"


def test_a_fuel_error_reports_limit_usage_and_setting(make: Make) -> None:
    error = ended(make(Body(execute=_LOOP), ResourceLimits(fuel=50_000)))
    assert isinstance(error, FuelExhaustedError)
    assert (error.limit, error.setting) == (50_000, "limits.fuel")
    assert error.usage is not None
    assert error.usage.fuel >= 49_000


def test_a_deadline_error_reports_limit_usage_and_setting(make: Make) -> None:
    error = ended(make(Body(execute=_LOOP)))
    assert isinstance(error, DeadlineExceededError)
    assert error.limit == pytest.approx(attacks.ONLY_THE_CLOCK.timeout_seconds)
    assert error.setting == "limits.timeout_seconds"
    assert error.usage is not None
    assert error.usage.wall_seconds >= attacks.ONLY_THE_CLOCK.timeout_seconds


@pytest.mark.ci("slow")
def test_a_guest_is_limited_to_a_million_host_calls(make: Make) -> None:
    body = Body(
        imports=("get-random-u64",), execute="(loop $again (drop (call $get-random-u64)) (br $again)) (unreachable)"
    )
    error = ended(make(body, ResourceLimits(fuel=2**60, timeout_seconds=60)))
    assert isinstance(error, BudgetExceededError)
    assert error.setting == "limits.MAX_RANDOM_BYTES"
    assert error.used == MAX_RANDOM_BYTES + 8
    body = Body(imports=("now-millis",), execute="(loop $again (drop (call $now-millis)) (br $again)) (unreachable)")
    error = ended(make(body, ResourceLimits(fuel=2**60, timeout_seconds=60)))
    assert isinstance(error, BudgetExceededError)
    assert error.used == MAX_HOST_CALLS + 1


def test_an_output_over_its_limit_is_refused(make: Make) -> None:
    text = b'"' + b"x" * 998 + b'"'
    body = Body(text=text, execute="(call $say (i32.const 1024) (i32.const 1000))")
    assert make(body, ResourceLimits(output_bytes=1000)).execute({}).result == "x" * 998
    error = ended(make(body, ResourceLimits(output_bytes=999)))
    assert isinstance(error, OutputLimitError)
    assert (error.limit, error.used) == (999, 1000)


def test_exceeding_the_memory_limit_reports_the_needed_memory(make: Make) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        make(Body(pages=320), ResourceLimits(memory_bytes=16 * MIB))
    assert caught.value.setting == "limits.memory_bytes"
    assert "32 MiB" in caught.value.message


def test_a_guest_that_is_refused_memory_and_aborts_gets_a_hint_with_the_limit(make: Make) -> None:
    """The engine does not report refused memory growth, so an abort without a message is only known as a trap."""
    grows = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)"
    error = ended(make(Body(execute=grows), ResourceLimits(memory_bytes=16 * MIB)))
    assert error.code == "trap-unreachable"
    assert "memory over its limit of 16 MiB" in (error.hint or "")


@pytest.mark.parametrize(
    "line", ["memory allocation of 4194304 bytes failed", "fatal error: out of memory", "MemoryError"]
)
def test_an_abort_after_a_report_of_a_failed_allocation_is_a_memory_error(make: Make, line: str) -> None:
    said = f"(call $log (i32.const 3) (i32.const 1024) (i32.const {len(line)}))"
    error = ended(make(Body(imports=("log",), text=line.encode(), execute=f"{said} (unreachable)")))
    assert isinstance(error, MemoryLimitError)
    assert error.message.endswith(f"memory limit of 64 MiB: {line}")


def test_an_abort_after_other_output_or_another_trap_is_not_a_memory_error(make: Make) -> None:
    line = "memory allocation of 8 bytes failed"
    for text, end in ((f"{line}: not at all", ""), (line, "(drop (i32.load (i32.const -4)))")):
        said = f"(call $log (i32.const 3) (i32.const 1024) (i32.const {len(text)}))"
        error = ended(make(Body(imports=("log",), text=text.encode(), execute=f"{said} {end} (unreachable)")))
        assert isinstance(error, TrapError)


def test_a_second_memory_of_a_module_counts_against_the_limit(make: Make) -> None:
    # Fails with its own message if both memories together got more pages than the budget allows.
    pages = attacks.ONLY_THE_CLOCK.memory_bytes // 65536
    body = Body(
        functions="(memory $second 1)",
        execute=f"""(loop $more (br_if $more (i32.ne (memory.grow 0 (i32.const 1)) (i32.const -1))))
        (loop $more (br_if $more (i32.ne (memory.grow $second (i32.const 1)) (i32.const -1))))
        (if (i32.gt_u (i32.add (memory.size 0) (memory.size $second)) (i32.const {pages}))
          (then (return (call $fail (i32.const 512) (i32.const 11))))) (call $ok)""",
    )
    try:
        tool = make(body)
    except InvalidComponentError:
        return  # the pool has only one memory for each module, so the module is refused
    assert tool.execute({}).result == {"ok": True}


def test_sixty_four_sleeping_guests_do_not_delay_other_calls() -> None:
    errors: list[BaseException] = []
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=64)) as runtime:
        sleeper = runtime.prepare(
            "sleeper", wat2wasm(attacks.tool(_ASLEEP)), limits=ResourceLimits(timeout_seconds=3600, fuel=2**60)
        )
        honest = runtime.prepare("honest", wat2wasm(attacks.tool(Body())))
        threads = [
            threading.Thread(target=lambda: errors.append(ended(sleeper, user="sleepy")), daemon=True)
            for _ in range(64)
        ]
        for thread in threads:
            thread.start()
        until(lambda: runtime.pipeline.admission.running == 64)
        assert honest.execute({}, user="awake").result == {"ok": True}
        assert errors == []
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [RuntimeClosedError] * 64


def test_cancelling_stops_a_sleeping_guest_and_frees_its_permit() -> None:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, max_concurrent_calls=1)) as runtime:
        sleeper = runtime.prepare(
            "sleeper", wat2wasm(attacks.tool(_ASLEEP)), limits=ResourceLimits(timeout_seconds=3600)
        )
        # Without a permit, it would reach its own deadline.
        honest = runtime.prepare("honest", wat2wasm(attacks.tool(Body())), limits=ResourceLimits(timeout_seconds=30))

        async def give_up() -> object:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sleeper.aexecute({}), 0.1)
            return (await honest.aexecute({})).result

        assert asyncio.run(give_up()) == {"ok": True}


def test_closing_the_runtime_ends_every_call_with_a_typed_error() -> None:
    runtime = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False))
    sleeper = runtime.prepare("sleeper", wat2wasm(attacks.tool(_ASLEEP)), limits=ResourceLimits(timeout_seconds=30))
    looper = runtime.prepare(
        "looper", wat2wasm(attacks.tool(Body(execute=_LOOP))), limits=ResourceLimits(timeout_seconds=30, fuel=2**60)
    )
    errors = []
    threads = [
        threading.Thread(target=lambda tool=tool: errors.append(ended(tool)), daemon=True) for tool in (sleeper, looper)
    ]
    for thread in threads:
        thread.start()
    until(lambda: runtime.pipeline.admission.running == 2)
    runtime.close()
    for thread in threads:
        thread.join(5)
    assert {type(error) for error in errors} <= {RuntimeClosedError, CancelledError}
    assert len(errors) == 2


@pytest.mark.ci("slow")
def test_compiling_a_huge_component_does_not_delay_calls(runtime: WasmToolRuntime, make: Make) -> None:
    honest = make(Body(), ResourceLimits(timeout_seconds=10))
    bomb = wat2wasm(attacks.tool(Body(functions="(func)" * 100_000)))
    compiling = threading.Thread(target=lambda: runtime.prepare("bomb", bomb), daemon=True)
    compiling.start()
    calls = 0
    while compiling.is_alive():
        assert honest.execute({}).result == {"ok": True}
        calls += 1
    assert calls > 10
    runtime.forget("bomb")
