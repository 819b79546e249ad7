"""Slots, such as connections and name lookups, that are shared between users, with queues for calls that wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext

from wasmrt.core.lifetime import EndEvent


class Shares:
    """Slots that are shared between users. Not thread-safe: the caller must hold a lock.

    A user cannot take a slot if the user already has more slots than are free. So one user can take about half of all
    slots, and a second user can take about half of the rest.
    """

    __slots__ = ("_held", "_of", "_total")

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._of: dict[Hashable, int] = {}

    @property
    def empty(self) -> bool:
        """True if no user holds a slot."""
        return not self._held

    def take(self, user: Hashable) -> bool:
        """Take a slot for a user; return False if none is available to this user."""
        mine, free = self._of.get(user, 0), self._total - self._held
        if free < 1 or mine > free:
            return False
        self._held += 1
        self._of[user] = mine + 1
        return True

    def release_slot(self, user: Hashable) -> None:
        """Release a slot of a user."""
        self._held -= 1
        self._of[user] -= 1
        if not self._of[user]:
            del self._of[user]


def _without_waking(_wake: Callable[[], object]) -> AbstractContextManager[None]:
    return nullcontext()


class Slots:
    """Slots that many calls wait for. Thread-safe. Each user's calls are served in order."""

    def __init__(self, total: int) -> None:
        self._shares = Shares(total)
        self._lock = threading.Lock()
        self._queues: dict[Hashable, deque[EndEvent]] = {}

    @property
    def all_free(self) -> bool:
        """True if no slot is held and no call waits."""
        with self._lock:
            return self._shares.empty and not self._queues

    def take(
        self,
        user: Hashable,
        seconds: Callable[[], float],
        waking: Callable[[Callable[[], object]], AbstractContextManager[None]] = _without_waking,
    ) -> None:
        """Wait for a slot and take it.

        `seconds` returns the maximum duration of a wait, or raises an error, which ends the wait. `waking(wake)` is a
        context manager: if the call ends inside of the context, `wake` is called.
        """
        with self._lock:
            if user not in self._queues and self._shares.take(user):
                return
            turn = EndEvent()
            queue = self._queues.setdefault(user, deque())
            queue.append(turn)
        try:
            with waking(turn.set):
                while not self._take_turn(user, queue, turn):
                    turn.wait(seconds())
        finally:
            with self._lock:
                queue.remove(turn)
                if queue:
                    queue[0].set()  # this call may have been woken, but does not take the slot
                else:
                    del self._queues[user]

    def release_slot(self, user: Hashable) -> None:
        """Release a slot. Wake the first waiting call of each user, because the shares of all users have changed."""
        with self._lock:
            self._shares.release_slot(user)
            for queue in self._queues.values():
                queue[0].set()

    def _take_turn(self, user: Hashable, queue: deque[EndEvent], turn: EndEvent) -> bool:
        with self._lock:
            turn.clear()
            return queue[0] is turn and self._shares.take(user)
