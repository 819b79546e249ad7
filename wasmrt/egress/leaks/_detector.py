"""The rules of a process, the scanners of its calls, and the secrets that a scanner watches."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.leaks._budgets import Check
from wasmrt.egress.leaks._engine import RuleEngine
from wasmrt.egress.leaks._exact import ExactMatcher
from wasmrt.egress.leaks._model import DECODE_LIMIT_RULE, SCAN_BUDGET_RULE, Action, Direction, LeakReport
from wasmrt.egress.leaks._rule_sets import builtin_engine, builtin_rules
from wasmrt.egress.leaks._rules import Rule, nearest_hint
from wasmrt.egress.leaks._scanner import LeakScanner, Overrides


class LeakDetector:
    """Finds secrets by their formats. One per process; `scanner` makes one for each call.

    `rules` are added to those that ship with wasmrt; `overrides` gives the action of a rule, or of a rule in one
    direction. Content beyond the decode limits is reported as `decode-limit-exceeded` where secrets are watched for,
    and blocks; a stretch with more candidates than the work budget allows as `scan-budget-exceeded`, a warning:
    watched secrets were looked for there too. Both can be overridden like rules.

    Raises:
        ConfigurationError: two rules share an id, or an override names no rule or no action.

    Example:
        >>> from wasmrt import LeakDetector
        >>> detector = LeakDetector()
        >>> len(detector.rules) > 500
        True
    """

    __slots__ = ("_added", "_engine", "_overrides", "_plain")

    def __init__(self, *, rules: Sequence[Rule] = (), overrides: Overrides | None = None) -> None:
        self._added = tuple(rules)
        self._overrides = dict(overrides or {})
        self._engine: RuleEngine | None = None
        self._plain: LeakScanner | None = None
        if self._added or self._overrides:
            self._check_rules()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Every rule that applies."""
        return (*builtin_rules(), *self._added)

    def _check_rules(self) -> None:
        known = {SCAN_BUDGET_RULE, DECODE_LIMIT_RULE}
        for rule in self.rules:
            if rule.id in known:
                raise ConfigurationError(f"two rules are called {rule.id}", hint="rename the one you added")
            known.add(rule.id)
        for name, chosen in self._overrides.items():
            # SECURITY: a word that only looks like an action would leave the rule's own, perhaps weaker one in place.
            if not _is_action(chosen):
                message = f"the override of {name!r} must be an Action, or one for each Direction"
                raise ConfigurationError(message, hint=f"actions: {', '.join(Action)}")
            if name in known:
                continue
            hint = nearest_hint(name, known, "`wasmrt leaks rules` lists them")
            raise ConfigurationError(f"an override names the unknown rule {name!r}", hint=hint)

    def scanner(self, secrets: Mapping[str, str] | None = None, *, check: Check | None = None) -> LeakScanner:
        """Make the scanner of one call, which also looks for `secrets`, names and values of those the call may use.

        `check` is called all along a scan, and ends it by raising.
        """
        if self._engine is None:
            self._engine = RuleEngine(self.rules) if self._added else builtin_engine()
        return LeakScanner(self._engine, self._overrides, ExactMatcher(secrets) if secrets else None, check)

    def _without_secrets(self) -> LeakScanner:
        if self._plain is None:
            self._plain = self.scanner()
        return self._plain

    def scan(self, text: str, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in a text; offsets are characters."""
        return self._without_secrets().scan(text, direction=direction)

    def scan_bytes(self, data: bytes, *, direction: Direction = Direction.INWARD) -> LeakReport:
        """Find secrets in bytes; offsets are bytes."""
        return self._without_secrets().scan_bytes(data, direction=direction)

    def redact(self, text: str, *, direction: Direction = Direction.INWARD) -> str:
        """Replace every match but warnings."""
        return self._without_secrets().redact(text, direction=direction)

    def scan_http_request(
        self,
        url: str,
        headers: Iterable[tuple[str, str]] | Mapping[str, str] = (),
        body: bytes | str | None = None,
        *,
        direction: Direction = Direction.OUTWARD,
    ) -> LeakReport:
        """Find secrets in a request to be sent."""
        return self._without_secrets().scan_http_request(url, headers, body, direction=direction)


def _is_action(chosen: object) -> bool:
    if isinstance(chosen, Mapping):
        return all(isinstance(d, Direction) and isinstance(a, Action) for d, a in chosen.items())
    return isinstance(chosen, Action)


_KEPT_VALUES = 8
"""Values of one secret that are looked for: the last ones it had."""


class WatchedSecrets:
    """Secrets by name, and a scanner that knows them all. Used from many threads.

    A renewed secret keeps its earlier values watched too: a server may still echo them.
    """

    def __init__(self, detector: LeakDetector, *, check: Check | None = None) -> None:
        """Begin with no secret; `check` is called all along a scan, and ends it by raising."""
        self._detector = detector
        self._check = check
        self._lock = threading.Lock()
        self._values: dict[str, list[str]] = {}
        self.scanner: LeakScanner = detector.scanner(check=check)
        """Knows every value watched so far; replaced by `watch`."""

    def watch(self, name: str, value: str) -> None:
        """Have `scanner` find `value` from now on."""
        with self._lock:
            values = self._values.setdefault(name, [])
            if value in values:
                return
            values.append(value)
            del values[:-_KEPT_VALUES]
            known = {
                name if at == 0 else f"{name}#{at}": value
                for name, values in self._values.items()
                for at, value in enumerate(values)
            }
            self.scanner = self._detector.scanner(known, check=self._check)
