"""Access requests: after a denial, ask an approver to add the missing entry to the tool's grant."""

from __future__ import annotations

from wasmrt.agent.access._answer import (
    AccessChoice,
    access_headline,
    access_lines,
    access_parts,
    answer_access,
    asked_words,
    grant_digest,
    granted_words,
)
from wasmrt.agent.access._model import AccessRequest, AccessScope, AccessState, Caller, DeniedAccess
from wasmrt.agent.access._store import AccessStore

__all__ = [
    "AccessChoice",
    "AccessRequest",
    "AccessScope",
    "AccessState",
    "AccessStore",
    "Caller",
    "DeniedAccess",
    "access_headline",
    "access_lines",
    "access_parts",
    "answer_access",
    "asked_words",
    "grant_digest",
    "granted_words",
]
