"""Access requests: one entry more of a tool's grant, that a call was refused for want of, and a person's answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wasmrt.core.model import Addition


class AccessScope(StrEnum):
    """Reach of an answer to an access request.

    Example:
        >>> from wasmrt import AccessScope
        >>> [scope.value for scope in AccessScope]
        ['once', 'session', 'keep']
    """

    ONCE = "once"
    """The next call that is the same; of a denial, as `session`."""
    SESSION = "session"
    """Every call of this tool in this conversation of this program."""
    KEEP = "keep"
    """The stored grant, until it is revoked or the tool is updated; of a denial, until the tool is updated."""


class AccessState(StrEnum):
    """States of an access request."""

    PENDING = "pending"
    GRANTED = "granted"
    USED = "used"
    """Granted once, and the call was made."""
    DENIED = "denied"
    OUTDATED = "outdated"
    """The tool or its grant changed meanwhile."""
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The side of a call that a grant is bound to: whose it is, in which conversation, of which tool under which grant.

    SECURITY: all of it is the host's own knowledge, nothing a tool or a model says.
    """

    user: str
    trace: str
    """The conversation; empty for none, and then nothing holds for a session."""
    session: str
    """The program that runs, by a random text of its own: a session ends with it."""
    tool: str
    digest: str
    """BLAKE3 of the component's bytes."""
    grant: str
    """The digest of its grant and of the tools that it can invoke."""
    params_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A refusal of a call, with all that a person is told of it."""

    addition: Addition
    """The entry that would have allowed it."""
    again: tuple[Addition, ...] = ()
    """Entries that the call had, once: a call that is made again needs them, too."""
    sentences: tuple[str, ...] = ()
    """All that the grant would allow besides, in words."""
    limited: tuple[str, ...] = ()
    """Bounds, and what goes along with it, in words."""
    refused: str = ""
    """The use that was refused, and the rule."""
    origins: tuple[str, ...] = ()
    """Lines about where the place that it names came from."""
    params: str = ""
    """The parameters of the call, as JSON text, cut."""
    call: str = ""
    component: str = ""
    """The name in the catalog; empty for a tool that is not installed, whose grant nobody can keep."""
    part: str | None = None
    """Of a component whose grant tells its tools apart, the tool's own name."""
    lasting: bool = True
    """False where the program ends with the call, so that there is no session to grant anything for."""
    stored_grant: str = ""
    """The digest of the component's stored grant: one that changed since is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRequest:
    """An access request as it is kept, and its answer once it has one."""

    id: str
    state: AccessState
    caller: Caller
    wish: Wish
    asked: int
    """Calls that were refused for want of it since it was made, the first one included."""
    created_ms: int
    expires_ms: int
    scope: AccessScope | None = None
    granted: Addition | None = None
    """The entry that was granted: the one asked for, or a narrower one."""
    by: str = ""
    note: str = ""
    decided_ms: int | None = None

    @property
    def additions(self) -> tuple[Addition, ...]:
        """The entries that a granted request gives a call."""
        if self.granted is None:
            return ()
        return (self.granted, *(self.wish.again if self.scope is AccessScope.ONCE else ()))

    @property
    def scopes(self) -> tuple[AccessScope, ...]:
        """The scopes that an answer can have."""
        session = (AccessScope.SESSION,) if self.caller.trace and self.wish.lasting else ()
        keep = (AccessScope.KEEP,) if self.wish.component else ()
        return (AccessScope.ONCE, *session, *keep)

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        wish, caller = self.wish, self.caller
        return {
            "id": self.id, "state": str(self.state), "tool": caller.tool, "user": caller.user, "trace": caller.trace,
            "digest": caller.digest, "addition": wish.addition.as_dict(), "line": wish.addition.hint,
            "again": [each.as_dict() for each in wish.again], "sentences": list(wish.sentences),
            "limited": list(wish.limited), "refused": wish.refused, "origins": list(wish.origins),
            "params": wish.params, "call": wish.call, "asked": self.asked, "scopes": [str(s) for s in self.scopes],
            "created_ms": self.created_ms, "expires_ms": self.expires_ms,
            "scope": None if self.scope is None else str(self.scope),
            "granted": None if self.granted is None else self.granted.as_dict(),
            "by": self.by, "note": self.note, "decided_ms": self.decided_ms,
        }  # fmt: skip
