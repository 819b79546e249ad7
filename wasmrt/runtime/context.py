"""ToolContext: the circumstances of one call of a tool, as whoever lets it through sets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wasmrt.core.effects import Effect
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import Decision
from wasmrt.runtime.audit import EMPTY_RECEIPT, Receipt

if TYPE_CHECKING:
    from wasmrt.core.labels import Label

Progress = Callable[[int, int | None, str | None], None]
"""Gets what is done, the total where it is known, and a message."""


class Program(Protocol):
    """A program of the model's while it runs, as the call that runs it."""

    @property
    def call_id(self) -> str:
        """The id of that call."""

    @property
    def trace_id(self) -> str:
        """The trace that its receipt names."""

    @property
    def lifetime(self) -> Lifetime:
        """Its time."""


CallTool = Callable[[str, str, Program], str]
"""Calls a tool in the name of a program's caller: by name, with the params and the answer as JSON texts. It raises
`HostFailure` where the program is to hear of a failure, and another error where the program ends with it."""
MayInvoke = Callable[[str], Decision | None]
"""Decides on a tool that the called one invokes, by name: a denial, or None where nothing is against it."""


class ToolsOfCaller(Protocol):
    """The tools of one view, for a tool that tells a model of them."""

    def described(self) -> Iterable[DescribedTool]:
        """Return the tools that a program of this caller's can call, by name, as a model may read of them."""


class DescribedTool(NamedTuple):
    """One tool as a model may read of it."""

    name: str
    description: str
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who calls, in which conversation, how long, and within which effects.

    Example:
        >>> from wasmrt import ToolContext, ToolRegistry, tool
        >>> @tool(effects=[])
        ... def whoami(context: ToolContext) -> str:
        ...     "Return the name of the user."
        ...     return context.user
        >>> registry = ToolRegistry()
        >>> _ = registry.register(whoami)
        >>> registry.execute("whoami", {}, user="ann").result
        'ann'
    """

    user: str = "local"
    trace_id: str = ""
    """One conversation or job; empty for a call outside of any."""
    call_id: str = ""
    data: Any = None
    """JSON that the tool may know of the conversation; a component gets it as the context of its call."""
    lifetime: Lifetime | None = None
    """The time that the call has; long work looks at it (`lifetime.check()`)."""
    on_progress: Progress | None = None
    on_begin: Callable[[], None] | None = None
    """Called when the call of a component begins: from then on it writes its receipt."""
    effects: frozenset[Effect] | None = None
    """The effects that the call is held to; None for all that the tool has."""
    write_paths: tuple[tuple[str, ...], ...] = ()
    """Folders of the workspace that the call is held to where it writes; each tuple of them narrows further."""
    receipt: Receipt = EMPTY_RECEIPT
    """The part of the call's receipt that is known so far."""
    workspace: Path | None = None
    """The folder of the call's files, in place of the runtime's."""
    may_invoke: MayInvoke | None = None
    call_tool: CallTool | None = None
    """The way to every tool of the caller's, for the interpreter of code mode alone; in place of aliases."""
    under_permit: bool = False
    """True for a call that a program makes while it runs: it runs under the permit that the program has."""
    tools: ToolsOfCaller | None = None
    """The tools that the caller can call, for a tool that describes them."""
    seen: frozenset[Label] | None = None
    """The labels of what the conversation has seen; None where nobody keeps track of it."""
    shown: str | None = None
    """The tool's preview of this call that a person saw and approved; None where no person did."""
