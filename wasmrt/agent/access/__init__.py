"""Access requests: a refusal that becomes a question to a person, whose answer grows a grant by that line alone."""

from __future__ import annotations

from wasmrt.agent.access._answer import ACCESS, AccessChoice, answer_access, grant_digest
from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState, Caller, Wish
from wasmrt.agent.access._show import access_lines, access_parts, asked_words, granted_words
from wasmrt.agent.access._store import AccessStore

__all__ = [
    "ACCESS",
    "AccessChoice",
    "AccessRequest",
    "AccessScope",
    "AccessState",
    "AccessStore",
    "Caller",
    "Wish",
    "access_lines",
    "access_parts",
    "answer_access",
    "asked_words",
    "grant_digest",
    "granted_words",
]
