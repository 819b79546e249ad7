"""Run a guest on a fiber: the engine suspends it while its host function runs, so one thread can run many guests.

The callback of an import only lifts the arguments and notes the call. `run` then calls the host function on its own
stack and resumes the guest. After each tick of the epoch, the engine suspends the guest, too.

SECURITY: a future must be deleted before its store, and never be polled after it is complete: the engine would abort.
After a host function failed, the future is deleted, which ends the guest.
"""

from __future__ import annotations

from wasmrt.sandbox.guest.call import GuestBudgets
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._arena import OwnedArena
from wasmrt.sandbox.guest.engine._linker import Suspended
from wasmrt.sandbox.guest.engine._traps import EngineFault


def run(future: int, guest: Suspended, call: GuestBudgets, context: int) -> None:
    """Poll a future until it is complete.

    Raises:
        EngineFault: a host function failed, or the call has ended. `call.failure` has the reason.
    """
    try:
        while not _ffi.future_poll(future):
            try:
                pending, guest.pending = guest.pending, None
                _run_destructors(guest, call)
                if pending is None:
                    call.pause()
                    continue
                entry, values, results = pending
                answer = entry.function(call, *values)
                call.leave_host()
                if entry.lower is not None:
                    entry.lower(answer, results, OwnedArena(context))
                guest.flag[0] = b"\1"
            except BaseException as error:
                call.fail(error)
                raise EngineFault("stopped by the host", None, None) from None
        try:
            _run_destructors(guest, call)
        except BaseException as error:
            call.fail(error)
            raise EngineFault("stopped by the host", None, None) from None
    finally:
        _ffi.future_delete(future)


def _run_destructors(guest: Suspended, call: GuestBudgets) -> None:
    while guest.dropped:
        destructor, rep = guest.dropped.pop(0)
        destructor(call, rep)
