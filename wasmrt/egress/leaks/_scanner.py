"""Scan the texts and requests of one call for its secrets and for token formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from wasmrt.egress.leaks._encoded import LEAST_RUN, decode, may_hold_encoded
from wasmrt.egress.leaks._engine import RuleEngine
from wasmrt.egress.leaks._escapes import unescape
from wasmrt.egress.leaks._exact import ExactMatcher, ScanHints
from wasmrt.egress.leaks._model import (
    DECODE_LIMIT_RULE,
    SCAN_BUDGET_RULE,
    SECRET_RULE,
    Action,
    Check,
    DecodeBudget,
    Direction,
    LeakMatch,
    LeakReport,
    Severity,
    WorkBudget,
    cut_out,
    list_redactions,
    no_check,
    report_of,
)

_MAX_LAYERS = 3
_ESCAPES = (b"%", b"\\", b"&")
_URL_MARKS = re.compile(rb"[/?&=#]")


def decode_contents(data: bytes, check: Check) -> Iterator[bytes]:
    """Yield the encoded content of a text, layer by layer, as far as the decoding budget allows."""
    plain = data.isascii() and not any(mark in data for mark in _ESCAPES)
    if plain and not may_hold_encoded(data):
        return  # this is the case for most texts
    budget = DecodeBudget.for_text(len(data), check)
    layer = [data]
    for _ in range(_MAX_LAYERS):
        layer = [inner for text in layer for inner in _decode_layer(text, budget)]
        yield from layer


def decode_url_contents(url: bytes, check: Check) -> Iterator[bytes]:
    """Yield the encoded content of each part of a URL. The URL is split because a slash is also a base64 character."""
    for part in _URL_MARKS.split(url):
        if len(part) >= LEAST_RUN:
            yield from decode_contents(part, check)


def _decode_layer(text: bytes, budget: DecodeBudget) -> Iterator[bytes]:
    plain = unescape(text, budget.check)
    if plain and budget.charge(len(plain.data)):
        yield plain.data
    yield from (found.data for found in decode(text, budget))


Overrides = Mapping[str, Action | Mapping[Direction, Action]]
"""The action of a rule, or of a rule in one direction, by rule id."""

_OUTWARD_ACTIONS = {
    Severity.LOW: Action.WARN,
    Severity.MEDIUM: Action.REDACT,
    Severity.HIGH: Action.BLOCK,
    Severity.CRITICAL: Action.BLOCK,
}
_EXACT_ACTIONS = {Direction.OUTWARD: Action.BLOCK, Direction.INWARD: Action.REDACT}
_MAX_MATCHES = 20_000
"""A text with more matches is replaced completely, because replacing each match would take too long."""
_CONTINUATIONS = bytes(range(0x80, 0xC0))


class LeakScanner:
    """A scanner that finds secrets in texts. It is cheap to create, and stores no text."""

    __slots__ = ("_check", "_engine", "_exact", "_overrides", "_partial")

    def __init__(
        self, engine: RuleEngine, overrides: Overrides, exact: ExactMatcher | None, check: Check | None = None
    ) -> None:
        self._engine = engine
        self._overrides = overrides
        self._exact = exact
        self._check = check or no_check
        self._partial: LeakScanner | None = None

    @property
    def unwatched(self) -> tuple[str, ...]:
        """Names of secrets that are too short to search for."""
        return self._exact.unwatched if self._exact is not None else ()

    @property
    def has_secrets(self) -> bool:
        """True if the scanner searches for secrets of its call."""
        return self._exact is not None

    @property
    def partial(self) -> LeakScanner:
        """A scanner that also reports parts of a secret, of at least eight characters and a third of its length."""
        if self._exact is None:
            return self
        if self._partial is None:
            exact = self._exact.with_partial()
            self._partial = LeakScanner(self._engine, self._overrides, exact, self._check)
        return self._partial

    def scan(self, text: str, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in a text, and return a report. Its offsets are in characters."""
        data = text.encode("utf-8", "surrogatepass")
        matches = self._find_matches(data, direction, "text")
        if matches and len(data) != len(text):
            matches = _to_character_offsets(data, matches)
        return report_of(matches)

    def scan_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in bytes of any kind, and return a report. Its offsets are in bytes."""
        return report_of(self._find_matches(bytes(data), direction, "text"))

    def redact(self, text: str, *, direction: Direction = Direction.INWARD) -> str:
        """Return `text` with every match replaced, even a match that blocks, except matches whose action is to warn."""
        parts: list[str] = []
        position = 0
        for start, end, mark in list_redactions(self.scan(text, direction=direction).matches):
            parts += (text[position:start], mark)
            position = end
        return "".join((*parts, text[position:])) if parts else text

    def redact_start(self, text: str, keep: int, *, direction: Direction = Direction.INWARD) -> str:
        """Return the first `keep` characters of `text`, with every match replaced except warnings.

        SECURITY: the complete `text` is scanned before it is cut. A secret that crosses the cut is replaced completely.
        """
        parts: list[str] = []
        position = 0
        for start, end, mark in list_redactions(self.scan(text, direction=direction).matches):
            if start >= keep:
                break
            parts += (text[position:start], mark)
            position = end
        return "".join((*parts, text[position : max(position, keep)]))

    def redact_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> bytes:
        """Return `data` with every match replaced, even a match that blocks, except matches whose action is to warn."""
        return cut_out(data, self.scan_bytes(data, direction=direction).matches)

    def scan_http_request(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        body: bytes | str | None = None,
        *,
        direction: Direction = Direction.OUTWARD,
    ) -> LeakReport:
        """Find secrets in a request: in the URL, unchanged and decoded, in header names and values, and in the body.

        Encoded content is also searched for token formats. Such a match has the offsets of the complete part.
        """
        raw = url.encode("utf-8", "surrogatepass")
        matches = self._find_matches(raw, direction, "url")
        if decoded := unescape(raw, self._check):
            for match in self._find_matches(decoded.data, direction, "url"):
                matches.append(match.with_offsets(*decoded.origin(match.start, match.end)))
        matches += self._find_inside(raw, decode_url_contents(raw, self._check), direction, "url")
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        for name, value in pairs:
            line = f"{name}: {value}".encode("utf-8", "surrogatepass")
            matches += self._find_matches(line, direction, f"header:{name}")
            matches += self._find_inside(line, decode_contents(line, self._check), direction, f"header:{name}")
        if body:
            data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
            hints = ScanHints()
            matches += self._find_matches(data, direction, "body", hints)
            if not hints.nothing_encoded:
                matches += self._find_inside(data, decode_contents(data, self._check), direction, "body")
        return report_of(list(dict.fromkeys(matches)))

    def possible_match_start(self, data: bytes) -> int:
        """Find the start of a watched secret that may continue after `data`. Return `len(data)` if there is none."""
        return len(data) if self._exact is None else self._exact.possible_match_start(data)

    def _find_matches(
        self, data: bytes, direction: Direction, where: str, hints: ScanHints | None = None
    ) -> list[LeakMatch]:
        self._check()
        matches: list[LeakMatch] = []
        if self._exact is not None:  # first, before other searches use up the time
            matches = self._find_exact(self._exact, data, direction, where, hints)
        matches += self._find_formats(data, direction, where)
        if len(matches) > _MAX_MATCHES:
            return [matches[0]._replace(start=0, end=len(data), action=_EXACT_ACTIONS[direction])]
        return _join_matches(matches) if matches else matches

    def _find_inside(self, data: bytes, inner: Iterator[bytes], direction: Direction, where: str) -> list[LeakMatch]:
        found = (self._find_formats(text, direction, where) for text in inner)
        return [match._replace(start=0, end=len(data)) for matches in found for match in matches]

    def _find_formats(self, data: bytes, direction: Direction, where: str) -> list[LeakMatch]:
        if self._engine.rules_out(data):
            return []
        budget = WorkBudget()
        matches = [
            LeakMatch(r.id, start, end, r.severity, self._choose_action(r.id, r.severity, direction), certain, where)
            for r, start, end, certain in islice(self._engine.find(data, self._check, budget), _MAX_MATCHES + 1)
        ]
        for start, end in budget.unscanned:
            action = self._choose_action(SCAN_BUDGET_RULE, Severity.LOW, direction)
            matches.append(LeakMatch(SCAN_BUDGET_RULE, start, end, Severity.LOW, action, False, where))
        return matches

    def _find_exact(
        self, exact: ExactMatcher, data: bytes, direction: Direction, where: str, hints: ScanHints | None
    ) -> list[LeakMatch]:
        matches = []
        for name, start, end in islice(exact.find(data, self._check, hints), _MAX_MATCHES + 1):
            if name is None:
                action = self._choose_action(DECODE_LIMIT_RULE, Severity.HIGH, direction, unscanned=True)
                matches.append(LeakMatch(DECODE_LIMIT_RULE, start, end, Severity.HIGH, action, False, where))
            else:
                action = _EXACT_ACTIONS[direction]
                matches.append(LeakMatch(SECRET_RULE + name, start, end, Severity.CRITICAL, action, True, where))
        return matches

    def _choose_action(self, rule: str, severity: Severity, direction: Direction, *, unscanned: bool = False) -> Action:
        chosen = self._overrides.get(rule)
        if isinstance(chosen, Action):
            return chosen
        if chosen is not None and direction in chosen:
            return chosen[direction]
        if unscanned:
            return Action.BLOCK
        action = _OUTWARD_ACTIONS[severity]
        return Action.REDACT if action is Action.BLOCK and direction is Direction.INWARD else action


def _join_matches(matches: list[LeakMatch]) -> list[LeakMatch]:
    """Join overlapping matches of a rule, such as a value across a block boundary, or a secret in two encodings."""
    latest: dict[str, int] = {}
    joined: list[LeakMatch] = []
    for match in sorted(matches, key=lambda m: (m.start, m.end)):
        at = latest.get(match.rule)
        if at is not None and match.start < joined[at].end + (match.rule == SCAN_BUDGET_RULE):
            joined[at] = joined[at].with_offsets(joined[at].start, max(joined[at].end, match.end))
            continue
        latest[match.rule] = len(joined)
        joined.append(match)
    return joined


def _to_character_offsets(data: bytes, matches: list[LeakMatch]) -> list[LeakMatch]:
    """Convert byte offsets to character offsets. A match that starts inside a character is extended."""
    places = sorted({place for m in matches for place in (m.start, m.end)})
    characters: dict[int, int] = {}
    position = count = 0
    for place in places:
        count += len(data[position:place].translate(None, _CONTINUATIONS))
        characters[place], position = count, place
    moved = []
    for match in matches:
        inside = match.start < len(data) and data[match.start] & 0xC0 == 0x80
        moved.append(match.with_offsets(characters[match.start] - inside, characters[match.end]))
    return moved
