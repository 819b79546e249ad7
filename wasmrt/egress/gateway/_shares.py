"""Shares of what all users have in common: nobody holds more of it than is left for the others."""

from __future__ import annotations

from collections.abc import Hashable


class Shares:
    """Places, each held by a user. Not locked: its owner is.

    A user may take one more as long as no more are held by that user than are free. One that holds on to all it can get
    leaves half to the others, and two leave a quarter.
    """

    __slots__ = ("_held", "_of", "_total")

    def __init__(self, total: int) -> None:
        self._total = total
        self._held = 0
        self._of: dict[Hashable, int] = {}

    @property
    def empty(self) -> bool:
        """True where nobody holds any."""
        return not self._held

    def take(self, user: Hashable) -> bool:
        """Take a place for a user; False where there is none."""
        mine, free = self._of.get(user, 0), self._total - self._held
        if free < 1 or mine > free:
            return False
        self._held += 1
        self._of[user] = mine + 1
        return True

    def give_back(self, user: Hashable) -> None:
        """Give a place of a user's back."""
        self._held -= 1
        self._of[user] -= 1
        if not self._of[user]:
            del self._of[user]
