"""Batches of calls of one tool: bounded, ordered or unordered; a failed call does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO, Prepare, until
from wasmrt import ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import CancelledError, GuestError, InvalidParametersError
from wasmrt.core.lifetime import Lifetime
from wasmrt.runtime.call import CallRequest, run_call
from wasmrt.sandbox.guest.engine import wat2wasm


def test_results_have_the_order_of_the_batch(prepare: Prepare) -> None:
    results = list(prepare().execute_many({"n": n} for n in range(50)))
    assert [result.place for result in results] == list(range(50))
    assert [result.output.result for result in results if result.output] == [{"n": n} for n in range(50)]


def test_unordered_results_arrive_exactly_once(prepare: Prepare) -> None:
    results = list(prepare().execute_many([{"n": n} for n in range(50)], ordered=False, parallel=4))
    assert sorted(result.place for result in results) == list(range(50))
    assert all(result.output is not None and result.output.result == {"n": result.place} for result in results)


def test_a_failed_call_is_a_separate_result(prepare: Prepare) -> None:
    says_no = prepare(Body(text=b"no", execute="(call $fail (i32.const 1024) (i32.const 2))"), name="no")
    results = list(says_no.execute_many([{}, "{", {}]))
    assert [type(result.error) for result in results] == [GuestError, InvalidParametersError, GuestError]
    assert all(result.output is None for result in results)


@pytest.mark.parametrize("ordered", [True, False])
def test_params_are_read_only_up_to_the_concurrency_limit(prepare: Prepare, ordered: bool) -> None:
    taken = 0

    def params() -> Iterator[dict[str, int]]:
        nonlocal taken
        while True:  # a batch may be endless
            taken += 1
            yield {}

    results = prepare().execute_many(params(), parallel=3, ordered=ordered)
    for seen in range(1, 20):
        next(results)
        assert taken <= seen + 3
    results.close()  # type: ignore[attr-defined]


SPINS_UNLESS_FAST = Body(
    execute="(if (i32.eq (local.get $length) (i32.const 2)) (then (loop $on (br $on)))) (call $ok)"
)
A_MINUTE = ResourceLimits(timeout_seconds=60, fuel=2**60)
"""Three times the awaited duration, so that the deadline does not end the calls."""


def test_leaving_a_batch_early_cancels_running_calls(runtime: WasmToolRuntime, prepare: Prepare) -> None:
    spin = prepare(SPINS_UNLESS_FAST, limits=A_MINUTE)
    results = spin.execute_many([{"fast": 1}, {}, {}, {}], parallel=4)
    assert next(results).output is not None
    results.close()  # type: ignore[attr-defined]
    until(lambda: runtime.pipeline.admission.running == 0)


def test_leaving_an_async_batch_early_cancels_running_calls(runtime: WasmToolRuntime, prepare: Prepare) -> None:
    spin = prepare(SPINS_UNLESS_FAST, limits=A_MINUTE)

    async def first() -> bool:
        results = spin.aexecute_many([{"fast": 1}, {}, {}, {}], parallel=4)
        output = (await anext(results)).output
        await results.aclose()  # type: ignore[attr-defined]
        return output is not None

    assert asyncio.run(first())
    until(lambda: runtime.pipeline.admission.running == 0)


def test_a_call_cancelled_before_its_start_does_not_run(prepare: Prepare) -> None:
    spin = prepare(SPINS_UNLESS_FAST, limits=A_MINUTE)
    lifetime = Lifetime(60)
    lifetime.cancel()
    with pytest.raises(CancelledError):
        run_call(spin._runner.pipeline, spin._target, CallRequest(spin.name, {}, lifetime=lifetime))


def test_an_event_loop_is_not_blocked(prepare: Prepare) -> None:
    async def collect() -> list[int]:
        return [result.place async for result in prepare().aexecute_many([{}] * 10, parallel=2)]

    assert asyncio.run(collect()) == list(range(10))


def test_an_empty_batch_has_no_results(prepare: Prepare) -> None:
    assert list(prepare(ECHO).execute_many([])) == []


@pytest.mark.parametrize("ordered", [True, False])
def test_an_error_outside_a_call_ends_the_batch(ordered: bool) -> None:
    def audit(record: dict[str, object]) -> None:
        raise LookupError("the auditor's")

    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=audit)) as runtime:
        prepared = runtime.prepare("tool", wat2wasm(tool(ECHO)))
        with pytest.raises(LookupError, match="the auditor's"):
            list(prepared.execute_many([{}] * 4, ordered=ordered, parallel=2))
        until(lambda: runtime.pipeline.admission.running == 0)
