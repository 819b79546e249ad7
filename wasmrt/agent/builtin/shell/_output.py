"""Output of a command, kept within a bound: its beginning and its end."""

from __future__ import annotations

MAX_OUTPUT_BYTES = 64 * 1024
"""Of both streams together. Source: IronClaw's MAX_OUTPUT_SIZE."""
STDERR_BYTES = 16 * 1024
STDOUT_BYTES = MAX_OUTPUT_BYTES - STDERR_BYTES
_NOTE_BYTES = 100


class HeadAndTail:
    """Takes bytes as they come, and keeps at most `cap` of them: the first half, and the last."""

    def __init__(self, cap: int) -> None:
        self._room = cap - _NOTE_BYTES
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        space = self._room // 2 - len(self._head)
        self._head += data[:space]
        self._tail += data[max(space, 0) :]
        most = self._room - self._room // 2
        if len(self._tail) > 2 * most:
            del self._tail[:-most]

    @property
    def cut(self) -> bool:
        """True where something of it was left out."""
        return self.total > self._room

    def text(self) -> str:
        """Return what was kept, with a line in place of what was left out; what is no UTF-8 is replaced."""
        if not self.cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        tail = self._tail[-(self._room - self._room // 2) :]
        left_out = self.total - len(self._head) - len(tail)
        note = f"\n[{left_out:,} bytes left out]\n"
        return self._head.decode("utf-8", "replace") + note + tail.decode("utf-8", "replace")
