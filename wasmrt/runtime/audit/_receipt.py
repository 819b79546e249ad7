"""The receipt of one call: what ran, for whom, by whose leave, what was decided, what it used.

It never holds params, results or anything a guest wrote. Of params and result it has a hash that is keyed, so that a
value that could be guessed cannot be found from the file alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from wasmrt.core.limits import MAX_RECEIPT_BYTES
from wasmrt.core.model import NOTHING_USED, Decision, Usage

AuditSink = Callable[[dict[str, Any]], None]
"""A function of an embedder's that gets every receipt as a dict, on the thread of its call."""
OK = "ok"
_CUT_CHARS = 256

_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
# Seconds as whole microseconds, which is what `Usage` holds: the digits of a float take longer than all the rest.
_NUMBERS = {"wall_seconds": "%d.%06d"}
_USAGE = "{" + ",".join(f'"{field}":{_NUMBERS.get(field, "%d")}' for field in Usage._fields) + "}"
_LINE = (
    '"type":"receipt","started_ms":%d,"ended_ms":%d,"trace_id":%s,"call_id":%s,"parent_id":%s,%s,'
    '"args_hash":"%s","output_hash":"%s","approval":%s,"outcome":%s,"usage":%s,"decisions":%s,'
    '"decisions_dropped":%d,"recording":"%s"'
)


class Approval(NamedTuple):
    """The leave that a call had beyond its grant: given by a person, or by a rule of the operator's."""

    how: str
    """The way it was given: `terminal`, `queue`, `callback`, `token`, `rule`, ..."""
    by: str = ""
    """The person or the rule that gave it."""
    scope: str = ""
    """Its reach: `once`, `session`, `always`, or the scope of a token."""

    def as_dict(self) -> dict[str, str]:
        """Return the approval as JSON data."""
        return self._asdict()


class Receipt(NamedTuple):
    """One call. A field that does not apply is empty: a function has no digest, a direct call no approval.

    Example:
        >>> from wasmrt import ToolRegistry, tool
        >>> @tool(effects=[])
        ... def ping() -> str:
        ...     "Return pong."
        ...     return "pong"
        >>> receipts = []
        >>> registry = ToolRegistry(receipts=receipts.append)
        >>> _ = registry.register(ping)
        >>> _ = registry.execute("ping", {}, user="ann")
        >>> receipts[0].tool, receipts[0].user, receipts[0].outcome
        ('ping', 'ann', 'ok')
    """

    started_ms: int = 0
    """Unix milliseconds."""
    ended_ms: int = 0
    """Unix milliseconds."""
    trace_id: str = ""
    """The agent's own name for what this call was part of; else the id of the outermost call."""
    call_id: str = ""
    parent_id: str = ""
    """Of the call that invoked this one; empty for an agent's own."""
    tool: str = ""
    kind: str = ""
    """`component`, or what else ran: `function`, `plugin`, `mcp`, ..."""
    source: str = ""
    """The place that the tool came from, as the registry names it; empty for a tool that was prepared directly."""
    digest: str = ""
    """BLAKE3 of a component's bytes, in hex."""
    user: str = ""
    chain: tuple[str, ...] = ()
    """Callers before it, and last itself."""
    args_hash: str = ""
    """Keyed BLAKE3 of the params' JSON text, in hex."""
    output_hash: str = ""
    """Keyed BLAKE3 of the result's text as the caller got it, in hex; empty where the call failed."""
    effects: tuple[str, ...] = ()
    policy: str = ""
    """Hash of the policy under which it was allowed or refused."""
    approval: Approval | None = None
    outcome: str = OK
    """`ok`, or the code of the error."""
    usage: Usage = NOTHING_USED
    decisions: tuple[Decision, ...] = ()
    decisions_dropped: int = 0
    recording: str = ""
    """Keyed BLAKE3 of the call's recording, in hex; or `dropped`, where it was too large or could not be kept."""

    def as_dict(self) -> dict[str, Any]:
        """Return the receipt as JSON data."""
        return self._asdict() | {
            "chain": list(self.chain),
            "effects": list(self.effects),
            "approval": None if self.approval is None else self.approval.as_dict(),
            "usage": self.usage.as_dict(),
            "decisions": [decision.as_dict() for decision in self.decisions],
        }

    def content(self) -> bytes:
        """Return the members of the receipt's JSON object: put together by hand, since every call waits for it."""
        content = self._content(self.decisions, self.decisions_dropped)
        if len(content) > MAX_RECEIPT_BYTES:
            content = self._content((), self.decisions_dropped + len(self.decisions))
        return content if len(content) <= MAX_RECEIPT_BYTES else self._cut().content()

    def _cut(self) -> Receipt:
        """Return the receipt with every text cut: a line that is too long would be taken for a break of the chain."""
        texts: dict[str, Any] = {
            name: value[:_CUT_CHARS] for name, value in self._asdict().items() if isinstance(value, str)
        }
        approval = self.approval and Approval(*(text[:_CUT_CHARS] for text in self.approval))
        chain = tuple(name[:_CUT_CHARS] for name in self.chain[:_CUT_CHARS])
        dropped = self.decisions_dropped + len(self.decisions)
        effects = tuple(name[:_CUT_CHARS] for name in self.effects[:_CUT_CHARS])
        return self._replace(
            **texts, approval=approval, chain=chain, effects=effects, decisions=(), decisions_dropped=dropped
        )

    def _content(self, decisions: tuple[Decision, ...], dropped: int) -> bytes:
        fuel, seconds, *counts = self.usage
        return (
            _LINE
            % (
                self.started_ms,
                self.ended_ms,
                _quoted(self.trace_id),
                _quoted(self.call_id),
                _quoted(self.parent_id),
                _who(self.tool, self.kind, self.source, self.digest, self.user, self.chain, self.effects, self.policy),
                self.args_hash,
                self.output_hash,
                "null" if self.approval is None else _encode(self.approval.as_dict()),
                '"ok"' if self.outcome == OK else _quoted(self.outcome),
                _USAGE % (fuel, *divmod(round(seconds * 1e6), 1_000_000), *counts),
                _encode([decision.as_dict() for decision in decisions]) if decisions else "[]",
                dropped,
                self.recording,
            )
        ).encode("utf-8", "replace")


EMPTY_RECEIPT = Receipt()
"""Of a call of which nobody knows anything yet."""


@lru_cache(maxsize=1024)
def _who(
    tool: str, kind: str, source: str, digest: str, user: str, chain: tuple[str, ...], effects: tuple[str, ...],
    policy: str,
) -> str:  # fmt: skip
    """Return the part of a receipt that is the same for all calls of one tool by one user."""
    return (
        f'"tool":{_quoted(tool)},"kind":{_quoted(kind)},"source":{_quoted(source)},"digest":{_quoted(digest)},'
        f'"user":{_quoted(user)},"chain":{_encode(chain)},"effects":{_encode(effects)},"policy":{_quoted(policy)}'
    )
