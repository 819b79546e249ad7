"""Approval requests, answers and approvers."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from blake3 import blake3

from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.core.effects import Effect
from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_JSON_DEPTH
from wasmrt.core.model import Decision
from wasmrt.core.strict_json import JsonError, check_nesting, encode_json, parse_json, write_json

_SORTED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Digits and letters that are hard to confuse with each other, when spoken or written by hand."""
_ID_PART = 5


class ApprovalScope(StrEnum):
    """The calls to which an answer applies: one call, similar calls of the tool in this trace, or all similar calls.

    Examples:
        >>> from wasmrt import ApprovalScope
        >>> [scope.value for scope in ApprovalScope]
        ['once', 'session', 'always']
    """

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that requires approval.

    The request has a copy of `params`, so that later changes by the caller have no effect.

    Raises:
        InvalidParametersError: `params` are not a JSON object, or are nested too deeply.

    Examples:
        >>> from wasmrt import ApprovalRequest, CallbackApprover, ToolRegistry, tool
        >>> @tool(effects=["external-write"])
        ... def send(to: str) -> str:
        ...     "Send a mail."
        ...     return "sent"
        >>> def approve(request: ApprovalRequest) -> bool:
        ...     print(request.tool, dict(request.params), [effect.value for effect in request.effects])
        ...     return True
        >>> registry = ToolRegistry(approver=CallbackApprover(approve))
        >>> _ = registry.register(send)
        >>> _ = registry.execute("send", {"to": "bob"})
        send {'to': 'bob'} ['external-write']
    """

    id: str
    """An ID from `new_request_id`, shown to approvers and never to a model."""
    tool: str
    digest: str
    """The digest of the tool's code. If it is empty, answers are never remembered."""
    grant: str
    """The digest of the tool's grant and effects. Remembered answers apply only if it is unchanged."""
    params: Mapping[str, Any]
    effects: tuple[Effect, ...]
    risk: str
    why: Decision
    """The decision that requires the approval."""
    user: str
    trace: str
    call: str
    preview: str | None = None
    """A unified diff of the files that would change."""
    provenance: tuple[str, ...] = ()
    """Lines for the approver about the origin of the destinations."""
    destinations: tuple[str, ...] = ()
    """The destinations to approve. A remembered answer applies only to the same destinations."""
    new_hosts: tuple[str, ...] = ()
    """The hosts of the call for which no call of this tool and user was approved before."""
    client: str = ""
    """The name that the client of the call gave. It is a claim, for display only. Empty if no client made the call."""
    created_ms: int
    """The time of the request in Unix milliseconds, like `expires_ms`."""
    expires_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", json_object(self.params))

    @property
    def binding(self) -> str:
        """BLAKE3 of user, tool, digest, grant, effects, parameters, preview and reason, in hexadecimal.

        SECURITY: an answer given for one request applies to another one only if their bindings are equal, so that both
        would show the approver the same content.
        """
        effects = sorted(map(str, self.effects))
        why = [str(self.why.reason), self.why.rule, *self.destinations]
        parts = [self.user, self.tool, self.digest, self.grant, effects, params_digest(self.params), self.preview, why]
        return blake3(json.dumps(parts).encode()).hexdigest()

    @property
    def may_be_remembered(self) -> bool:
        """True if an answer can be remembered: the tool has a digest, to which the answer is then bound."""
        return bool(self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """An answer to a request.

    Raises:
        InvalidParametersError: edited `params` are not a JSON object or are nested too deeply, or the scope is unknown.

    Examples:
        >>> from wasmrt import ApprovalAnswer, ApprovalScope
        >>> ApprovalAnswer(approved=True, by="ann", scope=ApprovalScope.SESSION).scope.value
        'session'
    """

    approved: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    """The name of the approver. If it is empty, the answer is recorded for the user who runs the answering process."""
    params: Mapping[str, Any] | None = None
    """Parameters that the approver edited, which replace the parameters of the call; None if unchanged."""
    note: str = ""
    """The reason for the answer, as a sentence."""
    pattern: ParamsPattern | None = None
    """The parameters to which a remembered answer applies.

    None means exactly the parameters of the call with `ApprovalScope.ALWAYS`, and the same
    method, hosts, recipients and folders with `ApprovalScope.SESSION`.
    """
    way: str = "person"
    """The source of the answer, for the receipt: `person`, or `client` if a client reported it."""
    remembered: bool = False
    """True if the answer has already been remembered, or is a remembered answer."""
    timed_out: bool = False
    """True if the request was denied because no approver answered in time."""

    def __post_init__(self) -> None:
        # SECURITY: only True approves. Any other value that counts as true may be a mistake.
        object.__setattr__(self, "approved", self.approved is True)
        # SECURITY: reject unknown scopes. They would otherwise be treated as the scope that lasts longest.
        try:
            object.__setattr__(self, "scope", ApprovalScope(self.scope))
        except ValueError:
            known = ", ".join(ApprovalScope)
            raise InvalidParametersError(f"approval scope: expected {known}, got {self.scope!r:.40}") from None
        if self.params is not None:
            object.__setattr__(self, "params", json_object(self.params))


class State(StrEnum):
    """States of a request. In the states `pending` and `answered`, it is open; the other states are final."""

    PENDING = "pending"
    ANSWERED = "answered"
    """The request was answered, and the caller has not used the answer yet."""
    USED = "used"
    WITHDRAWN = "withdrawn"
    OUTDATED = "outdated"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A stored request, and its answer if it has one.

    `params` and `preview` are stored only while the request is pending.
    """

    id: str
    state: State
    user: str
    tool: str
    digest: str
    grant: str
    trace: str
    call: str
    risk: str
    effects: tuple[Effect, ...]
    why: Decision
    params_digest: str
    created_ms: int
    expires_ms: int
    params: dict[str, Any] | None
    preview: str | None
    provenance: tuple[str, ...]
    destinations: tuple[str, ...]
    new_hosts: tuple[str, ...]
    approved: bool | None
    scope: ApprovalScope | None
    by: str
    note: str
    decided_ms: int | None
    client: str

    @property
    def request(self) -> ApprovalRequest:
        """The request as it was added. Available only while it is pending."""
        assert self.params is not None
        return ApprovalRequest(
            id=self.id, tool=self.tool, digest=self.digest, grant=self.grant, params=self.params, effects=self.effects,
            risk=self.risk, why=self.why, user=self.user, trace=self.trace, call=self.call, preview=self.preview,
            provenance=self.provenance, destinations=self.destinations, new_hosts=self.new_hosts,
            client=self.client, created_ms=self.created_ms, expires_ms=self.expires_ms,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return data | {"effects": [str(e) for e in self.effects], "why": self.why.as_dict()}


class Approver(Protocol):
    """Answers approval requests. If `ask` is cancelled, the request is withdrawn."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to a request. May be called concurrently from several threads and event loops."""
        ...


class DenyApprover:
    """Denies every request, for processes that have no approver."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Deny the request."""
        return ApprovalAnswer(approved=False, note="no approver is available")


def new_request_id() -> str:
    """Return an ID with 49 random bits, such as `k7dq2-9mxhp`. It is easy to read aloud, and hard to guess."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(2 * _ID_PART))
    return f"{letters[:_ID_PART]}-{letters[_ID_PART:]}"


def json_object(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parameters as plain JSON data.

    Raises:
        InvalidParametersError: the parameters are not a JSON object, or are nested too deeply.
    """
    if not isinstance(params, Mapping):
        raise InvalidParametersError(f"expected parameters as a JSON object, got {type(params).__name__}")
    try:
        text = write_json(dict(params))
        text.encode()
        check_nesting(text, max_depth=MAX_JSON_DEPTH)
        copied: dict[str, Any] = parse_json(text, exact=True)
    except UnicodeEncodeError:
        raise InvalidParametersError("the parameters contain an unpaired surrogate") from None
    except JsonError as error:
        raise InvalidParametersError(f"the parameters are {error}") from error
    return copied


def params_digest(params: Mapping[str, Any]) -> str:
    """Return the BLAKE3 digest of parameters in hexadecimal. It does not depend on the order of object members.

    Raises:
        InvalidParametersError: the parameters are not a JSON object, or are nested too deeply.
    """
    text = encode_json(_SORTED, json_object(params))
    return blake3(text.encode()).hexdigest()
