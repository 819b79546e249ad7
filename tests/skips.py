"""The reasons why tests of a run were skipped, for its summary; the tests may have run in several processes."""

from __future__ import annotations

import pytest


def skips(reporter: pytest.TerminalReporter, start: str) -> set[str]:
    """Return the reasons with this prefix."""
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", [])}
    return {reason for reason in reasons if reason.startswith(start)}
