"""Access requests. If a grant denies a call, an approver is asked to add the missing entry to the tool's grant."""

from __future__ import annotations

from wasmrt.agent.access._answer import (
    AccessChoice,
    answer_access,
    describe_access,
    describe_answer,
    describe_asking,
    format_access,
    grant_digest,
    list_access_parts,
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
    "answer_access",
    "describe_access",
    "describe_answer",
    "describe_asking",
    "format_access",
    "grant_digest",
    "list_access_parts",
]
