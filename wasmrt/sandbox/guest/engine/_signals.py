"""Signals that arrive while a guest runs on the main thread wait until Python is on safe ground.

SECURITY: CPython runs a signal's handler when the next Python frame is entered, and under a guest that is a callback
from C, before any `try` of ours. What the handler raises is lost there, and C reads an error that is not one: a
single Ctrl-C would crash the process. So while C is running, handlers are replaced by a builtin that only takes a
note; it cannot raise. Noted signals reach their real handler inside the trampoline, at an epoch tick, or after the
call, whichever comes first.
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
_note = _noted.setdefault  # takes (number, frame), is C, never raises
_seen: tuple[Any, ...] = (None,) * len(_WATCHED)
"""The handlers of the watched signals last time; nearly always they still are."""
_handlers: tuple[tuple[int, Any], ...] = ()
"""Those of them that are Python's."""
_held: tuple[tuple[int, Any], ...] = ()
_here = threading.get_ident
_getsignal, _set = _signal.getsignal, _signal.signal


def defer() -> bool:
    """Hold signals back from here on, before C that may call back into Python; True where `restore` has to follow.

    It lasts from the making of a store to its end: handlers are costly to exchange.
    """
    if _held or _here() != _MAIN:
        return False
    try:
        _hold()
    except BaseException:  # a signal came in the middle of it
        _release()
        raise
    return bool(_held)


def restore() -> None:
    """Give signals their handlers back, and deliver those that were noted.

    Raises:
        BaseException: whatever a handler raises.
    """
    _release()


def deliver() -> None:
    """Let noted signals reach their handlers now; called inside the `try` of a callback.

    Raises:
        BaseException: whatever a handler raises.
    """
    if _noted and _here() == _MAIN:
        _release()
        _hold()


def suspend() -> bool:
    """Give signals their handlers back while a host function runs; True where `resume` has to follow."""
    if not _held or _here() != _MAIN:
        return False
    _release()
    return True


def resume() -> None:
    """Take the handlers away again after a host function."""
    _hold()


def resume_quietly() -> None:
    """After an error inside a callback: nothing may raise on the way back to C."""
    if not _held and _here() == _MAIN:
        with contextlib.suppress(BaseException):  # a second signal on the way; the first one is being told
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
    except BaseException:  # the first handler was back, and a signal for it came before the others were
        for number, handler in held:
            if _getsignal(number) is _note:
                _set(number, handler)
        raise
    if _noted:
        _tell(dict(held))


def _tell(handlers: dict[int, Any]) -> None:
    if not _noted:
        return
    number, frame = _noted.popitem()
    try:
        if (handler := handlers.get(number)) is not None:
            handler(number, frame)
    finally:  # whatever it raises, the others are told too
        _tell(handlers)
