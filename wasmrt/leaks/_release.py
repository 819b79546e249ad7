"""Show a text that is still coming in, as far as no finding can reach over the end of what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.leaks._layers import GZIP, ZLIB, is_more, may_go_on
from wasmrt.leaks._model import MAX_REACH_BYTES, Action, Direction, LeakMatch, merged_spans

if TYPE_CHECKING:
    from wasmrt.leaks._detector import LeakScanner

_CONTEXT_BYTES = 1024
"""What is seen before a piece: the words that tell what a value is."""
_LONG_BYTES = 64 * 1024
"""With so much and no line's end, a piece may end at a blank, far enough from the last byte."""
_OPENERS = (b"-----begin", b"putty-user-key-file-", b"$ansible_vault;")
"""What begins a secret of several lines."""
_CLOSER = b"-----end"


class ReleasingStream:
    """Give it pieces as they come and get what can be shown by now, findings replaced; `finish` gives the rest.

    A text is shown line by line. Held back are: a line without its end, a secret of this call that may have begun,
    packed lines that may go on, a key of several lines, and from an archive's beginning everything. So a rule of an
    operator's own sees a secret of several lines only where they arrive together, and a text that is packed over all
    its length is shown at its end.
    """

    __slots__ = ("_data", "_direction", "_line", "_packed", "_sealed", "_shown", "_started", "blocked", "scanner")

    def __init__(self, scanner: LeakScanner, direction: Direction) -> None:
        self.scanner = scanner
        """May be replaced at any time, by one that knows more."""
        self._direction = direction
        self._data = bytearray()
        """The last of what was shown, and all that was not."""
        self._shown = 0
        self._line = 0
        """Where the last line that is complete ends."""
        self._packed = 0
        """Up to here all is packed, where something packed is held."""
        self._started = False
        """Whether some was cut off in front."""
        self._sealed = False
        """Whether an archive has begun."""
        self.blocked: LeakMatch | None = None
        """The finding for which nothing more is shown."""

    def feed(self, piece: bytes | bytearray) -> bytes:
        """Take the next piece and return what can be shown, often nothing."""
        size = len(self._data)
        self._data += piece
        if self._sealed or self.blocked:
            return b""
        if (at := self._data.rfind(b"\n", size)) >= 0:
            self._line = at + 1
        end = self._end(size)
        return self._release(end) if end > self._shown else b""

    def finish(self) -> bytes:
        """Return what was held back until now."""
        return b"" if self.blocked else self._release(len(self._data))

    def _end(self, size: int) -> int:
        """Where what can be shown ends, as far as that can be told without scanning."""
        if (archive := self._archive(size)) >= 0:
            self._sealed = True
            self._line = self._data.rfind(b"\n", 0, archive) + 1
        end = self._line
        if end <= self._shown:
            late = len(self._data) - MAX_REACH_BYTES
            if self._sealed or late - self._shown < _LONG_BYTES:
                return self._shown
            end = self._data.rfind(b" ", max(self._shown, late - _LONG_BYTES), late) + 1
        if self._packed > self._shown and is_more(self._data[self._packed : end]):
            self._packed = end
            return self._shown
        fresh = bytes(self._data[self._shown : end])
        goes_on = may_go_on(fresh)
        self._packed = end if goes_on < len(fresh) else 0
        begun = self.scanner.begun(bytes(self._data[:end])) - self._shown
        return self._shown + max(0, min(goes_on, _key_begun(fresh.lower()), begun))

    def _archive(self, size: int) -> int:
        """Where an archive begins; -1 where none does."""
        if not self._started and self._data[:2] in ZLIB:
            return 0
        start = max(0, size - len(GZIP))
        return self._data.find(GZIP, start) if self._data.find(GZIP[0], start) >= 0 else -1

    def _release(self, end: int) -> bytes:
        report = self.scanner.scan_bytes(bytes(self._data), direction=self._direction)
        self.blocked = next((match for match in report.matches if match.action is Action.BLOCK), None)
        if self.blocked:
            return b""
        found = tuple(match for match in report.matches if match.action is not Action.WARN)
        for start, stop, _ in reversed(merged_spans(found)):
            if start < end < stop:
                self._line = end = max(start, self._shown)  # and no look again before the next line's end
        shown = self._cut(found, end)
        behind = max(0, end - _CONTEXT_BYTES)
        del self._data[:behind]
        self._started = self._started or behind > 0
        self._shown, self._line, self._packed = end - behind, max(0, self._line - behind), max(0, self._packed - behind)
        return shown

    def _cut(self, found: tuple[LeakMatch, ...], end: int) -> bytes:
        pieces: list[bytes] = []
        position = self._shown
        for start, stop, rule in merged_spans(found):
            if stop > position and start < end:
                pieces += (bytes(self._data[position : max(position, start)]), f"[REDACTED:{rule}]".encode())
                position = stop
        return b"".join((*pieces, self._data[position:end]))


def _key_begun(text: bytes) -> int:
    """Where a key of several lines begins whose end is not in sight; the text's length where none does."""
    begins = max(text.rfind(opener) for opener in _OPENERS)
    far = len(text) - begins > MAX_REACH_BYTES
    return len(text) if begins < 0 or far or text.find(_CLOSER, begins) >= 0 else begins
