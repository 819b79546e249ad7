"""Calls in flight, so that a callback or a codec that knows only its store finds the call it works for."""

from __future__ import annotations

from wasmrt.sandbox.guest.call import GuestBudgets
from wasmrt.sandbox.guest.engine import _ffi

calls: dict[int, GuestBudgets] = {}
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
