"""The limits of time and bytes of one exchange, and the errors when they are exceeded."""

from __future__ import annotations

import pytest
from wasmrt.testing import FakeCall

import wasmrt.egress.gateway._exchange as budget_file
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.core.limits import MAX_HEADER_BYTES
from wasmrt.core.model import Reason
from wasmrt.egress.gateway import HttpFailure, WaitTimeouts
from wasmrt.egress.gateway._exchange import ExchangeBudget, Wait
from wasmrt.sandbox.component.worlds import FailureKind

ORIGIN = "https://api.example.com"
HTTP = HttpCapability(allowlist=(EndpointPattern("api.example.com"),), timeout_seconds=30, max_response_bytes=100)


class Now:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(budget_file.time, "monotonic", clock)
    return clock


def own(seconds: float = 10.0, **more: object) -> ExchangeBudget:
    return ExchangeBudget(ORIGIN, seconds=seconds, max_response_bytes=100, **more)  # type: ignore[arg-type]


def of_call(deadline: float = 2000.0, seconds: float = 10.0, **more: object) -> tuple[ExchangeBudget, FakeCall]:
    call = FakeCall(Capabilities.none())
    call.deadline = deadline
    return own(seconds, call=call, http=HTTP, **more), call


def spent(budget: ExchangeBudget) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        budget.wait_seconds()
    return caught.value


def test_a_wait_lasts_at_most_the_remaining_time(now: Now) -> None:
    budget = own(10.0)
    assert budget.wait_seconds() == 10.0
    now.seconds = 1009.96875
    assert budget.wait_seconds() == 0.03125
    now.seconds = 1010.0
    failure = spent(budget)
    assert (failure.kind, failure.code) == (FailureKind.OPERATION_FAILED, "timeout")
    assert failure.message == f"{ORIGIN} did not respond in time (10 s)"
    assert failure.hint is None


def test_the_end_of_the_call_is_distinguished_from_the_end_of_the_exchange(now: Now) -> None:
    budget, _ = of_call(deadline=1005.0)
    assert budget.ends_at == 1005.0
    now.seconds = 1005.0
    failure = spent(budget)
    assert (failure.kind, failure.code) == (FailureKind.EXECUTOR, "deadline-exceeded")
    budget, call = of_call()
    call.cancelled.set()
    failure = spent(budget)
    assert (failure.kind, failure.code) == (FailureKind.EXECUTOR, "cancelled")


@pytest.mark.parametrize(
    ("seconds", "hint"),
    [
        (29.0, "the tool itself set this timeout; http.timeout_seconds allows 30"),
        (30.0, "raise http.timeout_seconds, now 30"),
    ],
)
def test_a_timeout_names_the_setting_that_caused_it(now: Now, seconds: float, hint: str) -> None:
    budget, _ = of_call(seconds=seconds)
    now.seconds = 1000.0 + seconds
    assert spent(budget).hint == hint


@pytest.mark.parametrize("wait", list(Wait))
def test_each_kind_of_wait_has_its_own_limit(now: Now, wait: Wait) -> None:
    budget = own(wait_timeouts=WaitTimeouts(**{str(wait): 2.0}))
    assert budget.wait_ends_at == budget.ends_at == 1010.0
    budget.begin(wait)
    assert budget.wait_ends_at == 1002.0
    now.seconds = 1001.96875
    assert budget.wait_seconds() == 0.03125
    now.seconds = 1002.0
    failure = spent(budget)
    assert (failure.kind, failure.code) == (FailureKind.OPERATION_FAILED, f"{wait}-timeout")
    assert failure.message == f"{ORIGIN} did not respond in time (a {wait} timeout of 2 s)"
    other = next(kind for kind in Wait if kind is not wait)
    budget.begin(other)  # without a limit
    assert budget.wait_seconds() == 8.0
    assert budget.wait_ends_at == 1010.0


def test_bytes_are_counted_for_the_call_and_limited_with_allowance_for_headers() -> None:
    budget, call = of_call()
    budget.charge_sent(7)
    budget.charge_received(100 + MAX_HEADER_BYTES)
    with pytest.raises(HttpFailure) as caught:
        budget.charge_received(1)
    failure = caught.value
    assert (failure.kind, failure.code) == (FailureKind.OUTPUT_TOO_LARGE, "response-too-large")
    assert (failure.request_sent, failure.hint) == (True, "raise http.max_response_bytes, now 100")
    assert failure.message == f"the response of {ORIGIN} has more than 100 bytes"
    assert (call.sent_bytes, call.received_bytes) == (7, 101 + MAX_HEADER_BYTES)
    assert (budget.sent, budget.received) == (7, 101 + MAX_HEADER_BYTES)
    (decision,) = call.decisions
    assert (decision.allowed, decision.reason, decision.subject) == (False, Reason.RESPONSE_TOO_LARGE, ORIGIN)


def test_requests_by_the_host_are_limited_and_not_recorded() -> None:
    budget = own()
    budget.charge_received(100 + MAX_HEADER_BYTES)
    with pytest.raises(HttpFailure) as caught:
        budget.charge_received(1)
    assert (caught.value.request_sent, caught.value.hint) == (False, None)


def test_a_broken_connection_names_its_server_and_whether_the_request_was_sent() -> None:
    budget = own()
    assert not budget.make_connection_failure().request_sent
    budget.charge_sent(1)
    failure = budget.make_connection_failure()
    assert (failure.kind, failure.code, failure.request_sent) == (FailureKind.OPERATION_FAILED, "connection", True)
    assert ORIGIN in failure.message


def test_an_origin_that_contains_a_secret_is_redacted() -> None:
    budget, call = of_call()
    call.watch("name", "api.example.com")
    assert "api.example.com" not in budget.origin + budget.make_connection_failure().message
