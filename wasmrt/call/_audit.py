"""One record a call.

A record holds who called what, what was decided and what it used; never params, results or anything a guest wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from wasmrt.model import Decision, Usage

AuditSink = Callable[[dict[str, Any]], None]
_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
# Seconds as whole microseconds, which is what `Usage` holds: the digits of a float take longer than all the rest.
_NUMBERS = {"wall_seconds": "%d.%06d"}
_USAGE = "{" + ",".join(f'"{field}":{_NUMBERS.get(field, "%d")}' for field in Usage._fields) + "}"
_LINE = '{"time_ms":%d,"call_id":"%s",%s,"outcome":%s,"usage":%s,"decisions":%s,"decisions_dropped":%d}\n'


@lru_cache(maxsize=1024)
def _who(tool: str, digest: str, user: str, chain: tuple[str, ...]) -> str:
    """The part of a record that is the same for all calls of one tool by one user."""
    called = ",".join(map(_quoted, chain))
    return f'"tool":{_quoted(tool)},"digest":"{digest}","user":{_quoted(user)},"chain":[{called}]'


class AuditRecord(NamedTuple):
    """One call: who called what, how it ended, what it used, what was decided."""

    time_ms: int
    """Unix milliseconds, when it ended."""
    call_id: str
    tool: str
    digest: str
    user: str
    chain: tuple[str, ...]
    outcome: str
    """`ok`, or the code of the error."""
    usage: Usage
    decisions: tuple[Decision, ...]
    decisions_dropped: int

    def as_dict(self) -> dict[str, Any]:
        return self._asdict() | {
            "usage": self.usage.as_dict(),
            "decisions": [decision.as_dict() for decision in self.decisions],
        }

    def line(self) -> str:
        """The record as one line of JSON, put together by hand: every call waits for it."""
        fuel, seconds, *counts = self.usage
        usage = _USAGE % (fuel, *divmod(round(seconds * 1e6), 1_000_000), *counts)
        return _LINE % (
            self.time_ms,
            self.call_id,
            _who(self.tool, self.digest, self.user, self.chain),
            '"ok"' if self.outcome == "ok" else _quoted(self.outcome),
            usage,
            _encode([decision.as_dict() for decision in self.decisions]) if self.decisions else "[]",
            self.decisions_dropped,
        )
