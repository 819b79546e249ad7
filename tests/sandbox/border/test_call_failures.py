"""Calls that the guest, the host or the caller ends: their errors, their cleanup, and the reason that counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

import wasmrt.runtime.call._state as call_state
from tests.runtime.call.conftest import until
from tests.sandbox.border.conftest import StandIn, a_call
from wasmrt import Capabilities, ResourceLimits, ToolError, ToolInvokeCapability, ToolOutput
from wasmrt.capabilities import EndpointPattern, HttpCapability, WorkspaceWriteCapability, within_effects
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CancelledError, GuestError, OutputLimitError, TrapError
from wasmrt.core.limits import MAX_DECISIONS
from wasmrt.core.model import Decision, LogLevel, Reason
from wasmrt.core.url import Network
from wasmrt.egress.gateway import EgressGateway, HttpFailure
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import EMPTY_RECEIPT, Receipt
from wasmrt.runtime.backends import GuestHttp
from wasmrt.runtime.call import (
    Admission,
    Backends,
    Call,
    CallPipeline,
    CallRequest,
    CallServices,
    CallTarget,
    ToolRunner,
    run_call,
)
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import HttpOpen, InvokeTool, SecretExists, WorkspaceWrite
from wasmrt.sandbox.guest.runner import GuestComponent

TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"


def run(
    act: Callable[[GuestCall, str, str | None], str],
    *,
    admission: Admission | None = None,
    audit: Callable[[Receipt], None] | None = None,
    grant: Capabilities | None = None,
    seconds: float = 60.0,
    backends: Any = None,
    **request: Any,
) -> ToolOutput:
    pipeline = CallPipeline(admission or Admission(1), RateLimiter(), SystemClock, audit)
    component = cast(GuestComponent, StandIn(act, seconds=seconds))
    kept = Backends(LeakDetector(), **(backends or {}))
    target = CallTarget("acting", "d" * 64, component, grant or Capabilities.none(), lambda _grant: kept)
    return run_call(pipeline, target, CallRequest("tool", {}, **request))


def test_a_guest_gets_the_context_of_its_caller_or_none() -> None:
    seen: list[str | None] = []

    def note(call: GuestCall, params: str, context: str | None) -> str:
        seen.append(context)
        return "{}"

    run(note)
    run(note, context=ToolContext(data={"a": [1, "ü"]}))
    run(note, context=ToolContext(data='{"b": 2}'))
    assert seen == [None, '{"a":[1,"ü"]}', '{"b":2}']


def test_a_failure_has_the_decisions_of_its_call_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(call: GuestCall, params: str, context: str | None) -> str:
        call.services.handle(SecretExists("token"))
        raise ToolError(f"no use for {TOKEN}")

    with pytest.raises(ToolError) as caught:
        run(fail)
    assert [(decision.allowed, decision.subject) for decision in caught.value.decisions] == [(False, "token")]
    assert str(caught.value) == caught.value.message == "no use for [REDACTED:github-pat]"


def test_the_last_error_output_of_a_guest_is_in_its_error() -> None:
    def trap(call: GuestCall, params: str, context: str | None) -> str:
        call.log(LogLevel.WARN, f"no use for {TOKEN}")
        raise TrapError("it broke")

    with pytest.raises(TrapError) as caught:
        run(trap)
    assert str(caught.value) == caught.value.message == "it broke; last output: no use for [REDACTED:github-pat]"


def test_closing_the_guest_does_not_change_a_successful_outcome() -> None:
    def claim(call: GuestCall, params: str, context: str | None) -> str:
        raise GuestError("no", code="ok")

    records: list[Receipt] = []
    with pytest.raises(GuestError) as caught:
        run(claim, audit=records.append)
    assert [caught.value.code, *(record.outcome for record in records)] == ["guest-error", "guest-error"]


def test_the_hint_of_a_failure_has_no_secret() -> None:
    def fail(call: GuestCall, params: str, context: str | None) -> str:
        raise ToolError("no", hint=f"try {TOKEN}")

    with pytest.raises(ToolError) as caught:
        run(fail)
    assert caught.value.hint == "try [REDACTED:github-pat]"


def test_a_call_takes_a_permit_unless_its_program_has_one() -> None:
    admission, taken = Admission(1), []

    def note(call: GuestCall, params: str, context: str | None) -> str:
        taken.append(admission.running)
        return "{}"

    for context in (ToolContext(), ToolContext(under_permit=True)):
        run(note, admission=admission, context=context)
    assert taken == [1, 0]


def test_a_receipt_has_the_start_and_end_of_a_call() -> None:
    def last(call: GuestCall, params: str, context: str | None) -> str:
        entered = time.monotonic_ns()
        until(lambda: time.monotonic_ns() >= entered + 20_000_000)
        return "{}"

    records: list[Receipt] = []
    began = time.time_ns()
    run(last, audit=records.append)
    (record,) = records
    assert began // 1_000_000 <= record.started_ms
    assert record.ended_ms - record.started_ms == int(record.usage.wall_seconds * 1000) >= 20


@pytest.mark.parametrize("trace", ["", "job-7"])
def test_a_receipt_continues_the_callers_trace(trace: str) -> None:
    def ask_often(call: GuestCall, params: str, context: str | None) -> str:
        for _ in range(MAX_DECISIONS + 1):
            call.services.handle(SecretExists("token"))
        return "{}"

    records: list[Receipt] = []
    run(
        ask_often,
        audit=records.append,
        context=ToolContext(receipt=EMPTY_RECEIPT._replace(trace_id=trace, decisions_dropped=2)),
    )
    (record,) = records
    assert (record.trace_id, record.decisions_dropped) == (trace or record.call_id, 3)


def test_a_denial_by_the_folders_of_a_call_has_its_reason() -> None:
    def write(call: GuestCall, params: str, context: str | None) -> str:
        with suppress(HostFailure):
            call.services.handle(WorkspaceWrite("elsewhere/a.txt", b"x"))
        return "{}"

    grant = Capabilities.none().with_workspace_write([""])
    refused = run(write, grant=grant, context=ToolContext(write_paths=(("out",),))).decisions[-1]
    assert (refused.allowed, refused.rule) == (False, "the preset does not allow tools to write to this path")


_POSTS = Capabilities.none().with_http([EndpointPattern("a.org", methods=("POST",))])
_BOTH = Capabilities.none().with_http([EndpointPattern("a.org", methods=("GET", "POST"))])
_REMOVES = Capabilities.none().with_workspace_write(WorkspaceWriteCapability(("",), remove=True))


@pytest.mark.parametrize(
    ("grant", "effects", "reason", "capability"),
    [
        (_POSTS, set(), Reason.NOT_GRANTED, "http"),
        (_POSTS, {Effect.NETWORK}, Reason.EMPTY_ALLOWLIST, "http"),
        (_BOTH, {Effect.NETWORK}, Reason.METHOD_NOT_ALLOWED, "http"),
        (_REMOVES, {Effect.WRITE_FILESYSTEM}, Reason.REMOVE_NOT_ALLOWED, "workspace_write"),
    ],
)
def test_a_denial_by_the_effects_of_a_call_has_its_reason(
    grant: Capabilities, effects: set[Effect], reason: Reason, capability: str
) -> None:
    held = frozenset(effects)
    call = Call(
        call_id="1", tool="tool", limits=ResourceLimits(), grant=within_effects(grant, held),
        full_grant=grant, backends=Backends(LeakDetector()), context=ToolContext(effects=held),
    )  # fmt: skip
    told = call.redact(Decision(False, reason, "a rule", None, capability, "a subject"))
    assert told.rule == f"the call is limited to its effects ({', '.join(sorted(effects)) or 'none'})"


def test_toolchain_advice_and_empty_lines_are_not_quoted() -> None:
    def trap(call: GuestCall, params: str, context: str | None) -> str:
        for line in ("the reason", "note: run with `RUST_BACKTRACE=1` environment variable", "  "):
            call.log(LogLevel.ERROR, line)
        raise TrapError("it broke")

    with pytest.raises(TrapError, match=r"it broke; last output: the reason$"):
        run(trap)


def test_a_result_over_the_limit_from_a_worker_is_refused() -> None:
    """A compromised worker may send a result over its limit."""
    cap = ResourceLimits().output_bytes
    assert run(lambda *_: json.dumps("x" * (cap - 2))).result == "x" * (cap - 2)
    with pytest.raises(OutputLimitError) as caught:
        run(lambda *_: json.dumps("x" * (cap - 1)))
    assert (caught.value.limit, caught.value.used) == (cap, cap + 1)


def test_output_of_a_late_call_is_scanned_for_a_short_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_late(call: GuestCall, params: str, context: str | None) -> str:
        until(lambda: call.lifetime.is_over)
        raise ToolError(f"no use for {TOKEN}")

    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 60.0)
    with pytest.raises(ToolError) as caught:
        run(fail_late, seconds=0.01)
    assert caught.value.message == "no use for [REDACTED:github-pat]"


class Opened:
    """A response, of which the first to be closed is interrupted once."""

    status, headers, is_open = 200, (), True

    def __init__(self, interrupts: list[BaseException]) -> None:
        self._interrupts = interrupts
        self.closed = False

    def read(self) -> bytes:
        return b""

    def read_all(self) -> bytes:
        return b""

    def close(self) -> None:
        if self._interrupts:
            raise self._interrupts.pop()
        self.closed = True


class Web:
    """A gateway for guests that records every response."""

    networks: tuple[Network, ...] = ()

    def __init__(self) -> None:
        self.interrupts: list[BaseException] = [KeyboardInterrupt()]
        self.opened: list[Opened] = []

    def open(self, call: Call, request: HttpOpen) -> Opened:
        self.opened.append(Opened(self.interrupts))
        return self.opened[-1]


def granted_http() -> Capabilities:
    return Capabilities.none().with_http(HttpCapability(allowlist=(EndpointPattern("api.example.com"),)))


def test_a_signal_during_cleanup_leaves_no_resources() -> None:
    def open_two(call: GuestCall, params: str, context: str | None) -> str:
        for _ in range(2):
            call.services.handle(HttpOpen("GET", "https://api.example.com/"))
        return "{}"

    web, admission, records = Web(), Admission(1), []
    with pytest.raises(KeyboardInterrupt):
        run(open_two, admission=admission, audit=records.append, grant=granted_http(), backends={"http": web})
    assert [response.closed for response in web.opened] == [True, True]
    assert admission.running == 0
    assert [record.outcome for record in records] == ["KeyboardInterrupt"]


def test_failures_after_the_end_of_a_call_end_the_guest() -> None:
    class Gateway:
        networks: tuple[Network, ...] = ()

        def open(self, call: Call, request: Any) -> Any:
            call.lifetime.cancel()
            raise HttpFailure(FailureKind.EXECUTOR, "timeout", "it took too long")

    def run(name: str, params: str, call: Call) -> ToolOutput:
        call.lifetime.cancel()
        raise ToolError("the other tool failed")

    http = GuestHttp(cast(EgressGateway, Gateway()))
    host = CallServices(a_call(granted_http(), backends={"http": http}))
    with pytest.raises(CancelledError):
        host.handle(HttpOpen("GET", "https://api.example.com/"))
    aliases = Capabilities.none().with_tool_invoke(ToolInvokeCapability((("on", "other"),)))
    with pytest.raises(CancelledError):
        CallServices(a_call(aliases, backends={"tools": ToolRunner(run, RateLimiter())})).handle(InvokeTool("on", "{}"))


def test_failures_during_a_call_are_returned_to_the_guest() -> None:
    def run(name: str, params: str, call: Call) -> ToolOutput:
        raise ToolError("the other tool failed", code="broken")

    aliases = Capabilities.none().with_tool_invoke(ToolInvokeCapability((("on", "other"),)))
    with pytest.raises(HostFailure) as caught:
        CallServices(a_call(aliases, backends={"tools": ToolRunner(run, RateLimiter())})).handle(InvokeTool("on", "{}"))
    assert caught.value.code == "broken"
