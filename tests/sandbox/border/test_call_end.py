"""The end of a call: cleanup of its resources, and its receipt."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import wasmtime
from wasmrt.testing import ReceivedRequest, ServerConnection
from wasmrt.testing.attacks import Body, tool

import wasmrt.runtime.call._state as call_state
from tests.runtime.call.conftest import until
from tests.sandbox.border.conftest import Site, StandIn, Start, a_call, only_tool
from tests.sandbox.border.relays import FETCH, reporter
from wasmrt import Capabilities, ResourceLimits, ToolError
from wasmrt.core.errors import CancelledError
from wasmrt.core.model import LogLevel
from wasmrt.egress.gateway import EgressGateway
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.backends import GuestHttp
from wasmrt.runtime.call import (
    Admission,
    Backends,
    Call,
    CallPipeline,
    CallRequest,
    CallServices,
    CallTarget,
    run_call,
)
from wasmrt.runtime.call._answer import Answer, clean_logs, scan_answer
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.requests import HttpClose, HttpOpen
from wasmrt.sandbox.guest.runner import GuestComponent
from wasmrt.sandbox.guest.services import NoServices

TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"


def endless(request: ReceivedRequest, connection: ServerConnection) -> None:
    """A body that does not end."""
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nfirst")
    while connection.sock.recv(1000):
        pass


def test_open_responses_are_closed_when_the_call_ends(
    site: Callable[..., Site],
) -> None:
    here = site(endless)
    with EgressGateway(here.network) as gateway:
        host = CallServices(a_call(here.grant(), backends={"http": GuestHttp(gateway)}))
        asked = HttpOpen("GET", here.url())
        first = host.handle(asked)
        host.handle(asked)
        assert len(here.server._open) == 2
        host.handle(HttpClose(first.handle))
        until(lambda: len(here.server._open) == 1)
        host.handle(asked)
        assert len(here.server._open) == 2
        host.close()
        until(lambda: len(here.server._open) == 0)


@pytest.mark.parametrize("error", [None, LookupError("the guest's")])
def test_connections_are_closed_when_the_call_ends(site: Callable[..., Site], error: Exception | None) -> None:
    here = site(endless)
    records: list[Receipt] = []
    rates = RateLimiter()

    def leave(call: GuestCall, params: str, context: str | None) -> str:
        call.services.handle(HttpOpen("GET", here.url()))
        if error is not None:
            raise error
        return "{}"

    with EgressGateway(here.network, rates=rates) as gateway:
        pipeline = CallPipeline(Admission(1), rates, SystemClock, records.append)
        backends = Backends(LeakDetector(), http=GuestHttp(gateway))
        component = cast(GuestComponent, StandIn(leave))
        target = CallTarget("leaver", "d" * 64, component, here.grant(), lambda _grant: backends)
        if error is None:
            run_call(pipeline, target, CallRequest("tool", {}))
        else:
            with pytest.raises(ToolError):
                run_call(pipeline, target, CallRequest("tool", {}))
        until(lambda: len(here.server._open) == 0)
    assert len(here.server.requests) == 1
    assert pipeline.admission.running == 0
    assert [record.usage.http_requests for record in records] == [1]


def test_a_receipt_has_user_tool_and_times(start: Start) -> None:
    records: list[dict[str, Any]] = []
    prepared = only_tool(start(audit=records.append), reporter())
    before = time.time_ns() // 1_000_000
    prepared.execute({}, user="ann")
    after = time.time_ns() // 1_000_000
    (record,) = records
    assert before <= record["started_ms"] <= record["ended_ms"] <= after
    told = (record["tool"], record["user"], record["chain"], record["digest"], record["outcome"])
    assert told == ("tool", "ann", ["tool"], prepared.digest, "ok")
    assert (record["decisions"], record["decisions_dropped"]) == ([], 0)


def test_an_interrupted_call_leaves_a_receipt_with_its_usage(start: Start) -> None:
    def report(done: int, total: int | None, message: str | None) -> None:
        raise KeyboardInterrupt

    records: list[dict[str, Any]] = []
    prepared = only_tool(start(audit=records.append), reporter())
    with pytest.raises(KeyboardInterrupt) as caught:
        prepared.execute({}, on_progress=report)
    assert [record["outcome"] for record in records] == ["KeyboardInterrupt"]
    assert records[0]["usage"]["host_calls"] == 1
    assert caught.value.__cause__ is not caught.value


def test_the_error_of_a_call_is_not_its_own_cause(start: Start) -> None:
    trap = bytes(wasmtime.wat2wasm(tool(Body(execute="unreachable"))))
    with pytest.raises(ToolError) as caught:
        start().prepare("trap", trap).execute({})
    seen: list[BaseException] = [caught.value]
    while (cause := seen[-1].__cause__) is not None:
        assert cause not in seen
        seen.append(cause)


def test_a_late_call_has_a_clear_message(start: Start) -> None:
    loop = bytes(wasmtime.wat2wasm(tool(Body(execute="(loop (br 0)) (unreachable)"))))
    late = start().prepare("late", loop, limits=ResourceLimits(fuel=2**60, timeout_seconds=0.1))
    with pytest.raises(ToolError) as caught:
        late.execute({})
    assert caught.value.message == "the call passed its deadline of 0.1 s"


def test_a_guest_with_bounded_values_runs_on_the_callers_thread(start: Start) -> None:
    where: list[threading.Thread] = []

    def report(done: int, total: int | None, message: str | None) -> None:
        where.append(threading.current_thread())

    only_tool(start(), reporter()).execute({}, on_progress=report)
    assert where == [threading.current_thread()]


def test_a_cancelled_call_closes_the_connection_to_a_silent_server(start: Start, site: Callable[..., Site]) -> None:
    asked = threading.Event()

    def silent(request: ReceivedRequest, connection: ServerConnection) -> None:
        asked.set()
        connection.closing.wait()

    here = site(silent)
    runtime = start(network=here.network)
    grant = here.grant(timeout_seconds=3600)
    fetch = only_tool(runtime, FETCH.component(), grant, limits=ResourceLimits(timeout_seconds=3600))

    async def give_up() -> None:
        task = asyncio.create_task(fetch.aexecute({"request": [0, here.url(), [], None, None]}))
        await asyncio.to_thread(asked.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    until(lambda: runtime.pipeline.admission.running == 0)


def test_a_grant_of_nothing_has_no_secrets(start: Start) -> None:
    assert a_call(Capabilities.none()).secrets is None


# -- time that passes while a result is checked ----------------------------------------------------------------------


def guest_of(call: Call, *logs: str) -> Call:
    """The call with a guest that has left these log lines."""
    call.guest = GuestCall(call.lifetime, call.limits, NoServices(), SystemClock())
    for line in logs:
        call.guest.log(LogLevel.INFO, line)
    return call


def test_a_result_is_dropped_if_scanning_took_until_the_deadline(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan_and_end(call: Call, answer: Answer) -> Answer:
        call.lifetime.cancel()
        return answer

    monkeypatch.setattr("wasmrt.runtime.call._call.scan_answer", scan_and_end)
    with pytest.raises(CancelledError):
        only_tool(start(), reporter()).execute({})


def test_texts_of_a_result_are_scanned_only_until_the_deadline() -> None:
    call = guest_of(a_call())
    call.lifetime.cancel()
    with pytest.raises(CancelledError):
        scan_answer(call, Answer([TOKEN], f'["{TOKEN}"]'))


def test_logs_are_scanned_for_a_short_time_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 60.0)
    call = guest_of(a_call(timeout_seconds=0.001), "hello", TOKEN)
    until(lambda: call.lifetime.is_over)
    assert [entry.message for entry in clean_logs(call)] == ["hello", "[REDACTED:github-pat]"]


def test_a_call_without_log_entries_has_no_logs() -> None:
    assert clean_logs(a_call()) == clean_logs(guest_of(a_call())) == ()
