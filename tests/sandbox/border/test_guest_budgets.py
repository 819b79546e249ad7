"""The exact limits of a guest's time and budgets, and the errors at its end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

import pytest

import wasmrt.core.lifetime
from wasmrt import ResourceLimits
from wasmrt.core.errors import (
    BudgetExceededError,
    CancelledError,
    DeadlineExceededError,
    InvalidParametersError,
    OutputLimitError,
    ToolErrorKind,
    TrapError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_HOST_CALLS, MAX_LIFTED_VALUES, MAX_LOG_ENTRY_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestBudgets, GuestCall, cut_log
from wasmrt.sandbox.guest.clock import LogicalClock, SystemClock
from wasmrt.sandbox.guest.engine import EngineFault, LowerError, TrapCode
from wasmrt.sandbox.guest.outcome import end_cause, guest_failure
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import HttpCheck, InvokeTool, SecretExists, WorkspaceList, WorkspaceRead
from wasmrt.sandbox.guest.services import NoServices

LONG = 3600.0


def budgets(lifetime: Lifetime | None = None, **limits: int) -> GuestBudgets:
    return GuestBudgets(lifetime or Lifetime(LONG), ResourceLimits(**limits))  # type: ignore[arg-type]


# -- the time ----------------------------------------------------------------------------------------------------------


def test_a_call_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(wasmrt.core.lifetime.time, "monotonic", lambda: now)
    lifetime = Lifetime(5.0)
    now = 1004.5
    lifetime.check()
    assert (lifetime.is_over, lifetime.interruption(), lifetime.remaining()) == (False, None, 0.5)
    now = 1005.0
    with pytest.raises(DeadlineExceededError, match="its deadline of 5 s") as caught:
        lifetime.check()
    assert (caught.value.limit, caught.value.used) == (5.0, 5.0)
    assert (lifetime.is_over, lifetime.remaining()) == (True, 0.0)
    assert isinstance(lifetime.interruption(), DeadlineExceededError)
    now = 1006.0
    assert lifetime.remaining() == 0.0


def test_a_nested_call_ends_with_its_parent() -> None:
    outer = Lifetime(LONG)
    longer, shorter = Lifetime(2 * LONG, within=outer), Lifetime(1.0, within=outer)
    assert longer.deadline == outer.deadline
    assert shorter.deadline < outer.deadline
    outer.cancel()
    with pytest.raises(CancelledError):
        shorter.check()


def test_a_nested_call_of_a_cancelled_call_is_cancelled() -> None:
    outer = Lifetime(LONG)
    outer.cancel()
    assert isinstance(Lifetime(LONG, within=outer).interruption(), CancelledError)


def test_a_wait_ends_after_its_time_or_with_the_call() -> None:
    lifetime = Lifetime(LONG)
    lifetime.wait(0.001)
    threading.Timer(0.01, lifetime.cancel).start()
    with pytest.raises(CancelledError):
        lifetime.wait(LONG)
    with pytest.raises(CancelledError):
        lifetime.wait(0.0)
    with pytest.raises(DeadlineExceededError):
        Lifetime(0.001).wait(LONG)


def test_the_first_reason_to_end_a_call_is_kept() -> None:
    lifetime = Lifetime(LONG)
    lifetime.cancel()
    lifetime.close()
    assert isinstance(lifetime.interruption(), CancelledError)


# -- the budgets -------------------------------------------------------------------------------------------------------


def test_a_guest_starts_with_unused_budgets() -> None:
    fresh = budgets()
    assert (fresh.fuel_used, fresh.host_calls, fresh.lifted_values, fresh.failure) == (0, 0, 0, None)


def test_host_calls_and_values_are_limited_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = budgets()
    guest.host_calls = MAX_HOST_CALLS - 1
    guest.enter_host()
    with pytest.raises(BudgetExceededError) as caught:
        guest.enter_host()
    assert (caught.value.limit, caught.value.used) == (MAX_HOST_CALLS, MAX_HOST_CALLS + 1)
    guest.charge_values(MAX_LIFTED_VALUES)
    with pytest.raises(BudgetExceededError) as caught:
        guest.charge_values(1)
    assert (caught.value.limit, caught.value.used) == (MAX_LIFTED_VALUES, MAX_LIFTED_VALUES + 1)


def test_a_string_may_be_as_long_as_the_output_limit() -> None:
    guest = budgets(output_bytes=10)
    guest.charge_text(10)
    with pytest.raises(OutputLimitError) as caught:
        guest.charge_text(11)
    assert (caught.value.limit, caught.value.used) == (10, 11)


@pytest.mark.parametrize(
    "charge",
    [
        GuestBudgets.enter_host,
        GuestBudgets.leave_host,
        lambda guest: guest.charge_values(1),
        lambda guest: guest.charge_text(1),
    ],
    ids=["enter", "leave", "values", "text"],
)
def test_every_host_call_checks_whether_the_call_has_ended(charge: Callable[[GuestBudgets], None]) -> None:
    lifetime = Lifetime(LONG)
    guest = budgets(lifetime)
    charge(guest)
    lifetime.cancel()
    with pytest.raises(CancelledError):
        charge(guest)


# -- log lines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("letter", ["x", "ü", "語", "🦀"])
def test_log_entries_are_truncated_only_over_the_limit(letter: str) -> None:
    size = len(letter.encode())
    whole = letter * (MAX_LOG_ENTRY_BYTES // size)
    assert cut_log(whole) == whole
    cut = cut_log(whole + letter)
    assert cut.endswith("... (truncated)")
    assert MAX_LOG_ENTRY_BYTES - size < len(cut.encode()) <= MAX_LOG_ENTRY_BYTES


def test_log_entries_have_the_guests_time_in_milliseconds() -> None:
    call = GuestCall(Lifetime(LONG), ResourceLimits(), NoServices(), LogicalClock(start_ns=1_234_000_000))
    call.log(LogLevel.INFO, "hello")
    assert [(entry.message, entry.timestamp_ms) for entry in call.logs] == [("hello", 1235)]


def test_the_system_clock_is_coarse() -> None:
    clock = SystemClock()
    assert [clock.now_ns() % 1_000_000, clock.monotonic_ns() % 1_000_000] == [0, 0]


# -- how it ended ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (TrapCode.UNREACHABLE, "a panic"),
        (TrapCode.STACK_OVERFLOW, "recursed too deeply"),
        (TrapCode.MEMORY_OUT_OF_BOUNDS, "a memory bug"),
        (TrapCode.CANNOT_LEAVE_COMPONENT, "while a value was passed to it"),
        (TrapCode.CANNOT_ENTER_COMPONENT, "was called while"),
        (TrapCode.INTEGER_OVERFLOW, None),
    ],
)
def test_traps_have_an_explaining_hint(code: TrapCode, told: str | None) -> None:
    error = end_cause(EngineFault("wasm trap", code, int(code)), budgets())
    assert isinstance(error, TrapError)
    assert (error.hint is None) if told is None else (told in str(error.hint))


def test_other_engine_errors_are_printable_and_short() -> None:
    error = end_cause(EngineFault("too many values\n\x1b[2J" + "x" * 999, None, None), budgets())
    assert isinstance(error, TrapError)
    assert (error.code, error.hint) == ("stopped", None)
    assert error.message.startswith("the engine stopped the guest: too many values")
    assert error.message.isprintable() and len(error.message) < 400


def test_a_value_that_does_not_fit_is_an_invalid_parameter() -> None:
    error = end_cause(LowerError("300 does not fit u8"), budgets())
    assert isinstance(error, InvalidParametersError)
    assert error.message == "the value does not fit the tool's type: 300 does not fit u8"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (FailureKind.AUTH_REQUIRED, ToolErrorKind.NOT_AUTHORIZED),
        (FailureKind.INPUT, ToolErrorKind.INVALID_PARAMETERS),
        (FailureKind.OUTPUT_TOO_LARGE, ToolErrorKind.SANDBOX),
        (FailureKind.EXECUTOR, ToolErrorKind.SANDBOX),
        (FailureKind.NETWORK_DENIED, ToolErrorKind.NOT_AUTHORIZED),
        (FailureKind.CLIENT, ToolErrorKind.EXTERNAL_SERVICE),
        (FailureKind.OPERATION_FAILED, ToolErrorKind.EXECUTION_FAILED),
    ],
)
def test_a_tool_failure_has_the_kind_that_the_tool_returned(kind: FailureKind, expected: ToolErrorKind) -> None:
    error = guest_failure(kind, None, "went\nwrong")
    assert (error.kind, error.code) == (expected, kind)
    assert guest_failure(kind, "a-code", None).code == "tool:a-code"


def test_a_host_failure_is_by_default_not_a_denial_and_not_sent() -> None:
    failure = HostFailure(FailureKind.INPUT, "invalid", "it is not valid")
    assert (str(failure), failure.message) == ("it is not valid", "it is not valid")
    assert (failure.request_sent, failure.denied, failure.limit_bytes) == (False, False, None)


def test_a_component_that_is_described_is_refused_everything() -> None:
    host = NoServices()
    assert host.handle(SecretExists("token")) is False
    refusal = host.handle(HttpCheck("GET", "https://api.example.com/"))
    assert refusal is not None and refusal.denied is True
    for ask in (
        lambda: host.handle(WorkspaceRead("a.txt")),
        lambda: host.handle(WorkspaceList("a")),
        lambda: host.handle(InvokeTool("other", json.dumps({}))),
    ):
        with pytest.raises(HostFailure) as caught:
            ask()
        assert (caught.value.code, caught.value.denied) == ("not-granted", True)


def test_actions_at_the_end_of_a_guest_run_in_order() -> None:
    call, done = GuestCall(Lifetime(LONG), ResourceLimits(), NoServices(), LogicalClock()), []
    call.finish()
    for name in ("first", "second"):
        call.at_end(lambda name=name: done.append(name))
    call.finish()
    assert done == ["first", "second"]
