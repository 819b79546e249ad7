"""Protocols for components that are ready to run, either in this process or in a worker."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.component import ComponentType, ToolSpec
from wasmrt.sandbox.guest.call import GuestCall


class Description(NamedTuple):
    """The description of a component, obtained by starting the component once."""

    specs: dict[str, ToolSpec]
    """The component's tools by name."""
    memories: int
    """The number of linear memories that the component's instances create."""
    fuel: int
    """The fuel used to start and describe the component, or 0 if fuel is not metered."""


class GuestComponent(Protocol):
    """A component that is ready to run."""

    checks_params: bool
    """True if `run` validates the params against the tool's schema, so that the host does not have to."""

    @property
    def world(self) -> str:
        """The interface through which the component is called."""

    @property
    def type(self) -> ComponentType:
        """The component's imports and exports, as reported by the engine."""

    @property
    def limits(self) -> ResourceLimits:
        """The limits of one call."""

    @property
    def description(self) -> Description:
        """The description made when the component was prepared."""

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool for `user` in a fresh store and return its JSON text.

        Raises:
            ToolError: the guest failed, trapped or used up a budget.
            BaseException: the call's first failure, which can be any exception of a host function.
        """

    def close(self) -> None:
        """Release the resources that the component uses between calls."""


class GuestHome(Protocol):
    """Compiles and runs guests, in this process or in workers."""

    def load(self, name: str, data: bytes, digest: str, limits: ResourceLimits) -> GuestComponent:
        """Prepare the component `data` for its calls: compile it or load it from the cache, link it and describe it.

        `digest` is the BLAKE3 digest of `data`.

        Raises:
            ComponentError: the component cannot run here; the error's class depends on the reason.
            MemoryLimitError: the component needs more memory to start than `limits` allow.
        """

    def close(self) -> None:
        """Stop all guests and release all resources."""
