"""PreparedTool: a component that is ready to be called, and nothing of how it became so."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from wasmrt.call import Asked, Program, Progress, call
from wasmrt.capabilities import Capabilities
from wasmrt.component import ComponentType
from wasmrt.context import CallContext, Services
from wasmrt.errors import NotInstalledError
from wasmrt.guest.worlds import ToolSpec
from wasmrt.limits import ResourceLimits
from wasmrt.model import ToolOutput
from wasmrt.names import offered_name

if TYPE_CHECKING:
    from wasmrt.runtime import WasmToolRuntime
    from wasmrt.schema import Provider


class PreparedTool:
    """A component that is ready to be called, from any thread, by many at once.

    Most components hold one tool. Of one that holds several, `tools` lists them and `tool(name)` gives each.
    """

    def __init__(
        self,
        runtime: WasmToolRuntime,
        program: Program,
        grant: Capabilities,
        services: Services,
        size_bytes: int,
        spec: ToolSpec | None = None,
    ) -> None:
        self._runtime = runtime
        self._program = program
        self._services = services
        self.capabilities = grant
        self.size_bytes = size_bytes
        specs = program.specs
        self._spec = spec or (next(iter(specs.values())) if len(specs) == 1 else None)

    @property
    def name(self) -> str:
        """The name it was prepared under, and the tool's own where the component has several."""
        if self._spec is None or len(self._program.specs) == 1:
            return self._program.name
        return f"{self._program.name}.{self._spec.name}"

    def __repr__(self) -> str:
        return f"<PreparedTool {self.name!r} of {self.world}, {self.digest[:12]}>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Every tool of the component."""
        return tuple(self._program.specs.values())

    @property
    def description(self) -> str:
        return self._spec.description if self._spec else ""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the params."""
        return self._spec.schema if self._spec else {"type": "object"}

    def definition(self, provider: Provider) -> dict[str, Any]:
        """The tool as OpenAI, Anthropic or MCP want it declared: `"openai"`, `"anthropic"` or `"mcp"`.

        Raises:
            ConfigurationError: the provider is not known.
        """
        from wasmrt.schema import render

        return render(offered_name(self.name), self.description, self.schema, provider)

    @property
    def problems(self) -> tuple[str, ...]:
        """What was wrong with the component's own description or schema, in sentences."""
        return tuple(problem for spec in self.tools for problem in spec.problems)

    @property
    def describe_fuel(self) -> int:
        """What starting it and asking what it does took; 0 where fuel is not metered."""
        return self._program.describe_fuel

    @property
    def digest(self) -> str:
        """BLAKE3 of the component's bytes, in hex."""
        return self._program.digest

    @property
    def world(self) -> str:
        """The interface it is called through, such as `near:agent/tool@0.3.0`."""
        return self._program.world.name

    @property
    def limits(self) -> ResourceLimits:
        return self._program.limits

    @property
    def type(self) -> ComponentType:
        """Imports and exports in the engine's own words."""
        return self._program.linker.component.type

    def tool(self, name: str) -> PreparedTool:
        """One tool of a component that holds several.

        Raises:
            NotInstalledError: the component has no such tool.
        """
        spec = self._program.specs.get(name)
        if spec is None:
            known = ", ".join(self._program.specs) or "none"
            raise NotInstalledError(f"{self._program.name} has no tool {name!r}", hint=f"it has: {known}")
        return PreparedTool(self._runtime, self._program, self.capabilities, self._services, self.size_bytes, spec)

    def execute(
        self, params: Any, context: Any = None, user: str = "local", *, on_progress: Progress | None = None
    ) -> ToolOutput:
        """Run the tool in a fresh store and return what it answered.

        `params` is a mapping or a JSON text; `context` is passed to the guest as JSON and must hold nothing that
        it may not know; `on_progress` gets `(done, total, message)` while the call waits, on this thread or another
        one that has its context variables.

        Raises:
            ToolError: with kind, code, hint, usage, logs and decisions.
        """
        return self.run(Asked(params, context, user, on_progress))

    async def aexecute(
        self, params: Any, context: Any = None, user: str = "local", *, on_progress: Progress | None = None
    ) -> ToolOutput:
        """Run the tool on the runtime's executor. Cancelling stops the guest at its next import or epoch tick.

        Raises:
            ToolError: as `execute`.
        """
        import asyncio

        opened = _Opened()
        asked = Asked(params, context, user, on_progress, on_open=opened)
        try:
            return await self._runtime.run_on_thread(partial(self.run, asked))
        except asyncio.CancelledError:
            opened.cancel()
            raise

    @property
    def ready_spares(self) -> int:
        """How many instances wait for a call, where the runtime's `spare_instances` asks for any."""
        return len(self._program.shelf.spares)

    def drop_spares(self) -> None:
        """Drop those that wait, and make no more: the tool is prepared anew, or gone."""
        if self._runtime.path.spares is not None:
            self._runtime.path.spares.forget(self._program)

    def run(self, asked: Asked) -> ToolOutput:
        self._runtime.check_open()
        if self._spec is None:
            known = ", ".join(self._program.specs) or "none"
            raise NotInstalledError(
                f"{self._program.name} holds several tools",
                hint=f"choose one, with --tool NAME or .tool(name): {known}",
            )
        return call(self._runtime.path, self._program, self._spec, self.capabilities, self._services, asked)


class _Opened:
    """The context of a call on another thread, so that it can be cancelled before or after it opens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: CallContext | None = None
        self._cancelled = False

    def __call__(self, context: CallContext) -> None:
        with self._lock:
            self._context = context
            cancelled = self._cancelled
        if cancelled:
            context.cancel()

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            context = self._context
        if context is not None:
            context.cancel()
