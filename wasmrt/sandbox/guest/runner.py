"""A prepared component as its host sees it, wherever the guest lives: in this process, or in a worker."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.component import ComponentType, ToolSpec
from wasmrt.sandbox.guest.call import GuestCall


class Description(NamedTuple):
    """The answers of a component that was started once and asked what it is."""

    specs: dict[str, ToolSpec]
    """Its tools by name."""
    memories: int
    """Linear memories that its instances make."""
    fuel: int
    """Fuel that starting and asking it took; 0 where fuel is not metered."""


class GuestComponent(Protocol):
    """A component that is ready to run."""

    checks_params: bool
    """True where `run` holds the params against the tool's schema itself, so that the host need not."""

    @property
    def world(self) -> str:
        """The interface it is called through."""

    @property
    def type(self) -> ComponentType:
        """Imports and exports, in the engine's words."""

    @property
    def limits(self) -> ResourceLimits:
        """The limits of one call."""

    @property
    def description(self) -> Description:
        """The answers it gave when it was prepared."""

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a fresh store and return its JSON text; `user` is who it runs for.

        Raises:
            ToolError: the guest failed, trapped or used up a budget.
            BaseException: the call's first failure, whatever a host function raised.
        """

    def close(self) -> None:
        """Let go of whatever is kept for its next call."""


class GuestHome(Protocol):
    """The place where guests are compiled and run."""

    def load(self, name: str, data: bytes, digest: str, limits: ResourceLimits) -> GuestComponent:
        """Compile a component, or find it compiled, link it and ask it what it is; `digest` is of `data`.

        Raises:
            ComponentError: it cannot run here; the subclass says why.
            MemoryLimitError: it needs more memory to start than `limits` give.
        """

    def close(self) -> None:
        """Let go of everything; no guest runs any more."""
