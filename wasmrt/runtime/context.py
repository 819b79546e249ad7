"""`ToolContext`: the user, limits and other circumstances of one call, set by the caller."""

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
"""A function that is called with the completed amount, the total if known, and a message."""


class Program(Protocol):
    """A running program that a model wrote, represented by the call that runs the program."""

    @property
    def call_id(self) -> str:
        """The ID of the call that runs the program."""

    @property
    def trace_id(self) -> str:
        """The trace ID in the receipt of the call that runs the program."""

    @property
    def lifetime(self) -> Lifetime:
        """The lifetime of the call that runs the program."""


CallTool = Callable[[str, str, Program], str]
"""A function that calls a tool by name for the user of a program, with params and answer as JSON text. A failure that
the program may handle is raised as `HostFailure`; other errors end the program."""
MayInvoke = Callable[[str], Decision | None]
"""A function that decides whether the called tool may invoke the tool with this name. Returns a denial, or None."""


class ToolsOfCaller(Protocol):
    """The tools of one registry view, for a tool that describes tools to a model."""

    def described(self) -> Iterable[DescribedTool]:
        """Return descriptions of the tools that a program of this caller may call."""


class DescribedTool(NamedTuple):
    """The description of a tool for models."""

    name: str
    description: str
    schema: dict[str, Any]
    output_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """The user, conversation, time limit and permitted effects of a call.

    Examples:
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
    """The conversation or job; empty if the call belongs to none."""
    call_id: str = ""
    data: Any = None
    """JSON data about the conversation that the tool may use; a component receives it as its context."""
    lifetime: Lifetime | None = None
    """The call's time limit; long work checks it with `lifetime.check()`."""
    on_progress: Progress | None = None
    on_begin: Callable[[], None] | None = None
    """Called when the call of a component begins; from then on, the call writes its receipt."""
    effects: frozenset[Effect] | None = None
    """The effects that the call is limited to; None for all of the tool's effects."""
    write_paths: tuple[tuple[str, ...], ...] = ()
    """Lists of workspace folders. The call may write a file only if the file is below a folder of every list."""
    receipt: Receipt = EMPTY_RECEIPT
    """The fields of the call's receipt that the caller already knows."""
    workspace: Path | None = None
    """The folder for the call's files, instead of the runtime's."""
    may_invoke: MayInvoke | None = None
    call_tool: CallTool | None = None
    """Calls any tool of the caller by name instead of by alias; only for the interpreter of code mode."""
    under_permit: bool = False
    """True if the call shares the concurrency permit of the program that makes the call."""
    tools: ToolsOfCaller | None = None
    """The tools that the caller may call, for a tool that describes them."""
    seen: frozenset[Label] | None = None
    """Labels of the content that the conversation has seen; None if this is not tracked."""
    shown: str | None = None
    """The tool's preview of this call that a user approved; None if no user approved one."""
    confirmed_content: str | None = None
    """The digest of the files that a confirmation token covers; None if no token approved the call."""

    @property
    def has_callbacks(self) -> bool:
        """True if the call runs code of its caller, which may block."""
        return self.on_progress is not None or self.call_tool is not None or self.may_invoke is not None
