"""Find the keywords of rules: a first look at short texts, Hyperscan for large ones, and RE2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from wasmrt.core.limits import MIB
from wasmrt.egress.leaks._linear import compile_set
from wasmrt.egress.leaks._rules import Rule

if TYPE_CHECKING:
    import hyperscan

_COMPILE_AFTER_BYTES = 4 * MIB
"""Bytes of large texts after which compiling, some 50 ms, is worthwhile: a short-lived process never does."""


class Prefilter:
    """The shipped keywords as one Hyperscan automaton. Safe to share between threads."""

    __slots__ = ("_database", "_keywords", "_lock", "_seen_bytes")

    def __init__(self, keywords: Iterable[str]) -> None:
        self._keywords = tuple(keywords)
        self._database: hyperscan.Database | None = None
        self._lock = Lock()
        """SECURITY: Hyperscan's scratch memory serves one scan at a time."""
        self._seen_bytes = 0

    def rules_out(self, data: bytes | memoryview) -> bool:
        """Return whether a large text holds no keyword; False if it may or was not checked."""
        if not self._lock.acquire(blocking=False):
            return False  # another thread is scanning, or was when this process was forked
        try:
            database = self._prepared(len(data))
            return database is not None and not _found_in(database, data)
        finally:
            self._lock.release()

    def _prepared(self, size: int) -> hyperscan.Database | None:
        if self._seen_bytes <= _COMPILE_AFTER_BYTES:
            self._seen_bytes += size
            if self._seen_bytes > _COMPILE_AFTER_BYTES:
                self._database = _compiled(self._keywords)
        return self._database


def _compiled(keywords: tuple[str, ...]) -> hyperscan.Database | None:
    try:
        import hyperscan
    except ImportError:
        return None
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=[keyword.encode("latin-1") for keyword in keywords], flags=hyperscan.HS_FLAG_SINGLEMATCH
        )
    except hyperscan.error:  # it does not support every processor
        return None
    return database


def _found_in(database: hyperscan.Database, data: bytes | memoryview) -> bool:
    from hyperscan import ScanTerminated

    try:
        database.scan(cast("bytes", data), match_event_handler=_stop)  # it takes any buffer
    except ScanTerminated:
        return True
    return False


def _stop(*_match: object) -> bool:
    return True


if TYPE_CHECKING:
    import re2

_MEMORY_BYTES = 64 << 20
_FIRST_TEXTS = 16
_SHORT_BYTES = 4096
_ONE_PASS_BYTES = 1024
"""Up to this a text is asked for any keyword before all else; a longer one mostly holds some, and is not read twice."""


def keywords_of(rules: Sequence[Rule]) -> dict[str, list[int]]:
    """Map every keyword's expression to the numbers of the rules behind it."""
    keywords: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        for expression in rule.keyword_expressions():
            keywords.setdefault(expression, []).append(index)
    return keywords


class FirstLook:
    """Literals, one of which is in every text with a keyword: enough for the first short texts of a process.

    To load RE2 and to compile the keywords takes 6 ms, a tenth of `wasmrt run`.
    """

    __slots__ = ("_cased", "_left", "_uncased")

    def __init__(self, cased: Sequence[str], uncased: Sequence[str]) -> None:
        self._cased = cased
        self._uncased = uncased
        self._left = _FIRST_TEXTS

    def rules_out(self, data: bytes) -> bool:
        """Return whether a short text holds no keyword; False if it may, or where it is time to compile them."""
        if self._left <= 0 or len(data) > _SHORT_BYTES:
            return False
        self._left -= 1
        text = data.decode("latin-1")
        lowered = text.lower()
        return not (any(word in lowered for word in self._uncased) or any(word in text for word in self._cased))


class Keywords:
    """The keywords of a list of rules, compiled at the first scan that needs it. Safe to share between threads."""

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
        """The numbers of the rules behind each keyword."""
        self.cased = tuple(not expression.startswith("(?i:") for expression in keywords)
        """True for each keyword whose case counts."""

    def in_text(self, data: bytes | memoryview) -> list[int]:
        """Return the numbers of the keywords that a text holds."""
        return (self._set or self._compiled()).Match(data) or []

    def rules_out_text(self, data: bytes) -> bool:
        """Return, at little cost, whether a whole text holds no keyword; False if it may."""
        if self._set is None and self._first_look is not None and self._first_look.rules_out(data):
            return True
        return len(data) <= _ONE_PASS_BYTES and not self.in_text(data)

    def rules_out_chunk(self, data: memoryview) -> bool:
        """Return, at little cost, whether a chunk of a large text holds no keyword; False if it may."""
        return self._prefilter is not None and self._prefilter.rules_out(data)

    def _compiled(self) -> Any:
        with self._lock:
            if self._set is None:
                expressions = (expression.encode("latin-1") for expression in self._expressions)
                self._set = compile_set(expressions, memory_bytes=_MEMORY_BYTES)
            return self._set
