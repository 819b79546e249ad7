"""Find the keywords of rules: by literals in the first short texts, by Hyperscan in large texts, otherwise by RE2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from wasmrt.core.limits import KIB, MIB
from wasmrt.egress.leaks._linear import compile_set
from wasmrt.egress.leaks._rules import Rule

if TYPE_CHECKING:
    import hyperscan
    import re2

LARGE_BYTES = 64 * KIB
"""Size from which on a text is tested with a `Prefilter`."""
_COMPILE_AFTER_BYTES = 4 * MIB
"""Number of bytes of large texts after which compiling, which takes about 50 ms, is worthwhile. Short-lived processes
never scan as much."""


class Prefilter:
    """The built-in keywords as one Hyperscan automaton. Thread-safe."""

    __slots__ = ("_database", "_keywords", "_lock", "_seen_bytes")

    def __init__(self, keywords: Iterable[str]) -> None:
        self._keywords = tuple(keywords)
        self._database: hyperscan.Database | None = None
        self._lock = Lock()
        """SECURITY: Hyperscan's scratch memory serves one scan at a time."""
        self._seen_bytes = 0

    def rules_out(self, data: bytes | memoryview) -> bool:
        """Return True if a large text certainly has no keyword; False if it may have one, or was not checked."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread is scanning, or was scanning when this process was forked
        try:
            database = self._prepare(len(data))
            return database is not None and not _finds_match(database, data)
        finally:
            self._lock.release()

    def _prepare(self, size: int) -> hyperscan.Database | None:
        if self._seen_bytes <= _COMPILE_AFTER_BYTES:
            self._seen_bytes += size
            if self._seen_bytes > _COMPILE_AFTER_BYTES:
                self._database = _compile_database(self._keywords)
        return self._database


def _compile_database(keywords: tuple[str, ...]) -> hyperscan.Database | None:
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=[keyword.encode("latin-1") for keyword in keywords], flags=hyperscan.HS_FLAG_SINGLEMATCH
        )
    except hyperscan.error:  # some processors are not supported
        return None
    return database


def _finds_match(database: hyperscan.Database, data: bytes | memoryview) -> bool:
    from hyperscan import ScanTerminated

    try:
        database.scan(cast("bytes", data), match_event_handler=_stop_at_match)  # `scan` accepts any buffer
    except ScanTerminated:
        return True
    return False


def _stop_at_match(*_match: object) -> bool:
    return True


_MEMORY_BYTES = 64 << 20
_FIRST_TEXTS = 16
_SHORT_BYTES = 4096
_ONE_PASS_BYTES = 1024
"""Texts up to this size are first tested for any keyword. Longer texts usually contain one, so the test is left out."""


def map_keywords(rules: Sequence[Rule]) -> dict[str, list[int]]:
    """Map every keyword's expression to the indexes of its rules."""
    keywords: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        for expression in rule.list_keyword_expressions():
            keywords.setdefault(expression, []).append(index)
    return keywords


class FirstLook:
    """A quick check of a process's first short texts, by literals. A text with a keyword contains at least one literal.

    The check avoids loading RE2 and compiling the keywords, which takes 6 ms, a tenth of the time of `wasmrt run`.
    """

    __slots__ = ("_cased", "_left", "_uncased")

    def __init__(self, cased: Sequence[str], uncased: Sequence[str]) -> None:
        self._cased = cased
        self._uncased = uncased
        self._left = _FIRST_TEXTS

    def rules_out(self, data: bytes) -> bool:
        """Return True if a short text certainly contains no keyword. Once compiling is worthwhile, return False."""
        if self._left <= 0 or len(data) > _SHORT_BYTES:
            return False
        self._left -= 1
        text = data.decode("latin-1")
        lowered = text.lower()
        return not (any(word in lowered for word in self._uncased) or any(word in text for word in self._cased))


class Keywords:
    """The keywords of a list of rules, compiled at the first scan that needs them. Thread-safe."""

    __slots__ = ("_expressions", "_first_look", "_lock", "_prefilter", "_set", "cased", "rules")

    def __init__(
        self,
        keywords: Mapping[str, list[int]],
        *,
        first_look: FirstLook | None = None,
        prefilter: Prefilter | None = None,
    ) -> None:
        self._expressions = tuple(keywords)
        self._first_look = first_look
        self._prefilter = prefilter
        self._set: re2.Set | None = None
        self._lock = Lock()
        self.rules = tuple(keywords.values())
        """The indexes of the rules of each keyword."""
        self.cased = tuple(not expression.startswith("(?i:") for expression in keywords)
        """True for each case-sensitive keyword."""

    def find_in_text(self, data: bytes | memoryview) -> list[int]:
        """Return the indexes of the keywords in a text."""
        return (self._set or self._compile()).Match(data) or []

    def excludes_text(self, data: bytes) -> bool:
        """Return, at low cost, whether a text certainly contains no keyword."""
        if self._set is None and self._first_look is not None and self._first_look.rules_out(data):
            return True
        return len(data) <= _ONE_PASS_BYTES and not self.find_in_text(data)

    def excludes_chunk(self, data: memoryview) -> bool:
        """Return, at low cost, whether a chunk of a large text certainly contains no keyword."""
        return self._prefilter is not None and self._prefilter.rules_out(data)

    def _compile(self) -> Any:
        with self._lock:
            if self._set is None:
                expressions = (expression.encode("latin-1") for expression in self._expressions)
                self._set = compile_set(expressions, memory_bytes=_MEMORY_BYTES)
            return self._set
