"""Calls in flight, so that a callback or a codec that knows only its store finds the call it works for."""

from __future__ import annotations

from typing import Protocol

from wasmrt.guest.engine import _ffi


class GuestCall(Protocol):
    """What the engine needs of a call that is in flight. host/ and wasi/ get the same object as `ctx`."""

    def enter_host(self) -> None:
        """Count one host call; raise when a budget or the deadline is spent or the call was cancelled."""

    def leave_host(self) -> None:
        """Raise when the deadline passed or the call was cancelled while the host worked."""

    def charge_values(self, count: int) -> None:
        """Count values about to be made of what the guest passed; raise when a budget or the deadline is spent."""

    def charge_text(self, size: int) -> None:
        """Look at the bytes of a long text before it is copied; raise when it is over what the call may answer."""

    def fail(self, error: BaseException) -> None:
        """Keep the first failure; the guest is stopped."""

    def interruption(self) -> BaseException | None:
        """What ends the guest at this tick, if anything: deadline, cancellation, a closed runtime."""


calls: dict[int, GuestCall] = {}
"""By the number in their store's data slot."""


def charge_text(context: int, size: int) -> None:
    """Have the call of a store look at a long text that is about to be lifted."""
    call = calls.get(_ffi.context_get_data(context) or 0)
    if call is not None:
        call.charge_text(size)


def charge_values(context: int, count: int) -> None:
    """Charge the call of a store for values that are about to be lifted."""
    call = calls.get(_ffi.context_get_data(context) or 0)
    if call is not None:
        call.charge_values(count)
