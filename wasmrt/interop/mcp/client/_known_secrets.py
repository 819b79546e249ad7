"""The secrets that a server was given, of all its users: whatever it says is searched for each of them."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from wasmrt.core.errors import ToolError
from wasmrt.egress.leaks import LeakDetector, LeakScanner

_KEPT = 8
"""Values of one secret: the last ones, because a renewed token may come back later."""


class KnownSecrets:
    """The secrets of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, str], tuple[str, ...]] = {}
        self._scanner = LeakDetector().scanner()

    def add(self, user: str, name: str, value: str) -> None:
        """Look for a user's secret from now on, before it is sent."""
        with self._lock:
            before = self._values.get((user, name), ())
            if value in before:
                return
            self._values[user, name] = (*before[1 - _KEPT :], value)
            self._scanner = self._made()

    def _made(self) -> LeakScanner:
        # SECURITY: secrets of two users have one name, and so have the old and the new value of one.
        names = {value: name for (_, name), values in self._values.items() for value in values}
        secrets: dict[str, str] = {}
        counts = Counter[str]()
        for value, name in names.items():
            counts[name] += 1
            secrets[name if counts[name] == 1 else f"{name}#{counts[name]}"] = value
        return LeakDetector().scanner(secrets)

    @property
    def is_empty(self) -> bool:
        """True while there are none."""
        return not self._values

    def redact(self, text: str) -> str:
        """Return a text without the secrets, and without what looks like one."""
        return self._scanner.redact(text)

    def redact_part(self, text: str) -> str:
        """Return a text that may have been cut, also without larger pieces of the secrets."""
        return self._scanner.partial.redact(text)

    def clean(self, error: ToolError) -> None:
        """Redact all words of an error, and leave out the errors behind it, which hold what the server said."""
        error.message = self.redact_part(error.message)
        error.args = (error.message,)
        if error.hint is not None:
            error.hint = self.redact_part(error.hint)
        error.logs = tuple(entry._replace(message=self.redact_part(entry.message)) for entry in error.logs)
        error.decisions = tuple(decision.redacted(self.redact_part) for decision in error.decisions)
        error.__cause__ = error.__context__ = None
