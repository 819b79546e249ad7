"""Hyperscan in front of RE2: whether a large piece of text touches any gate at all, in a quarter of RE2's time.

Its automaton takes some 75 ms to compile, so it is made on a thread of its own, and only by a process that scans much.
RE2 answers until then, and for good where there is no Hyperscan; both give the same answer.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from wasmrt.limits import KIB, MIB

if TYPE_CHECKING:
    import hyperscan

_PAID_BYTES = 4 * MIB
"""After so many bytes of large texts the automaton is worth compiling."""
_SHARED_BYTES = 512 * KIB
_ALIGNED = 4 * KIB
_IDLE_SCRATCHES = 8
_SAME = re.compile(
    r"(?:\(\?i:)?(?:\\[^0-9A-Za-z]|[^\\\[\](){}|*+?.^$]"
    r"|\[\^?(?:\\[\\\]^tnfrdw-]|\\x[0-9A-Fa-f]{2}|[^\\\[\]])+\](?:\{[1-9][0-9]?\}|\*)?)+\)?",
    re.ASCII | re.DOTALL,
)
"""What means the same to RE2 and to Hyperscan, which reads Perl's expressions: its `\\s` holds one character more."""


class QuickGate:
    """The gates as one automaton. Safe to share between threads."""

    __slots__ = ("_database", "_scratches")

    def __init__(self, expressions: Sequence[str]) -> None:
        import hyperscan

        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[expression.encode("latin-1") for expression in expressions],
            flags=hyperscan.HS_FLAG_SINGLEMATCH,
        )
        # SECURITY: two scans at once must not share a scratch. The database's own is only ever cloned.
        self._scratches: list[hyperscan.Scratch] = []

    def touches(self, data: bytes, overlap: int) -> bool:
        """Whether any gate is in a text. Two threads share a large one; one half goes on for `overlap` bytes more."""
        if len(data) < _SHARED_BYTES:
            return self._touches(data)
        from wasmrt.leaks._ahead import Ahead

        text, middle = memoryview(data), len(data) // 2 // _ALIGNED * _ALIGNED
        rest = Ahead(self._touches, cast("bytes", text[middle:]), otherwise=True)
        return self._touches(cast("bytes", text[: middle + overlap])) or rest.answer()

    def _touches(self, data: bytes) -> bool:
        from hyperscan import ScanTerminated

        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = self._database.scratch.clone()
        try:
            self._database.scan(data, match_event_handler=_stop, scratch=scratch)
        except ScanTerminated:
            return True
        finally:
            if len(self._scratches) < _IDLE_SCRATCHES:
                self._scratches.append(scratch)
        return False


class QuickGates:
    """The quick gate of some rules, once it has paid to compile it."""

    __slots__ = ("_begun", "_gate", "_seen_bytes")

    def __init__(self) -> None:
        self._gate: QuickGate | None = None
        self._begun = threading.Lock()
        """Taken by whoever has it compiled, and never given back."""
        self._seen_bytes = 0

    def ready(self, size: int, expressions: Iterable[str]) -> QuickGate | None:
        """Return it if it is there by now; `size` more bytes are about to be scanned."""
        if self._gate is None and self._seen_bytes <= _PAID_BYTES:
            self._seen_bytes += size
            if self._seen_bytes > _PAID_BYTES and self._begun.acquire(blocking=False):
                compiler = threading.Thread(target=self._compile, args=(tuple(expressions),), name="wasmrt-gates")
                with contextlib.suppress(RuntimeError):  # no thread can be had
                    compiler.start()
        return self._gate

    def _compile(self, expressions: Sequence[str]) -> None:
        if not all(expression.isascii() and _SAME.fullmatch(expression) for expression in expressions):
            return
        with contextlib.suppress(ImportError):
            import hyperscan

            with contextlib.suppress(hyperscan.error):  # it takes not every expression, nor every processor
                self._gate = QuickGate(expressions)


def _stop(*_match: object) -> bool:
    return True
