"""The receipt of one call: what ran, for whom, with which approval and decisions, and what it used.

A receipt never contains params, results or text from a guest. It contains keyed hashes of the params and the result, so
that a guess of the params or the result cannot be confirmed without the key.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from wasmrt.core.limits import MAX_RECEIPT_BYTES
from wasmrt.core.model import NOTHING_USED, Decision, Usage

AuditSink = Callable[[dict[str, Any]], None]
"""A function that receives every receipt as a dict, on the thread of its call."""
OK = "ok"
_CUT_CHARS = 256

_quoted = json.encoder.encode_basestring
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
# `%s` formats an int in a third of the time of `%d`.
_NUMBERS = {"wall_seconds": "%.6f"}
_USAGE = "{" + ",".join(f'"{field}":{_NUMBERS.get(field, "%s")}' for field in Usage._fields) + "}"
_LINE = (
    '"type":"receipt","started_ms":%s,"ended_ms":%s,"trace_id":%s,"call_id":%s,"parent_id":%s,%s,'
    '"args_hash":"%s","output_hash":"%s","approval":%s,"outcome":%s,"usage":%s,"decisions":%s,'
    '"decisions_dropped":%s,"recording":"%s"'
)


class Approval(NamedTuple):
    """The approval of a call that required one. A user or a rule of the operator approved the call."""

    how: str
    """The method of approval: `terminal`, `queue`, `callback`, `token`, `rule`, ..."""
    by: str = ""
    """The user or the rule that approved."""
    scope: str = ""
    """The calls that the approval covers: `once`, `session`, `always`, or the scope of a token."""

    def as_dict(self) -> dict[str, str]:
        """Return the approval as JSON data."""
        return self._asdict()


class Receipt(NamedTuple):
    """The receipt of one call. Fields that do not apply are empty: a function has no digest, for example.

    Examples:
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
    """The agent's ID for the conversation or job; otherwise the ID of the outermost call."""
    call_id: str = ""
    parent_id: str = ""
    """The call that invoked this one; empty for an agent's own call."""
    tool: str = ""
    kind: str = ""
    """The kind of tool: `component`, `function`, `plugin`, `mcp`, ..."""
    source: str = ""
    """The tool's source in the registry; empty for a tool that was prepared directly."""
    digest: str = ""
    """BLAKE3 of a component's bytes, in hex."""
    user: str = ""
    client: str = ""
    """The name that the client of the call gave, such as an MCP client. It is a claim. Empty if there is no client."""
    chain: tuple[str, ...] = ()
    """The calling tools, then the tool itself."""
    args_hash: str = ""
    """Keyed BLAKE3 of the params' JSON text, in hex."""
    output_hash: str = ""
    """Keyed BLAKE3 of the result's text as returned to the caller, in hex; empty if the call failed."""
    effects: tuple[str, ...] = ()
    policy: str = ""
    """Hash of the policy that allowed or denied the call."""
    approval: Approval | None = None
    outcome: str = OK
    """`ok`, or the code of the error."""
    usage: Usage = NOTHING_USED
    decisions: tuple[Decision, ...] = ()
    decisions_dropped: int = 0
    recording: str = ""
    """Keyed BLAKE3 of the call's recording, in hex; `dropped` if it was too large or could not be written."""

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
        """Return the receipt as members of a JSON object. Formatted manually, because every call waits for this."""
        content = self._format_content(self.decisions, self.decisions_dropped)
        if len(content) > MAX_RECEIPT_BYTES:
            content = self._format_content((), self.decisions_dropped + len(self.decisions))
        return content if len(content) <= MAX_RECEIPT_BYTES else self._truncate_strings().content()

    def _truncate_strings(self) -> Receipt:
        """Return the receipt with every string truncated: verification would reject an overlong line."""
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

    def _format_content(self, decisions: tuple[Decision, ...], dropped: int) -> bytes:
        return (
            _LINE
            % (
                self.started_ms,
                self.ended_ms,
                _quoted(self.trace_id),
                _quoted(self.call_id),
                _quoted(self.parent_id),
                _format_tool_part(
                    self.tool,
                    self.kind,
                    self.source,
                    self.digest,
                    self.user,
                    self.client,
                    self.chain,
                    self.effects,
                    self.policy,
                ),
                self.args_hash,
                self.output_hash,
                "null" if self.approval is None else _encode(self.approval.as_dict()),
                '"ok"' if self.outcome == OK else _quoted(self.outcome),
                _USAGE % self.usage,
                _encode([decision.as_dict() for decision in decisions]) if decisions else "[]",
                dropped,
                self.recording,
            )
        ).encode("utf-8", "replace")


EMPTY_RECEIPT = Receipt()
"""A receipt in which every field has its default value."""


@lru_cache(maxsize=1024)
def _format_tool_part(
    tool: str, kind: str, source: str, digest: str, user: str, client: str, chain: tuple[str, ...],
    effects: tuple[str, ...], policy: str,
) -> str:  # fmt: skip
    """Return the members that all receipts of one tool, user and client have in common."""
    return (
        f'"tool":{_quoted(tool)},"kind":{_quoted(kind)},"source":{_quoted(source)},"digest":{_quoted(digest)},'
        f'"user":{_quoted(user)},"client":{_quoted(client)},"chain":{_encode(chain)},"effects":{_encode(effects)},'
        f'"policy":{_quoted(policy)}'
    )
