"""ToolContext: the circumstances of one call of a tool, as whoever lets it through sets them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wasmrt.audit import EMPTY_RECEIPT, Receipt
from wasmrt.effects import Effect
from wasmrt.lifetime import Lifetime
from wasmrt.model import Decision

if TYPE_CHECKING:
    from wasmrt.flows import Label

Progress = Callable[[int, int | None, str | None], None]
"""Gets what is done, the total where it is known, and a message."""

MayInvoke = Callable[[str], Decision | None]
"""Decides on a tool that the called one invokes, by name: a denial, or None where nothing is against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """Who calls, in which conversation, how long, and within which effects."""

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
    seen: frozenset[Label] | None = None
    """The labels of what the conversation has seen; None where nobody keeps track of it."""
    shown: str | None = None
    """The tool's preview of this call that a person saw and approved; None where no person did."""
