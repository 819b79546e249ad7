"""Guarantees that do not depend on worker processes: the tests of this folder, with guests in the host's process.

`test_attacks.py` runs all attacks in this mode. Most tests of `border/` (grants, secrets, budgets) use only this mode.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest
from wasmrt.testing import attacks
from wasmrt.testing.attacks import Body

from tests.runtime.call.conftest import until
from tests.sandbox.escape import test_answers, test_component_model, test_limits, test_reach
from tests.sandbox.escape.conftest import Make, ended
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import CancelledError, DeadlineExceededError, RuntimeClosedError, TrapError, WasmrtError
from wasmrt.sandbox.guest.engine import wat2wasm


@pytest.fixture(scope="module")
def runtime() -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS)) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def honest(runtime: WasmToolRuntime) -> PreparedTool:
    return runtime.prepare("honest", wat2wasm(attacks.tool(Body())))


GUARANTEES: dict[str, Callable[[Make], None]] = {
    "fuel": test_limits.test_a_fuel_error_reports_limit_usage_and_setting,
    "deadline of a loop": test_limits.test_a_deadline_error_reports_limit_usage_and_setting,
    "output": test_limits.test_an_output_over_its_limit_is_refused,
    "memory": test_limits.test_exceeding_the_memory_limit_reports_the_needed_memory,
    "second memory": test_limits.test_a_second_memory_of_a_module_counts_against_the_limit,
    "error text on a terminal": test_answers.test_a_guests_error_text_cannot_control_a_terminal,
    "length of an error text": test_answers.test_a_long_error_text_is_truncated,
    "secret in an error text": test_answers.test_a_secret_in_an_error_text_is_withheld,
    "number of log lines": test_answers.test_a_thousand_log_lines_are_kept_and_the_rest_counted,
    "sockets": test_reach.test_a_refused_socket_names_an_alternative,
    "size of the record": test_reach.test_a_thousand_refused_lookups_leave_a_limited_record,
    "repeated refusals": test_reach.test_repeated_refusals_are_recorded_once,
    "trap": test_component_model.test_a_trap_affects_only_its_own_call,
}


@pytest.mark.table
@pytest.mark.parametrize("check", GUARANTEES.values(), ids=GUARANTEES)
def test_a_guarantee_holds_in_process(check: Callable[[Make], None], make: Make, honest: PreparedTool) -> None:
    check(make)
    assert honest.execute({}).result == {"ok": True}


@pytest.mark.ci("slow")
def test_the_number_of_host_calls_is_limited_in_process(make: Make) -> None:
    test_limits.test_a_guest_is_limited_to_a_million_host_calls(make)


@pytest.mark.parametrize("body", test_component_model.TRAPS.values(), ids=test_component_model.TRAPS)
def test_each_trap_of_the_specification_ends_only_its_call(make: Make, honest: PreparedTool, body: Body) -> None:
    assert isinstance(ended(make(body)), TrapError)
    assert honest.execute({}).result == {"ok": True}


@pytest.mark.parametrize("body", test_component_model.STARTS.values(), ids=test_component_model.STARTS)
def test_a_failure_at_the_start_ends_only_its_component(make: Make, honest: PreparedTool, body: Body) -> None:
    with pytest.raises(WasmrtError):
        make(body).execute({})
    assert honest.execute({}).result == {"ok": True}


BAD = [*test_component_model.INVALID.values(), *test_component_model.UNLINKABLE.values()]


@pytest.mark.parametrize("text", BAD, ids=map(str, range(len(BAD))))
def test_an_invalid_component_is_refused_in_process(runtime: WasmToolRuntime, text: str) -> None:
    with pytest.raises(WasmrtError):
        runtime.prepare("invalid", wat2wasm(text))


SLEEPER = wat2wasm(attacks.tool(test_limits._ASLEEP))
LOOPER = wat2wasm(attacks.tool(Body(execute=test_limits._LOOP)))
LONG = ResourceLimits(timeout_seconds=3600, fuel=2**60)


@pytest.mark.parametrize("component", [SLEEPER, LOOPER], ids=["sleeping", "computing"])
def test_a_guest_does_not_delay_the_calls_of_others(component: bytes, runtime: WasmToolRuntime) -> None:
    with WasmToolRuntime(runtime.config) as other:
        busy = other.prepare("busy", component, limits=LONG)
        honest = other.prepare("honest", wat2wasm(attacks.tool(Body())))
        errors: list[BaseException] = []
        thread = threading.Thread(target=lambda: errors.append(ended(busy, user="busy")))
        thread.start()
        until(lambda: other.pipeline.admission.running == 1)
        for _ in range(20):
            assert honest.execute({}, user="ann").result == {"ok": True}
        assert errors == []
    thread.join()
    assert [type(error) for error in errors] in ([RuntimeClosedError], [CancelledError])


@pytest.mark.parametrize("component", [SLEEPER, LOOPER], ids=["sleeping", "computing"])
def test_cancelling_ends_a_guest_and_frees_its_permit(component: bytes, runtime: WasmToolRuntime) -> None:
    config = WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS, max_concurrent_calls=1)
    with WasmToolRuntime(config) as other:
        busy = other.prepare("busy", component, limits=LONG)
        honest = other.prepare("honest", wat2wasm(attacks.tool(Body())), limits=ResourceLimits(timeout_seconds=30))

        async def give_up() -> object:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(busy.aexecute({}), 0.1)
            return (await honest.aexecute({})).result

        assert asyncio.run(give_up()) == {"ok": True}


def test_the_deadline_ends_a_sleeping_guest(runtime: WasmToolRuntime) -> None:
    busy = runtime.prepare("sleeper", SLEEPER, limits=ResourceLimits(timeout_seconds=0.2))
    assert isinstance(ended(busy), DeadlineExceededError)


STEPS = """(global.set $count (i32.add (global.get $count) (i32.const 1)))
(if (i32.ne (global.get $count) (i32.const 1)) (then (unreachable)))
(if (i32.load (i32.const 4096)) (then (unreachable)))
(i32.store (i32.const 4096) (i32.const 7)) (call $ok)"""


def test_calls_of_different_users_share_no_state(make: Make) -> None:
    stateful = make(Body(functions="(global $count (mut i32) (i32.const 0))", execute=STEPS))
    for user in ("ann", "bob", "ann"):
        assert stateful.execute({}, user=user).result == {"ok": True}
