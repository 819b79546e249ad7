"""Base class of all kinds of tools, with the default value of every optional member."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple, Self

from wasmrt.core.effects import Effect
from wasmrt.core.labels import Label
from wasmrt.core.model import Decision
from wasmrt.core.traits import NO_TERMS, OwnTerms


class Offer(NamedTuple):
    """A user's decision whether to offer an external tool to agents."""

    agreed: bool
    command: str
    """The command that changes the decision with its option --offer or --no-offer."""


class Declaration(NamedTuple):
    """The declaration of a third-party tool in a data file, which is part of wasmrt or written by the operator."""

    source: str
    """The path of the file."""
    matches: bool
    """False if the tool's schema differs from the declared schema. The following fields then do not apply."""
    effects: frozenset[Effect] | None = None
    content: tuple[str, ...] = ()
    """Parameters whose text, even if it is short, decides neither where data goes nor what is changed."""
    results: frozenset[Label] | None = None
    """The labels of the tool's results; None if they follow from the tool's effects."""


class ToolDefaults:
    """Defaults for every member of `wasmrt.Tool` except name, description, schema, traits and `execute`."""

    timeout_seconds: float = 60.0
    """Time limit of one call."""
    digest: str = ""
    """Digest of the tool's code. Without one, approvals of its calls are not remembered."""
    grant_digest: str = ""
    """Digest of what the tool was granted. Without one, the digest is computed from its effects."""
    granted_effects: frozenset[Effect] | None = None
    """All effects that a call can have under the tool's grant; None if these are the effects in `traits`."""
    own: OwnTerms = NO_TERMS
    """Cost, duration and labels that do not depend on the params."""
    aliases: tuple[str, ...] = ()
    offer: Offer | None = None
    """A user's decision whether to offer the tool to agents; None if only the operator's filter decides."""
    prompt: str = ""
    """Instructions for models about using the tool."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the result."""
    default_permission: str = ""
    """The permission that the tool's author wants: `ask`, or `deny` until an operator's rule allows it."""
    approval_reason: str = "the tool requires it"
    """The reason that approvers see for calls for which `requires_approval` returns True."""
    destinations: tuple[str, ...] | None = None
    """Parameters that decide where something is sent or what is changed; None if they have to be guessed."""
    ids: tuple[str, ...] = ()
    """Names of parameters (of any tool) that accept identifiers from this tool's results. An identifier stands for
    the name that is in the same object of the result.
    """
    declaration: Declaration | None = None
    """The declaration of a third-party tool in a data file; None if no file declares the tool."""
    requires_sanitization: bool = True
    """False if the output is the agent's own text, which needs no sanitizing."""
    in_programs: bool = True
    """False if `run_code` programs must not call the tool."""
    runs_programs: bool = False
    """True for the interpreter of `run_code` programs."""
    is_async: bool = False
    """True if `execute` returns an awaitable."""
    ends_at_deadline: bool = False
    """True if `execute` enforces the deadline of its call itself, so that it needs no thread."""

    def estimated_cost(self, params: Any) -> Decimal | None:
        """Return the estimated cost of a call, in the operator's currency; None if it is unknown."""
        return self.own.cost

    def estimated_duration(self, params: Any) -> float | None:
        """Return the estimated duration of a call in seconds; None if it is unknown."""
        return self.own.seconds

    def requires_approval(self, params: Any) -> bool:
        """Return whether this call requires approval, whatever its effects are."""
        return False

    def check(self, params: Any) -> Decision | None:
        """Decide on the params before approval is requested. None if the tool does not object."""
        return None

    def preview(self, params: Any, context: Any) -> str | None:
        """Return the text that shows an approver what the call would change; None for the params alone.

        `context` is the call's `wasmrt.ToolContext`. A call that an approver allowed gets this text in `context.shown`.
        """
        return None

    def manual_command(self, params: Any) -> str:
        """Return the command with which a user can do the same as the call; empty if there is none."""
        return ""

    def untrusted_result(self, result: Any) -> bool:
        """Return whether a result contains untrusted text; for None, whether any result can."""
        return False

    def in_conversation(self, user: str, trace_id: str) -> Self:
        """Return the tool with the state that it keeps for one conversation."""
        return self

    def session_digest(self) -> str | None:
        """Return the digest of the state that the tool keeps for its conversation; None if it keeps none."""
        return None
