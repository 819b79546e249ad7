"""Defer signals that arrive while a guest runs on the main thread.

SECURITY: CPython runs a signal's handler when the next Python frame is entered. While a guest runs, this is the frame
of a wasmrt function that C calls, before its first `try` statement. An exception that the handler raises there would be
lost, and C would read an invalid error pointer, so a single Ctrl-C would crash the process. While C code runs, the
handlers are therefore replaced by a builtin that only records the signal and cannot raise. The handler of a recorded
signal runs in the trampoline (the function that C calls for all imports), at an epoch tick, or after the call,
whichever comes first.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the C functions: the Python ones build enums
import contextlib
import threading
from operator import is_
from typing import Any

_WATCHED = tuple(
    getattr(_signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGVTALRM", "SIGPROF")
    if hasattr(_signal, name)
)
_MAIN = threading.main_thread().ident
_noted: dict[int, Any] = {}
_note = _noted.setdefault  # takes (number, frame) like a handler, but is implemented in C and never raises
_seen: tuple[Any, ...] = (None,) * len(_WATCHED)
"""The handlers of the watched signals when `_hold` last ran. They rarely change."""
_handlers: tuple[tuple[int, Any], ...] = ()
"""Pairs of a signal and its handler, for the handlers in `_seen` that are Python functions."""
_held: tuple[tuple[int, Any], ...] = ()
_here = threading.get_ident
_getsignal, _set = _signal.getsignal, _signal.signal


def defer() -> bool:
    """Defer signals before C code runs that may call back into Python.

    Return True if the caller must call `restore` afterwards. Signals are deferred for the complete lifetime of a store,
    because replacing handlers is slow.
    """
    if _held or _here() != _MAIN:
        return False
    try:
        _hold()
    except BaseException:  # a signal arrived while handlers were being replaced
        _release()
        raise
    return bool(_held)


def restore() -> None:
    """Restore the signals' handlers, and run the handlers of recorded signals.

    Raises:
        BaseException: any exception that a handler raised.
    """
    _release()


def deliver() -> None:
    """Run the handlers of recorded signals. A callback must call this inside of its `try` statement.

    Raises:
        BaseException: any exception that a handler raised.
    """
    if _noted and _here() == _MAIN:
        _release()
        _hold()


def suspend() -> bool:
    """Restore the handlers before a host function runs. Return True if the caller must call `resume` afterwards."""
    if not _held or _here() != _MAIN:
        return False
    _release()
    return True


def resume() -> None:
    """Replace the handlers again after a host function ran."""
    _hold()


def resume_quietly() -> None:
    """Replace the handlers after an error in a callback. Never raise, because no exception may propagate into C."""
    if not _held and _here() == _MAIN:
        with contextlib.suppress(BaseException):  # a second signal may arrive while the first one is handled
            _hold()


def _hold() -> None:
    global _handlers, _held, _seen
    seen = tuple(map(_getsignal, _WATCHED))
    if not all(map(is_, seen, _seen)):
        pairs = zip(_WATCHED, seen, strict=True)
        _handlers = tuple((n, handler) for n, handler in pairs if callable(handler) and handler is not _note)
        _seen = seen
    _held = _handlers
    for number, _ in _handlers:
        _set(number, _note)


def _release() -> None:
    global _held
    held, _held = _held, ()
    try:
        for number, handler in held:
            _set(number, handler)
    except BaseException:  # a signal arrived for a handler that was already restored
        for number, handler in held:
            if _getsignal(number) is _note:
                _set(number, handler)
        raise
    if _noted:
        _run_handlers(dict(held))


def _run_handlers(handlers: dict[int, Any]) -> None:
    if not _noted:
        return
    number, frame = _noted.popitem()
    try:
        if (handler := handlers.get(number)) is not None:
            handler(number, frame)
    finally:  # run the other handlers even if this one raises
        _run_handlers(handlers)
