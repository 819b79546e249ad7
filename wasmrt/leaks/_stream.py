"""Scan a text that arrives in pieces, with the findings that the whole would have given."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.errors import LeakError
from wasmrt.leaks._engine import STRIDE_BYTES
from wasmrt.leaks._model import MAX_REACH_BYTES, LeakMatch, LeakReport, report_of
from wasmrt.limits import DEFAULT_MAX_RESPONSE_BYTES

Matcher = Callable[[bytes, int, int | None], list[LeakMatch]]
_AHEAD_BYTES = MAX_REACH_BYTES + STRIDE_BYTES
"""How much a stride needs to see beyond its end before its findings can no longer change."""


class LeakStream:
    """Feed chunks, then `finish`. Formats are reported as soon as they are final, our own secrets at the end.

    The whole text is kept until then, since an encoding may span all of it; `max_bytes` bounds it.
    """

    __slots__ = ("_data", "_done", "_exact", "_finished", "_formats", "_found", "_joined", "max_bytes")

    def __init__(
        self,
        *,
        formats: Matcher,
        exact: Callable[[bytes], list[LeakMatch]],
        joined: Callable[[list[LeakMatch]], list[LeakMatch]],
        max_bytes: int = DEFAULT_MAX_RESPONSE_BYTES,
    ) -> None:
        self._formats = formats
        self._exact = exact
        self._joined = joined
        self._data = bytearray()
        self._done = 0
        self._found: list[LeakMatch] = []
        self._finished = False
        self.max_bytes = max_bytes

    def feed(self, chunk: bytes | str) -> tuple[LeakMatch, ...]:
        """Take the next piece and return the findings that became final; offsets are bytes from the beginning.

        Raises:
            LeakError: the text is over `max_bytes`, or `finish` was called.
        """
        if self._finished:
            raise LeakError("the stream was finished", hint="make a new one for the next text")
        self._data += chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else chunk
        if len(self._data) > self.max_bytes:
            raise LeakError(f"the text is over {self.max_bytes} bytes", hint="raise max_bytes of the stream")
        ready = (len(self._data) - _AHEAD_BYTES) // STRIDE_BYTES * STRIDE_BYTES
        return tuple(self._advance(ready)) if ready > self._done else ()

    def _advance(self, end: int | None) -> list[LeakMatch]:
        """Scan from the first stride that is not done up to `end`, seeing one stride back for the word before."""
        base = max(0, self._done - STRIDE_BYTES)
        stop = len(self._data) if end is None else end
        window = bytes(self._data[base : None if end is None else stop + _AHEAD_BYTES])
        fresh = [
            LeakMatch(m.rule, m.start + base, m.end + base, m.severity, m.action, m.certain, m.where)
            for m in self._formats(window, self._done - base, stop - base)
        ]
        self._found += fresh
        self._done = stop
        return fresh

    def finish(self) -> LeakReport:
        """Say what the whole text held."""
        if not self._finished:
            self._advance(None)
            self._found = self._joined(self._found + self._exact(bytes(self._data)))
            self._finished = True
        return report_of(self._found)
