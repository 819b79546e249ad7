"""The secrets that were put to use, and the scanner that finds them in what comes back."""

from __future__ import annotations

import threading

from wasmrt.egress.leaks._budgets import Check
from wasmrt.egress.leaks._detector import LeakDetector
from wasmrt.egress.leaks._scanner import LeakScanner

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
