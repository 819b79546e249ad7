"""The leak detector, and scanners that also watch for given secrets."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks._engine import RuleEngine
from wasmrt.egress.leaks._exact import ExactMatcher
from wasmrt.egress.leaks._model import DECODE_LIMIT_RULE, SCAN_BUDGET_RULE, Action, Check, Direction, LeakReport
from wasmrt.egress.leaks._rule_sets import builtin_engine, builtin_rules
from wasmrt.egress.leaks._rules import Rule, nearest_hint
from wasmrt.egress.leaks._scanner import LeakScanner, Overrides

_MATCHERS = 32
"""Number of sets of secrets whose patterns, which contain the values, stay in memory. Building them takes 0.5 ms, about
as long as a small request."""


class LeakDetector:
    """A detector that finds secrets by their formats. Create one detector per process, and one `scanner` per call.

    `rules` are added to the built-in rules. `overrides` sets the action of a rule, or of a rule in one direction. If
    secrets are watched, content beyond the decode limits is reported as `decode-limit-exceeded` and blocked. Text with
    more candidates than the work budget allows is reported as `scan-budget-exceeded`, which is a warning, because
    watched secrets are still found there. The actions of these two reports can be overridden like the actions of rules.

    Raises:
        ConfigurationError: two rules have the same id, or an override is for an unknown rule or has an unknown action.

    Examples:
        >>> from wasmrt import LeakDetector
        >>> detector = LeakDetector()
        >>> len(detector.rules) > 500
        True
    """

    __slots__ = ("_added", "_engine", "_matcher", "_overrides", "_plain")

    def __init__(self, *, rules: Sequence[Rule] = (), overrides: Overrides | None = None) -> None:
        self._added = tuple(rules)
        self._overrides = dict(overrides or {})
        self._engine: RuleEngine | None = None
        self._plain: LeakScanner | None = None
        self._matcher = lru_cache(_MATCHERS)(ExactMatcher)
        if self._added or self._overrides:
            self._check_rules()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The built-in rules and the added rules."""
        return (*builtin_rules(), *self._added)

    def _check_rules(self) -> None:
        known = {SCAN_BUDGET_RULE, DECODE_LIMIT_RULE}
        for rule in self.rules:
            if rule.id in known:
                raise ConfigurationError(f"two rules have the id {rule.id}", hint="rename the rule that you added")
            known.add(rule.id)
        for name, chosen in self._overrides.items():
            # SECURITY: reject unknown actions. Ignoring one would silently keep the rule's default, possibly weaker.
            if not _is_action(chosen):
                message = f"the override of {name!r} must be an Action, or a mapping of Direction to Action"
                raise ConfigurationError(message, hint=f"actions: {', '.join(Action)}")
            if name in known:
                continue
            hint = nearest_hint(name, known, "run `wasmrt leaks rules` to list them")
            raise ConfigurationError(f"an override names the unknown rule {name!r}", hint=hint)

    def scanner(self, secrets: Mapping[str, str] | None = None, *, check: Check | None = None) -> LeakScanner:
        """Create the scanner of one call, which also finds the values of `secrets`, a mapping of names to values.

        `check` is called throughout a scan. It ends the scan if it raises.
        """
        if self._engine is None:
            self._engine = RuleEngine(self.rules) if self._added else builtin_engine()
        exact = self._matcher(tuple(secrets.items())) if secrets else None
        return LeakScanner(self._engine, self._overrides, exact, check)

    def _without_secrets(self) -> LeakScanner:
        if self._plain is None:
            self._plain = self.scanner()
        return self._plain

    def scan(self, text: str, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in a text, and return a report. Its offsets are in characters."""
        return self._without_secrets().scan(text, direction=direction)

    def scan_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in bytes, and return a report. Its offsets are in bytes."""
        return self._without_secrets().scan_bytes(data, direction=direction)

    def redact(self, text: str, *, direction: Direction = Direction.INWARD) -> str:
        """Return `text` with every match replaced, except matches whose action is to warn."""
        return self._without_secrets().redact(text, direction=direction)

    def scan_http_request(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        body: bytes | str | None = None,
        *,
        direction: Direction = Direction.OUTWARD,
    ) -> LeakReport:
        """Find secrets in a request before it is sent, and return a report."""
        return self._without_secrets().scan_http_request(url, headers, body, direction=direction)


def _is_action(chosen: object) -> bool:
    if isinstance(chosen, Mapping):
        return all(isinstance(d, Direction) and isinstance(a, Action) for d, a in chosen.items())
    return isinstance(chosen, Action)


_WATCHED_VALUES = 8
"""Maximum number of watched values of one secret. The oldest values are dropped."""


class WatchedSecrets:
    """Secrets by name, and a scanner that finds all of them. Thread-safe.

    Earlier values of a renewed secret are still watched, since a server may echo them.
    """

    def __init__(self, detector: LeakDetector, *, check: Check | None = None) -> None:
        """Start without secrets. `check` is called throughout a scan, and ends the scan if it raises."""
        self._detector = detector
        self._check = check
        self._lock = threading.Lock()
        self._values: dict[str, list[str]] = {}
        self.scanner: LeakScanner = detector.scanner(check=check)
        """The scanner that finds every value watched so far. `watch` replaces it."""

    def watch(self, name: str, value: str) -> None:
        """Make `scanner` find `value` from now on."""
        with self._lock:
            values = self._values.setdefault(name, [])
            if value in values:
                return
            values.append(value)
            del values[:-_WATCHED_VALUES]
            known = {
                name if at == 0 else f"{name}#{at}": value
                for name, values in self._values.items()
                for at, value in enumerate(values)
            }
            self.scanner = self._detector.scanner(known, check=self._check)
