"""Access requests. A request has the entry that a tool's grant lacks, the denied call, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from wasmrt.core.model import Addition


class AccessScope(StrEnum):
    """Scope of an answer to an access request.

    Examples:
        >>> from wasmrt import AccessScope
        >>> [scope.value for scope in AccessScope]
        ['once', 'session', 'keep']
    """

    ONCE = "once"
    """The answer applies to the next identical call. A denial with this scope applies for the session."""
    SESSION = "session"
    """The answer applies to every call of this tool in this conversation, until the program ends."""
    KEEP = "keep"
    """The entry is added to the stored grant, and stays until it is revoked or the tool is updated.

    A denial with this scope applies until the tool is updated.
    """


class AccessState(StrEnum):
    """States of an access request."""

    PENDING = "pending"
    GRANTED = "granted"
    USED = "used"
    """The access was granted once, and a call has used it."""
    DENIED = "denied"
    OUTDATED = "outdated"
    """The tool or its grant has changed since the request."""
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    """The client whose call caused the request has disconnected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The properties of a call that decide which answers apply to it.

    SECURITY: all values come from the host, never from a tool or a model.
    """

    user: str
    trace: str
    """The conversation; if it is empty, the scope `session` is not available."""
    session: str
    """A random ID of the running program. All sessions end when the program ends."""
    tool: str
    digest: str
    """BLAKE3 digest of the component's bytes."""
    grant: str
    """Digest of the tool's grant, and of the tools that the tool can invoke."""
    params_digest: str
    client: str = ""
    """The name that the call's client gave itself, for display only. Empty if no client made the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedAccess:
    """An access that the grant denied to a call, with the details for the approver."""

    addition: Addition
    """The grant entry that would have allowed the access."""
    again: tuple[Addition, ...] = ()
    """Entries that were granted to the denied call with the scope `once`. A repetition of the call needs them again."""
    sentences: tuple[str, ...] = ()
    """Sentences that describe everything that the entry would allow."""
    limited: tuple[str, ...] = ()
    """Sentences about related limits and side effects."""
    refused: str = ""
    """The denied host, path or tool, and the rule that denied it."""
    origins: tuple[str, ...] = ()
    """Lines that describe where the path or host in the entry comes from."""
    params: str = ""
    """The parameters of the call as JSON, possibly cut."""
    call: str = ""
    component: str = ""
    """The component's name in the catalog. Empty if the tool is not installed; it then has no stored grant."""
    part: str | None = None
    """The tool's name within its component; None if the grant applies to all tools of the component."""
    lasting: bool = True
    """False if the program ends after the call. The scope `session` is then not available."""
    stored_grant: str = ""
    """The digest of the component's stored grant at the time of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """A stored access request, and its answer if it has one."""

    id: str
    state: AccessState
    caller: Caller
    denied: DeniedAccess
    asked: int
    """The number of calls, including the first, that were denied because the entry is missing."""
    created_ms: int
    expires_ms: int
    scope: AccessScope | None = None
    granted: Addition | None = None
    """The granted entry: the requested entry or a narrower one; None if the access was not granted."""
    by: str = ""
    note: str = ""
    decided_ms: int | None = None

    @property
    def additions(self) -> tuple[Addition, ...]:
        """The entries that are added to the grant of a call; empty if the access was not granted."""
        if self.granted is None:
            return ()
        return (self.granted, *(self.denied.again if self.scope is AccessScope.ONCE else ()))

    @property
    def scopes(self) -> tuple[AccessScope, ...]:
        """The scopes that an answer to this request can have."""
        session = (AccessScope.SESSION,) if self.caller.trace and self.denied.lasting else ()
        keep = (AccessScope.KEEP,) if self.denied.component else ()
        return (AccessScope.ONCE, *session, *keep)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        denied, caller = self.denied, self.caller
        return {
            "id": self.id, "state": str(self.state), "tool": caller.tool, "user": caller.user, "trace": caller.trace,
            "client": caller.client,
            "digest": caller.digest, "addition": denied.addition.as_dict(), "line": denied.addition.hint,
            "again": [each.as_dict() for each in denied.again], "sentences": list(denied.sentences),
            "limited": list(denied.limited), "refused": denied.refused, "origins": list(denied.origins),
            "params": denied.params, "call": denied.call, "asked": self.asked, "scopes": [str(s) for s in self.scopes],
            "created_ms": self.created_ms, "expires_ms": self.expires_ms,
            "scope": None if self.scope is None else str(self.scope),
            "granted": None if self.granted is None else self.granted.as_dict(),
            "by": self.by, "note": self.note, "decided_ms": self.decided_ms,
        }  # fmt: skip


class Settle(Protocol):
    """A function that stores an answer in the transaction of `AccessStore.answering`."""

    def __call__(
        self, state: AccessState, scope: AccessScope, granted: Addition | None = None, *, by: str, note: str
    ) -> None:
        """Store the answer."""
