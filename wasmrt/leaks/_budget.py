"""What one scan may still open, and how it is ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wasmrt.limits import KIB, MIB

if TYPE_CHECKING:
    from wasmrt.leaks._engine import Check

MAX_DEPTH = 5
MAX_OPENED_BYTES = 32 * MIB
"""Decoded and unpacked bytes of one scan together: a bomb costs this much and no more."""
PIECE_BYTES = 64 * KIB
"""What is looked at in one go while nothing is found."""
_STEP_BYTES = 32
"""An escape takes as long as so many bytes that are unpacked."""


def go_on() -> None:
    """Check nothing: nobody waits for this scan."""


@dataclass(slots=True)
class Budget:
    """What one scan may still open."""

    depth: int = MAX_DEPTH
    left: int = MAX_OPENED_BYTES
    exceeded: bool = False
    """Something was left unopened: too large, too deep or too many."""
    check: Check = go_on
    """Called all along; raises when the scan is to end."""

    def take(self, size: int) -> bool:
        self.left -= size
        self.exceeded = self.exceeded or self.left < 0
        return self.left >= 0

    def step(self, escapes: int) -> bool:
        """Pay for escapes, or what looks like one; False where nothing is left for more of them."""
        self.check()
        return self.take(escapes * _STEP_BYTES)
