"""The ticker: a thread that advances the engine's epoch while calls run, so that guest code can be interrupted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar

TICK_SECONDS = 0.01
"""The time between two ticks: a tenth of the shortest useful deadline."""
_T = TypeVar("_T")


class Ticking(Protocol):
    def increment_epoch(self) -> None: ...


class Ticker:
    """Controls the thread that advances an engine's epoch. After a tick at which no guest ran, the thread sleeps.

    The ticker has only a weak reference to its engine, and the thread ends when the engine is garbage-collected.
    """

    def __init__(self, engine: Ticking) -> None:
        self._state = _State()
        self._engine = weakref.ref(engine, self._state.stop_for)
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()

    def enter(self) -> None:
        state = self._state
        with state.lock:
            state.running += 1
            state.entered = True
            if not state.awake:
                state.awake = True
                state.wake.set()
        if self._thread is None:
            self.start()

    def leave(self) -> None:
        with self._state.lock:
            self._state.running -= 1

    def paused(self, wait: Callable[[], _T]) -> _T:
        """Call `wait`, which blocks while a guest waits for the host, and return its result."""
        self.leave()
        try:
            return wait()
        finally:
            self.enter()

    def stop(self) -> None:
        """End the thread and wait for its end.

        If calls still run, return at once; the thread then ends after the last call.
        """
        state = self._state
        with state.lock:
            if state.running:
                state.stop_when_idle = True
                return
        state.stop()
        with self._start:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def start(self) -> None:
        """Start the thread if it is not running yet. A process must call this before it is confined."""
        with self._start:
            if self._thread is None and not self._state.stopped:
                thread = threading.Thread(
                    target=_tick, args=(self._engine, self._state), name="wasm-epoch-ticker", daemon=True
                )
                thread.start()
                self._thread = thread


class _State:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wake = threading.Event()
        self.pause = threading.Event()
        self.running = 0
        self.entered = False
        """True if a guest has entered since the last tick."""
        self.awake = False
        self.stopped = False
        self.stop_when_idle = False

    def stop(self) -> None:
        self.stopped = True
        self.pause.set()
        self.wake.set()

    def stop_for(self, _engine: object) -> None:
        self.stop()


def _tick(reference: weakref.ref[Ticking], state: _State) -> None:
    while not state.stopped:
        state.wake.wait()
        if state.pause.wait(TICK_SECONDS) or state.stopped:
            return
        engine = reference()
        if engine is None:
            return
        engine.increment_epoch()
        del engine
        if state.stop_when_idle and not state.running:
            return
        with state.lock:
            if not state.running and not state.entered and not state.stopped:
                state.awake = False
                state.wake.clear()
            state.entered = False
