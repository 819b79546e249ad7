"""Requests for an approval, their answers, and those who answer."""

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
from wasmrt.core.strict_json import JsonError, check_nesting, parse_json, write_json, written_by

_SORTED = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"
"""Digits and letters that are not taken for each other when they are read aloud or copied by hand."""
_ID_PART = 5


class ApprovalScope(StrEnum):
    """Reach of an answer: this call, this tool for the rest of the trace, or these parameters from now on.

    Example:
        >>> from wasmrt import ApprovalScope
        >>> [scope.value for scope in ApprovalScope]
        ['once', 'session', 'always']
    """

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A call that a person has to approve.

    `params` are copied, so that nothing that happens to the caller's own changes what the person sees.

    Raises:
        InvalidParametersError: `params` are no JSON object, or nest too deep.

    Example:
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
    """For people, never for a model; made by `new_request_id`."""
    tool: str
    digest: str
    """The tool's digest. An empty one matches no remembered answer."""
    grant: str
    """The digest of its grant and effects: an update or a wider grant asks again."""
    params: Mapping[str, Any]
    effects: tuple[Effect, ...]
    risk: str
    why: Decision
    """The decision that asks for it."""
    user: str
    trace: str
    call: str
    preview: str | None = None
    """A unified diff of the files that would change."""
    provenance: tuple[str, ...] = ()
    """Lines for people about where the values of the call came from."""
    destinations: tuple[str, ...] = ()
    """The destinations that the question is about: a remembered answer is none to another one."""
    created_ms: int
    """Unix milliseconds, as is `expires_ms`."""
    expires_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", json_object(self.params))

    @property
    def binding(self) -> str:
        """BLAKE3 of all that an answer is about, in hex: user, tool, digest, grant, effects, parameters, preview, why.

        Two requests with the same binding ask the same.
        SECURITY: an answer to what a person was shown is none to what would be shown now.
        """
        effects = sorted(map(str, self.effects))
        why = [str(self.why.reason), self.why.rule, *self.destinations]
        parts = [self.user, self.tool, self.digest, self.grant, effects, params_digest(self.params), self.preview, why]
        return blake3(json.dumps(parts).encode()).hexdigest()

    @property
    def may_be_remembered(self) -> bool:
        """True where an answer can be bound to the tool: to one without a digest it cannot."""
        return bool(self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """An answer to a request.

    Raises:
        InvalidParametersError: edited `params` are no JSON object, or nest too deep; or the scope is none.

    Example:
        >>> from wasmrt import ApprovalAnswer, ApprovalScope
        >>> ApprovalAnswer(approved=True, by="ann", scope=ApprovalScope.SESSION).scope.value
        'session'
    """

    approved: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    by: str = ""
    """Who answered; empty where nobody did."""
    params: Mapping[str, Any] | None = None
    """Parameters to call the tool with instead, where the person edited them."""
    note: str = ""
    """The reason, in a sentence for people."""
    pattern: ParamsPattern | None = None
    """The parameters that the answer is remembered for. None stands for exactly those of the call with
    `ApprovalScope.ALWAYS`, and for any with `ApprovalScope.SESSION`."""
    way: str = "person"
    """The way that it was given, for the receipt: a person answered, or a `client` says that one did."""
    remembered: bool = False
    """True for an answer that was given before, or that is kept already: it is not to be remembered again."""
    timed_out: bool = False
    """True where somebody was asked, and nobody answered in time."""

    def __post_init__(self) -> None:
        # SECURITY: only True approves; another true value may be a mistake.
        object.__setattr__(self, "approved", self.approved is True)
        # SECURITY: a word that is none of the scopes would else be remembered like the longest of them.
        try:
            object.__setattr__(self, "scope", ApprovalScope(self.scope))
        except ValueError:
            known = ", ".join(ApprovalScope)
            raise InvalidParametersError(f"an approval's scope is one of {known}, not {self.scope!r:.40}") from None
        if self.params is not None:
            object.__setattr__(self, "params", json_object(self.params))


class Approver(Protocol):
    """Somebody who answers. Cancelling `ask` withdraws the request: nobody waits for the answer any more."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer to one request; many may be asked at once, from several threads and event loops."""
        ...


def new_request_id() -> str:
    """Return an id of 49 random bits, such as `k7dq2-9mxhp`: easy to read out, and not hit by chance."""
    letters = "".join(secrets.choice(_ALPHABET) for _ in range(2 * _ID_PART))
    return f"{letters[:_ID_PART]}-{letters[_ID_PART:]}"


def json_object(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of parameters as plain JSON data.

    Raises:
        InvalidParametersError: they are no JSON object, or nest too deep.
    """
    if not isinstance(params, Mapping):
        raise InvalidParametersError(f"parameters are a JSON object, not {type(params).__name__}")
    try:
        text = write_json(dict(params))
        text.encode()
        check_nesting(text, max_depth=MAX_JSON_DEPTH)
        copied: dict[str, Any] = parse_json(text, exact=True)
    except UnicodeEncodeError:
        raise InvalidParametersError("the parameters hold half a surrogate pair") from None
    except JsonError as error:
        raise InvalidParametersError(f"the parameters are {error}") from error
    return copied


def params_digest(params: Mapping[str, Any]) -> str:
    """Return the BLAKE3 digest of parameters, in hexadecimal: the same for the same JSON data in any order of names.

    Raises:
        InvalidParametersError: they are no JSON object, or nest too deep.
    """
    text = written_by(_SORTED, json_object(params))
    return blake3(text.encode()).hexdigest()
