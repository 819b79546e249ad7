"""The door of the leak detector: scan, redact, and the scanner of one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from wasmrt.errors import ConfigurationError
from wasmrt.leaks._builtin import builtin_rules
from wasmrt.leaks._engine import Check, RuleEngine
from wasmrt.leaks._flood import Allowance
from wasmrt.leaks._model import (
    CLEAN,
    SECRET_RULE,
    UNJUDGED_RULE,
    UNOPENED_RULE,
    Action,
    Direction,
    LeakMatch,
    LeakReport,
    Severity,
    merged_spans,
    report_of,
)
from wasmrt.limits import DEFAULT_MAX_RESPONSE_BYTES

if TYPE_CHECKING:
    from wasmrt.leaks._ahead import Ahead
    from wasmrt.leaks._exact import ExactMatcher
    from wasmrt.leaks._gate import Touched
    from wasmrt.leaks._release import ReleasingStream
    from wasmrt.leaks._rules import Rule
    from wasmrt.leaks._sieve import KernelMaker
    from wasmrt.leaks._stream import LeakStream

_DEFAULT_ACTIONS: Mapping[tuple[Direction, Severity], Action] = {
    (Direction.OUTWARD, Severity.LOW): Action.WARN,
    (Direction.OUTWARD, Severity.MEDIUM): Action.REDACT,
    (Direction.OUTWARD, Severity.HIGH): Action.BLOCK,
    (Direction.OUTWARD, Severity.CRITICAL): Action.BLOCK,
    (Direction.INWARD, Severity.LOW): Action.WARN,
    (Direction.INWARD, Severity.MEDIUM): Action.REDACT,
    (Direction.INWARD, Severity.HIGH): Action.REDACT,
    (Direction.INWARD, Severity.CRITICAL): Action.REDACT,
}
_EXACT_ACTIONS = {Direction.OUTWARD: Action.BLOCK, Direction.INWARD: Action.REDACT}

_KEPT_MATCHERS = 16
"""Sets of secrets; a set that is not used again is forgotten after so many others."""

Overrides = Mapping[str, Action | Mapping[Direction, Action]]


class LeakScanner:
    """Rules plus the secrets of one call. Cheap to make; keeps no text."""

    __slots__ = ("_check", "_engine", "_exact", "_overrides", "_strict")

    def __init__(
        self, engine: RuleEngine, overrides: Overrides, exact: ExactMatcher | None, check: Check | None = None
    ) -> None:
        self._engine = engine
        self._check = check
        self._overrides = overrides
        self._exact = exact
        self._strict: LeakScanner | None = None

    @property
    def unwatched(self) -> tuple[str, ...]:
        """Names of primed secrets that are too short to look for."""
        return self._exact.unwatched if self._exact is not None else ()

    @property
    def is_primed(self) -> bool:
        """Whether it knows a secret of its call."""
        return self._exact is not None

    @property
    def strict(self) -> LeakScanner:
        """This scanner, but it finds pieces of the secrets too: of a third, and of at least eight characters."""
        if self._exact is None:
            return self
        if self._strict is None:
            self._strict = LeakScanner(self._engine, self._overrides, self._exact.piecewise, self._check)
        return self._strict

    def scan(self, text: str, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in a text; offsets are characters."""
        data = text.encode("utf-8", "surrogatepass")
        if self._exact is None and self._engine.is_clear(data):
            return CLEAN
        matches = self._matches(data, direction, "text")
        if matches and len(data) != len(text):
            matches = _in_characters(data, matches)
        return report_of(matches)

    def scan_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in bytes of any kind; offsets are bytes."""
        return report_of(self._matches(bytes(data), direction, "text"))

    def redact(self, text: str, *, direction: Direction = Direction.INWARD) -> str:
        """Replace every finding but warnings; what blocks is replaced as well, so this never fails."""
        report = self.scan(text, direction=direction)
        if not report.matches:
            return text
        pieces: list[str] = []
        position = 0
        for start, end, mark in _cuts(report):
            pieces += (text[position:start], mark)
            position = end
        return "".join((*pieces, text[position:]))

    def redact_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> bytes:
        """Replace every finding but warnings, in bytes."""
        report = self.scan_bytes(data, direction=direction)
        pieces: list[bytes] = []
        position = 0
        for start, end, mark in _cuts(report):
            pieces += (data[position:start], mark.encode())
            position = end
        return b"".join((*pieces, data[position:])) if pieces else data

    def scan_http_request(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        body: bytes | str | None = None,
        *,
        direction: Direction = Direction.OUTWARD,
    ) -> LeakReport:
        """Find secrets in what is about to be sent: the URL raw and decoded, names and values of headers, the body."""
        from wasmrt.leaks._budget import go_on
        from wasmrt.leaks._escapes import unescaped

        raw = url.encode("utf-8", "surrogatepass")
        matches = self._matches(raw, direction, "url")
        if decoded := unescaped(raw, self._check or go_on):
            for match in self._matches(decoded.data, direction, "url"):
                start, end = decoded.origin(match.start, match.end)
                matches.append(_moved(match, start, end))
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        for name, value in pairs:
            line = f"{name}: {value}".encode("utf-8", "surrogatepass")
            matches += self._matches(line, direction, f"header:{name}")
        if body:
            data = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else bytes(body)
            matches += self._matches(data, direction, "body")
        return report_of(list(dict.fromkeys(matches)))

    def stream(
        self, *, direction: Direction = Direction.INWARD, max_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    ) -> LeakStream:
        """Scan a text that arrives in chunks; the findings are those of the whole."""
        from wasmrt.leaks._stream import LeakStream

        allowance = Allowance()
        return LeakStream(
            formats=lambda data, start, end: self._format_matches(data, direction, "text", start, end, allowance),
            exact=lambda data: self._exact_matches(data, direction, "text"),
            joined=_joined,
            max_bytes=max_bytes,
        )

    def releasing(self, *, direction: Direction = Direction.INWARD) -> ReleasingStream:
        """Redact a text that arrives in chunks, and show it as far as that is safe."""
        from wasmrt.leaks._release import ReleasingStream

        return ReleasingStream(self, direction)

    def begun(self, data: bytes) -> int:
        """Return where a primed secret begins that `data` may break off; its length where none does."""
        return len(data) if self._exact is None else self._exact.begun(data)

    def _format_matches(
        self,
        data: bytes,
        direction: Direction,
        where: str,
        start: int = 0,
        end: int | None = None,
        allowance: Allowance | None = None,
    ) -> list[LeakMatch]:
        allowance = allowance or Allowance()
        found = self._engine.find(data, start, end, self._check, allowance)
        matches = [
            LeakMatch(r.id, begin, stop, r.severity, self._action(r.id, r.severity, direction), certain, where)
            for r, begin, stop, certain in found
        ]
        for begin, stop in allowance.unjudged:
            action = self._action(UNJUDGED_RULE, Severity.LOW, direction)
            matches.append(LeakMatch(UNJUDGED_RULE, begin, stop, Severity.LOW, action, False, where))
        allowance.unjudged.clear()
        return matches

    def _matches(self, data: bytes, direction: Direction, where: str) -> list[LeakMatch]:
        ahead = None if self._exact is None else self._exact.ahead(data)
        clear = self._exact is not None and self._engine.is_clear(data)  # an unprimed scan has asked, where it pays
        matches = [] if clear else self._format_matches(data, direction, where)
        if self._exact is not None:
            matches += self._exact_matches(data, direction, where, ahead)
        return _joined(matches) if matches else matches

    def _exact_matches(
        self, data: bytes, direction: Direction, where: str, ahead: Ahead[Touched] | None = None
    ) -> list[LeakMatch]:
        if self._exact is None:
            return []
        from wasmrt.leaks._budget import go_on

        found = list(self._exact.find(data, self._check or go_on, ahead))
        if not found:
            return []
        action = _EXACT_ACTIONS[direction]
        unopened = self._action(UNOPENED_RULE, Severity.LOW, direction)
        return [
            LeakMatch(UNOPENED_RULE, start, end, Severity.LOW, unopened, False, where)
            if name is None
            else LeakMatch(SECRET_RULE + name, start, end, Severity.CRITICAL, action, True, where)
            for name, start, end in found
        ]

    def _action(self, rule: str, severity: Severity, direction: Direction) -> Action:
        chosen = self._overrides.get(rule)
        if isinstance(chosen, Action):
            return chosen
        if chosen is not None and direction in chosen:
            return chosen[direction]
        return _DEFAULT_ACTIONS[direction, severity]


class LeakDetector:
    """Finds secrets by their formats. One per process; `primed` gives each call its own scanner.

    `rules` are added to those that ship with wasmrt; `overrides` names the action of a rule, or of a rule in one
    direction. A primed scanner warns of `unopened-content` that is packed over the limits; every scanner warns of
    `unjudged-content` that is made of more look-alikes than a scan may weigh. Both are overridden likewise.
    `kernel` makes an instance of a WebAssembly module from its text, as the engine's `make_kernel` does: with it,
    large texts are searched for secrets of a call several times as fast. It changes nothing of what is found.

    Raises:
        ConfigurationError: two rules share an id, or an override names a rule that does not exist.
    """

    __slots__ = ("_added", "_engine", "_kernel", "_lock", "_matchers", "_overrides", "_plain")

    def __init__(
        self, *, rules: Sequence[Rule] = (), overrides: Overrides | None = None, kernel: KernelMaker | None = None
    ) -> None:
        self._added = tuple(rules)
        self._kernel = kernel
        self._matchers: dict[tuple[tuple[str, str], ...], ExactMatcher] = {}
        self._lock = Lock()
        self._overrides = dict(overrides or {})
        self._engine: RuleEngine | None = None
        self._plain: LeakScanner | None = None
        if self._added or self._overrides:
            self._check(self.rules)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule that applies."""
        return (*builtin_rules(), *self._added)

    def _check(self, rules: tuple[Rule, ...]) -> None:
        known = {UNJUDGED_RULE, UNOPENED_RULE}
        for rule in rules:
            if rule.id in known:
                raise ConfigurationError(f"two rules are called {rule.id}", hint="rename the one you added")
            known.add(rule.id)
        for name in self._overrides.keys() - known:
            from difflib import get_close_matches

            nearest = get_close_matches(name, known, 1)
            hint = f"did you mean {nearest[0]}?" if nearest else "`wasmrt leaks rules` lists them"
            raise ConfigurationError(f"an override names the unknown rule {name!r}", hint=hint)

    def primed(self, secrets: Mapping[str, str], *, check: Check | None = None) -> LeakScanner:
        """Make the scanner of one call, which also knows the secrets that call may use.

        `check` is called while a scan has work to do for its findings, and ends it by raising.
        """
        if self._engine is None:
            self._engine = _shared_engine() if not self._added else RuleEngine(self.rules)
        return LeakScanner(self._engine, self._overrides, self._matcher(secrets) if secrets else None, check)

    def _matcher(self, secrets: Mapping[str, str]) -> ExactMatcher:
        """Return what finds these secrets, kept for the next call that may use the same: to make it takes 0.2 ms."""
        from wasmrt.leaks._exact import ExactMatcher
        from wasmrt.leaks._sieve import sieve_for

        key = tuple(secrets.items())
        with self._lock:
            matcher = self._matchers.pop(key, None)
            if matcher is None:
                matcher = ExactMatcher(secrets, sieve=None if self._kernel is None else sieve_for(self._kernel))
            self._matchers[key] = matcher  # behind all others: the one in front was not used for longest
            if len(self._matchers) > _KEPT_MATCHERS:
                del self._matchers[next(iter(self._matchers))]
        return matcher

    def _scanner(self) -> LeakScanner:
        if self._plain is None:
            self._plain = self.primed({})
        return self._plain

    def scan(self, text: str, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in a text; offsets are characters."""
        return self._scanner().scan(text, direction=direction)

    def scan_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in bytes; offsets are bytes."""
        return self._scanner().scan_bytes(data, direction=direction)

    def redact(self, text: str, *, direction: Direction = Direction.INWARD) -> str:
        """Replace every finding but warnings."""
        return self._scanner().redact(text, direction=direction)

    def scan_http_request(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        body: bytes | str | None = None,
        *,
        direction: Direction = Direction.OUTWARD,
    ) -> LeakReport:
        """Find secrets in what is about to be sent."""
        return self._scanner().scan_http_request(url, headers, body, direction=direction)


_SHARED: list[RuleEngine] = []


def _shared_engine() -> RuleEngine:
    """The built-in rules, compiled once per process."""
    if not _SHARED:
        _SHARED.append(RuleEngine(builtin_rules()))
    return _SHARED[0]


def _cuts(report: LeakReport) -> list[tuple[int, int, str]]:
    kept = tuple(m for m in report.matches if m.action is not Action.WARN)
    return [(start, end, f"[REDACTED:{rule}]") for start, end, rule in merged_spans(kept)]


def _joined(matches: list[LeakMatch]) -> list[LeakMatch]:
    """Make one of the overlapping findings of one rule: a value cut by a block's edge, a secret seen in two ways."""
    latest: dict[str, int] = {}
    joined: list[LeakMatch] = []
    for match in sorted(matches, key=lambda m: (m.start, m.end)):
        at = latest.get(match.rule)
        if at is not None and match.start < joined[at].end + (match.rule == UNJUDGED_RULE):
            joined[at] = _moved(joined[at], joined[at].start, max(joined[at].end, match.end))
            continue
        latest[match.rule] = len(joined)
        joined.append(match)
    return joined


def _moved(match: LeakMatch, start: int, end: int) -> LeakMatch:
    return LeakMatch(match.rule, start, end, match.severity, match.action, match.certain, match.where)


def _in_characters(data: bytes, matches: list[LeakMatch]) -> list[LeakMatch]:
    """Turn byte offsets into character offsets, widening a cut inside a character to the whole of it."""
    places = sorted({place for m in matches for place in (m.start, m.end)})
    characters: dict[int, int] = {}
    position = count = 0
    for place in places:
        count += sum(1 for b in data[position:place] if b & 0xC0 != 0x80)
        characters[place], position = count, place
    moved = []
    for match in matches:
        inside = match.start < len(data) and data[match.start] & 0xC0 == 0x80
        moved.append(_moved(match, characters[match.start] - inside, characters[match.end]))
    return moved


__all__ = ["CLEAN", "LeakDetector", "LeakScanner", "Overrides"]
