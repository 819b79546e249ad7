"""Tell which keywords a text holds: one pass of RE2, and two short cuts for texts that hold none.

Keywords are plain literals with character classes, so that their automaton is bounded and never runs out of memory,
where RE2's Set would say "nothing".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from wasmrt.egress.leaks._linear import compile_set
from wasmrt.egress.leaks._prefilter import Prefilter
from wasmrt.egress.leaks._rules import Rule

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
        """Tell that a short text holds no keyword; False where it may, or where it is time to compile them."""
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
        """Tell at little cost that a whole text holds no keyword; False where it may."""
        if self._set is None and self._first_look is not None and self._first_look.rules_out(data):
            return True
        return len(data) <= _ONE_PASS_BYTES and not self.in_text(data)

    def rules_out_chunk(self, data: memoryview) -> bool:
        """Tell at little cost that a chunk of a large text holds no keyword; False where it may."""
        return self._prefilter is not None and self._prefilter.rules_out(data)

    def _compiled(self) -> Any:
        with self._lock:
            if self._set is None:
                expressions = (expression.encode("latin-1") for expression in self._expressions)
                self._set = compile_set(expressions, memory_bytes=_MEMORY_BYTES)
            return self._set
