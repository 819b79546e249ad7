"""A host function that returns after the deadline ends the call there, though no epoch tick falls behind it."""

from __future__ import annotations

import time

import pytest

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import reporter
from wasmrt import ResourceLimits
from wasmrt.core.errors import DeadlineExceededError

LIMITS = ResourceLimits(timeout_seconds=0.1)


def _return_after_the_deadline(done: int, total: int | None, message: str | None) -> None:
    end = time.monotonic() + LIMITS.timeout_seconds  # the call began before this
    while time.monotonic() <= end:
        pass


def test_a_guest_does_not_continue_after_a_late_host_function(start: Start) -> None:
    # The trap follows in the same block of code, where the engine looks at no epoch: only the check behind the host
    # function can come before it.
    tool = only_tool(start(), reporter(after="unreachable"), limits=LIMITS)
    with pytest.raises(DeadlineExceededError) as caught:
        tool.execute({}, on_progress=_return_after_the_deadline)
    assert caught.value.setting == "limits.timeout_seconds"


def test_a_result_after_a_late_host_function_is_dropped(start: Start) -> None:
    with pytest.raises(DeadlineExceededError):
        only_tool(start(), reporter(), limits=LIMITS).execute({}, on_progress=_return_after_the_deadline)
