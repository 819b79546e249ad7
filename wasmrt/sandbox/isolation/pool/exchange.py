"""Run work that signal handlers must not interrupt, such as a request and its answer.

Python runs signal handlers on the main thread, between any two instructions, so work from there runs on a separate
thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


def unbroken(exchange: Callable[[], _T]) -> _T:
    """Run `exchange` to its end and return its result; an exception of a signal handler is raised after it.

    For short work with descriptors that must stay open until it has ended.
    """
    return _run(exchange, waits=True)


def unwatched(work: Callable[[], _T]) -> _T:
    """Return the result of `work`; if a signal handler raises, `work` continues in the background.

    For long work that owns everything it uses.
    """
    return _run(work, waits=False)


def _run(work: Callable[[], _T], *, waits: bool) -> _T:
    if threading.current_thread() is not threading.main_thread():
        return work()
    return _OnItsOwnThread(work, waits=waits).result()


class _OnItsOwnThread(Generic[_T]):
    """Runs one function on a separate thread; with `waits`, a function that has begun is always waited for."""

    def __init__(self, work: Callable[[], _T], *, waits: bool) -> None:
        self._work = work
        self._waits = waits
        self._gate = threading.Lock()
        self._begun = self._dropped = False
        self._over = threading.Event()
        self._answers: list[_T] = []
        self._errors: list[BaseException] = []

    def result(self) -> _T:
        try:
            try:
                threading.Thread(target=self._run, name="wasmrt-exchange", daemon=True).start()
            except RuntimeError:  # no thread can be started
                return self._work()
            self._over.wait()
        except BaseException:
            self._let_end()
            raise
        if self._errors:
            raise self._errors[0]
        return self._answers[0]

    def _run(self) -> None:
        with self._gate:
            if self._dropped:
                return
            self._begun = True
        try:
            self._answers.append(self._work())
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._over.set()

    def _let_end(self) -> None:
        """Wait for work that has begun, and keep other work from beginning, even if signal handlers raise."""
        while True:
            try:
                with self._gate:
                    self._dropped = True
                    if not (self._begun and self._waits) or self._over.is_set():
                        return
                self._over.wait()
            except BaseException:  # noqa: S112 - the first exception is raised, and the wait is bounded
                continue
