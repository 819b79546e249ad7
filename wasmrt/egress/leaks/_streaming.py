"""Redact a text while it arrives, and return the part that no future match can change."""

from __future__ import annotations

from wasmrt.egress.leaks._archives import find_first_archive
from wasmrt.egress.leaks._encoded import continues_run, find_unfinished_run
from wasmrt.egress.leaks._model import MAX_MATCH_BYTES, Action, Direction, LeakMatch, list_redactions
from wasmrt.egress.leaks._scanner import LeakScanner

_MAGIC_BYTES = 16
"""Number of bytes that is enough to recognise any archive format."""
_CONTEXT_BYTES = 1024
"""Bytes before a piece that are scanned with it, since they may identify a value."""
_LONG_BYTES = 64 * 1024
"""A line longer than this may be divided at a blank, at a safe distance from the last byte received."""
_KEY_STARTS = (b"-----begin", b"putty-user-key-file-", b"$ansible_vault;")
"""The first words of multi-line secrets."""
_KEY_END = b"-----end"
_SOUND_BYTES = 1024
"""Number of bytes after which bytes that may be an archive are treated as an archive."""


class StreamingRedactor:
    """A redactor for a text that arrives in pieces. `feed` returns text once it is safe, and `finish` returns the rest.

    The text is returned line by line. Incomplete lines, a possible beginning of a watched secret, encoded lines that
    may continue, incomplete multi-line keys, and everything after the start of an archive are held back. Therefore, a
    custom rule finds a multi-line secret only if it arrives in one piece, and a text that is completely encoded is
    returned at its end.
    """

    __slots__ = (
        "_archive", "_cut_off", "_data", "_direction", "_line", "_pass_unopened", "_returned", "_run", "blocked",
        "scanner", "secret", "unscanned",
    )  # fmt: skip

    def __init__(
        self, scanner: LeakScanner, *, direction: Direction = Direction.INWARD, pass_unopened: bool = False
    ) -> None:
        """Start a text. With `pass_unopened`, content that could not be decoded is returned too."""
        self._pass_unopened = pass_unopened
        self.unscanned: str | None = None
        """The rule id for unscanned text; None if all text so far was scanned completely."""
        self.secret: str | None = None
        """The rule id of the first watched secret in the text; None if none was found so far."""
        self.scanner = scanner
        """The current scanner. It can be replaced at any time by a scanner with more secrets."""
        self._direction = direction
        self._data = bytearray()
        """The end of the returned text, and all text that was not returned."""
        self._returned = 0
        """Number of bytes in `_data` that were returned."""
        self._line = 0
        """The end of the last complete line."""
        self._run = 0
        """The end of the encoded lines that are held back; 0 if there are none."""
        self._cut_off = False
        """True if the start of the text was removed from `_data`."""
        self._archive = -1
        """The possible start of an archive; -1 if there is none."""
        self.blocked: LeakMatch | None = None
        """The blocking match, after which nothing is returned."""

    def feed(self, piece: bytes | bytearray) -> bytes:
        """Take the next piece, and return the text that has become safe, which may be empty."""
        size = len(self._data)
        self._data += piece
        if self.blocked:
            return b""
        if (at := self._data.rfind(b"\n", size)) >= 0:
            self._line = at + 1
        end = self._find_safe_end(size)
        return self._release(end) if end > self._returned else b""

    def finish(self) -> bytes:
        """Return all text that was held back."""
        return b"" if self.blocked else self._release(len(self._data))

    def _find_safe_end(self, size: int) -> int:
        """Return the end of the text that can be released, as far as this is known without scanning."""
        self._archive = self._find_archive(size)
        if self._archive >= 0:
            self._line = self._data.rfind(b"\n", 0, self._archive) + 1
        end = self._line
        if end <= self._returned:
            late = len(self._data) - MAX_MATCH_BYTES
            if self._archive >= 0 or late - self._returned < _LONG_BYTES:
                return self._returned
            end = self._data.rfind(b" ", max(self._returned, late - _LONG_BYTES), late) + 1
        if self._run > self._returned and continues_run(self._data[self._run : end]):
            self._run = end
            return self._returned
        fresh = bytes(self._data[self._returned : end])
        run = find_unfinished_run(fresh)
        self._run = end if run < len(fresh) else 0
        secret = self.scanner.possible_match_start(bytes(self._data[:end])) - self._returned
        return self._returned + max(0, min(run, _find_unfinished_key(fresh.lower()), secret))

    def _find_archive(self, size: int) -> int:
        """Return the start of an archive, or -1."""
        if self._archive >= 0:
            # The content may turn out not to be an archive; check again while it is short.
            if len(self._data) - self._archive > _SOUND_BYTES:
                return self._archive
            size = self._archive
        start = max(0, size - _MAGIC_BYTES)
        fresh = bytes(self._data[start:])
        found = find_first_archive(fresh, 0, from_beginning=start == 0 and not self._cut_off)
        return start + found if found >= 0 else -1

    def _release(self, end: int) -> bytes:
        """Scan all available text and return it up to `end`, or up to a match that crosses `end`."""
        report = self.scanner.scan_bytes(bytes(self._data), direction=self._direction)
        self.unscanned = self.unscanned or report.unscanned
        self.secret = self.secret or report.secret
        if self._pass_unopened:
            report = report.without_unopened()
        self.blocked = next((match for match in report.matches if match.action is Action.BLOCK), None)
        if self.blocked:
            return b""
        found = list_redactions(report.matches)
        for start, stop, _ in reversed(found):
            if start < end < stop:
                self._line = end = max(start, self._returned)  # do not try again before the next line's end
        safe = self._redact(found, end)
        behind = max(0, end - _CONTEXT_BYTES)
        del self._data[:behind]
        self._cut_off = self._cut_off or behind > 0
        self._returned = end - behind
        self._line, self._run = max(0, self._line - behind), max(0, self._run - behind)
        self._archive = max(-1, self._archive - behind)
        return safe

    def _redact(self, found: list[tuple[int, int, str]], end: int) -> bytes:
        parts: list[bytes] = []
        position = self._returned
        for start, stop, mark in found:
            if stop > position and start < end:
                parts += (bytes(self._data[position : max(position, start)]), mark.encode())
                position = stop
        return b"".join((*parts, self._data[position:end]))


def _find_unfinished_key(text: bytes) -> int:
    """Return the start of an incomplete multi-line key, or the text's length if there is none."""
    start = max(text.rfind(opening) for opening in _KEY_STARTS)
    far = len(text) - start > MAX_MATCH_BYTES
    return len(text) if start < 0 or far or text.find(_KEY_END, start) >= 0 else start
