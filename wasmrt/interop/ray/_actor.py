"""The code of an actor: a runtime of its own, which prepares the pool's tools and runs their calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.catalog.find import find_tool
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.effects import READING
from wasmrt.core.errors import IntegrityError, ToolError, WasmrtError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import open_catalog
from wasmrt.sandbox.component import ToolSpec


@dataclass(frozen=True, slots=True)
class RayTool:
    """A component that the actors of a `RayPool` prepare, with its grant.

    Args:
        name: The name under which `RayPool.execute_many` finds the tool.
        component: The bytes of the component.
        capabilities: The grant; by default, nothing is granted.
        limits: The limits of a call; by default those of the grant, then those of the actor's runtime.
        tools: The tools that the package declares; by default, those that the component itself describes.
    """

    name: str
    component: ComponentBytes
    capabilities: Capabilities | None = None
    limits: ResourceLimits | None = None
    tools: tuple[ToolSpec, ...] | None = None

    @classmethod
    def installed(cls, name: str) -> RayTool:
        """Return a tool that is installed on this machine, with its grant, or a bundled tool.

        Raises:
            NotInstalledError: there is no such tool.
        """
        found = find_tool(name, open_catalog(find_places().data))
        return cls(name, found.component, found.grant, tools=found.tools)


class SentTool(NamedTuple):
    """A tool whose component an actor reads from Ray's object store, which copies it to each node once."""

    tool: RayTool
    """The tool with an empty component."""
    digest: str
    reference: Any
    """The `ray.ObjectRef` of the component's bytes."""


class ToolFacts(NamedTuple):
    """Facts about a prepared tool that decide how the pool calls it."""

    reads_only: bool
    """True if no call can change anything, so that a call whose actor died may run again."""
    timeout_seconds: float


def load_runtime() -> WasmToolRuntime:
    """Return a runtime with the settings and secrets of the node's own user."""
    return WasmToolRuntime(WasmRuntimeConfig.load())


class ToolActor:
    """Runs calls on a node. Each of its threads runs one group of calls at a time.

    Errors of wasmrt are returned, not raised, because Ray replaces the class of an exception that a task raises.
    """

    def __init__(
        self, make_runtime: Callable[[], WasmToolRuntime], tools: Sequence[SentTool], read: Callable[[Any], bytes]
    ) -> None:
        self._make_runtime = make_runtime
        self._sent = tools
        self._read = read
        self._runtime: WasmToolRuntime | None = None
        self._lock = threading.Lock()

    def describe(self, name: str) -> ToolFacts | WasmrtError:
        """Prepare the tools, if that was not done before, and return the facts about a tool or the error."""
        try:
            tool = self._find(name)
        except WasmrtError as error:
            return error
        return ToolFacts(tool.granted_effects <= READING, tool.timeout_seconds)

    def run(self, name: str, group: Sequence[Any], context: Any, user: str) -> list[ToolOutput | WasmrtError]:
        """Run one call after the other, and return the output or the error of each."""
        try:
            tool = self._find(name)
        except WasmrtError as error:
            return [error] * len(group)
        results: list[ToolOutput | WasmrtError] = []
        for params in group:
            try:
                results.append(tool.execute(params, context, user))
            except ToolError as error:
                results.append(error)
        return results

    def close(self) -> None:
        """Close the runtime, which ends its receipt chain."""
        with self._lock:
            if self._runtime is not None:
                self._runtime.close()

    def _find(self, name: str) -> PreparedTool:
        with self._lock:
            if self._runtime is None:
                self._runtime = self._open()
            return self._runtime.tool(name)

    def _open(self) -> WasmToolRuntime:
        runtime = self._make_runtime()
        try:
            for tool, digest, reference in self._sent:
                component = ComponentBytes(self._read(reference))
                if component.digest != digest:
                    raise IntegrityError(
                        f"the component of {tool.name} arrived with another digest: expected {digest}, got "
                        f"{component.digest}",
                        hint="check who can write to the cluster's object store",
                    )
                runtime.prepare(tool.name, component, tool.capabilities, tool.limits, tools=tool.tools)
        except BaseException:
            runtime.close()
            raise
        return runtime
