"""Log records of calls, in Python's logging: names, durations and codes, never content."""

from __future__ import annotations

import logging

CALLS_LOGGER = "wasmrt.calls"
_log = logging.getLogger(CALLS_LOGGER)


def log_call(*, tool: str, call_id: str, seconds: float, error: str | None) -> None:
    """Log a finished call at the level INFO. `tool` is empty for an unknown tool, `error` is the code of a failure.

    SECURITY: the caller passes registered names and checked codes only; params, results and messages are not logged.
    """
    if _log.isEnabledFor(logging.INFO):
        outcome = "ok" if error is None else "failed"
        fields = {"tool": tool, "call_id": call_id, "outcome": outcome, "seconds": round(seconds, 6), "error": error}
        _log.info("call %(call_id)s of %(tool)s: %(outcome)s", fields)
