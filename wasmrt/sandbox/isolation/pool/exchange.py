"""Work that no handler of a signal cuts in two: a question that was asked has its answer read, a lock is let go of.

Python runs handlers on the main thread alone, between any two of its instructions; what begins there has a thread of
its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


def unbroken(exchange: Callable[[], _T]) -> _T:
    """Return what `exchange` returns; what a handler raises meanwhile is raised after it.

    For what is short, and uses descriptors that have to stay open until it is over.
    """
    return _run(exchange, waits=True)


def unwatched(work: Callable[[], _T]) -> _T:
    """Return what `work` returns; where a handler raises meanwhile, it goes on and nobody waits for it.

    For what takes long, and holds all that it needs itself.
    """
    return _run(work, waits=False)


def _run(work: Callable[[], _T], *, waits: bool) -> _T:
    if threading.current_thread() is not threading.main_thread():
        return work()
    return _OnItsOwnThread(work, waits=waits).result()


class _OnItsOwnThread(Generic[_T]):
    """One piece of work; with `waits`, what was begun is waited for whatever happens."""

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
            except RuntimeError:  # no thread is left
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
        """Wait for what was begun, and see to it that nothing else is, whatever handlers raise meanwhile."""
        while True:
            try:
                with self._gate:
                    self._dropped = True
                    if not (self._begun and self._waits) or self._over.is_set():
                        return
                self._over.wait()
            except BaseException:  # noqa: S112 - the first one is raised, and the wait has a bound
                continue
