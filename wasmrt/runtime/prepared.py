"""`PreparedTool`: a compiled component that is ready to be called."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from wasmrt.capabilities import Capabilities, effects_of, iter_reachable, within_effects
from wasmrt.core.effects import EVERY_EFFECT, READING, Effect
from wasmrt.core.errors import InvalidParametersError, NotInstalledError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import Addition, ToolOutput
from wasmrt.core.names import did_you_mean, offered_name
from wasmrt.core.tool_defaults import Offer, ToolDefaults
from wasmrt.core.traits import NO_TERMS, Traits
from wasmrt.runtime.audit import EMPTY_RECEIPT, Receipt, Recording, Replay, ReplayResult
from wasmrt.runtime.call import Batch, BatchResult, Call, CallRequest, CallRunner, CallTarget, run_call
from wasmrt.runtime.call.previews import preview_context, preview_text, with_approved_result
from wasmrt.runtime.context import Progress, ToolContext
from wasmrt.sandbox.component import ComponentType, ToolSpec

if TYPE_CHECKING:
    from concurrent.futures import Future

    from wasmrt.sandbox.schema.providers import Provider


class PreparedTool(ToolDefaults):
    """A compiled component that any number of threads may call.

    If a component exports several tools, `tools` lists them and `tool(name)` returns one.

    Examples:
        >>> from wasmrt import WasmToolRuntime
        >>> with WasmToolRuntime() as runtime:
        ...     echo = runtime.prepare_installed("echo")
        ...     print(echo.name, echo.schema["required"])
        echo ['message']
    """

    def __init__(
        self, runner: CallRunner[PreparedTool], target: CallTarget, size_bytes: int, spec: ToolSpec | None = None
    ) -> None:
        self._runner = runner
        self._target = target
        self.size_bytes = size_bytes
        self.offer: Offer | None = None
        """The user's decision whether to offer the tool to agents; None if it does not come from the catalog."""
        self._parts: dict[str, PreparedTool] = {}
        self._cached_effects: tuple[frozenset[Effect], Traits] | None = None
        specs = target.specs
        self._spec = own = spec or (next(iter(specs.values())) if len(specs) == 1 else None)
        self.digest = target.digest
        """BLAKE3 of the component's bytes, in hex."""
        self.timeout_seconds = target.limits.timeout_seconds
        """Time limit of one call, in seconds."""
        self.prompt = "" if own is None else own.prompt
        """A Markdown document for models, from the tool's package; empty if there is none."""
        self.default_permission = "" if own is None else own.permission
        """The permission that the tool's package sets: `allow`, `ask` or `deny`; empty if it sets none."""
        self.own = NO_TERMS if own is None else own.own
        """Terms that the embedding program sets for the tool."""
        self.output_schema = None if own is None else own.output_schema
        """JSON Schema of the result, from the tool's package; None if the package has no such schema."""

    @property
    def installed(self) -> bool:
        """True if the tool comes from the catalog."""
        return self.offer is not None

    @property
    def capabilities(self) -> Capabilities:
        """The tool's grant. If the component has several tools, only the part of the grant for this tool."""
        return self._target.grant if self._spec is None else self._target.derive_grant(self._spec.name).grant

    @property
    def component(self) -> tuple[str, Capabilities, str]:
        """The name of the component, the complete grant of the component, and this tool's name within the component."""
        return self._target.name, self._target.grant, self._tool

    def with_added_grant(self, additions: Sequence[Addition]) -> PreparedTool:
        """Return a copy of this tool whose grant also contains `additions`.

        Raises:
            ConfigurationError: an entry cannot be added.
        """
        target = self._target.with_added_grant(self._tool, additions)
        other = PreparedTool(self._runner, target, self.size_bytes, self._spec)
        other.offer = self.offer
        return other

    @property
    def name(self) -> str:
        """The name under which the component was prepared; with several tools, `.` and the tool's own name follow."""
        return self._target.name if self._spec is None else self._target.get_name_in_grants(self._spec.name)

    def __repr__(self) -> str:
        return f"<PreparedTool {self.name!r} of {self.world}, {self.digest[:12]}>"

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """Every tool of the component."""
        return tuple(self._target.specs.values())

    @property
    def has_several(self) -> bool:
        """True if the component has several tools, and this object represents all of them."""
        return self._spec is None and len(self._target.specs) != 1

    @property
    def description(self) -> str:
        """The tool's description of itself, for a model; empty for a component with several tools."""
        return self._spec.description if self._spec else ""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the params."""
        return self._spec.schema if self._spec else {"type": "object"}

    def definition(self, provider: Provider) -> dict[str, Any]:
        """Return the tool's definition for a provider: `"openai"`, `"anthropic"`, `"gemini"` or `"mcp"`.

        Raises:
            ConfigurationError: the provider is not known.
            NotInstalledError: the component has several tools: choose one with `tool`, or use `definitions`.
        """
        if self._spec is None:
            raise NotInstalledError(f"{self._target.name} has several tools", hint=self._target.choice)
        from wasmrt.sandbox.schema.providers import render  # for agents only; most commands do not need it

        rendered = render(offered_name(self.name), self.description, self.schema, provider, prompt=self.prompt)
        return rendered | ({"annotations": self.traits.annotations()} if provider == "mcp" else {})

    def definitions(self, provider: Provider) -> list[dict[str, Any]]:
        """Return the definitions of the component's tools that are offered to models."""
        return [part.definition(provider) for part in self.offered]

    @property
    def offered(self) -> tuple[PreparedTool, ...]:
        """The component's tools as separate objects, except tools that the package hides from models."""
        specs = self.tools if self._spec is None else (self._spec,)
        return tuple(self if spec is self._spec else self.tool(spec.name) for spec in specs if not spec.hidden)

    @property
    def problems(self) -> tuple[str, ...]:
        """Errors in the component's description or schemas, as sentences."""
        return tuple(problem for spec in self.tools for problem in spec.problems)

    @property
    def schema_problems(self) -> tuple[str, ...]:
        """Reasons for rejecting schemas of tools, as sentences. Models do not see the params of such a tool."""
        one = len(self.tools) == 1
        return tuple(
            spec.schema_problem if one else f"{spec.name}: {spec.schema_problem}"
            for spec in self.tools
            if spec.schema_problem
        )

    @property
    def describe_fuel(self) -> int:
        """Fuel used to start the component and read its description; 0 if fuel is not metered."""
        return self._target.component.description.fuel

    @property
    def world(self) -> str:
        """The interface through which the component is called, such as `near:agent/tool@0.3.0`."""
        return self._target.component.world

    @property
    def limits(self) -> ResourceLimits:
        """The limits of one call."""
        return self._target.limits

    @property
    def checks_params(self) -> bool:
        """True if params that do not fit the schema are rejected before the guest runs."""
        return self._target.checked

    @property
    def grant_digest(self) -> str:  # type: ignore[override]  # depends on tools that it can invoke, and cannot be set
        """BLAKE3 of the grant and of every tool that the grant can invoke. Approvals apply to one digest only."""
        parts = [self.digest, repr(self.capabilities)]
        for name, tool in iter_reachable(self.capabilities, self._runner.prepared):
            parts += [name, tool.digest, repr(tool.capabilities)]
        return blake3("\n".join(parts).encode()).hexdigest()

    @property
    def granted_effects(self) -> frozenset[Effect]:  # type: ignore[override]  # as `grant_digest`
        """Every effect that a call can have under the grant, including the effects of tools that it may invoke."""
        return self._effects_and_traits[0]

    @property
    def traits(self) -> Traits:
        """The traits of a call through a registry. Its effects are the effects of the grant that the author declares.

        The sandbox enforces the declaration: a call through a registry is limited to these effects.
        """
        return self._effects_and_traits[1]

    @property
    def _effects_and_traits(self) -> tuple[frozenset[Effect], Traits]:
        """The effects under the grant, and the traits. Cached unless the tool invokes other tools, which may change."""
        if self._cached_effects is not None:
            return self._cached_effects
        reach = (self, *(tool for _, tool in iter_reachable(self.capabilities, self._runner.prepared)))
        granted = frozenset[Effect]().union(*(effects_of(tool.capabilities) for tool in reach))
        reading = frozenset[Effect]().union(*(effects_of(within_effects(tool.capabilities, READING)) for tool in reach))
        declared = self._declared_effects()
        bound = (granted, self.own.traits(granted & declared, reading & declared))
        if Effect.INVOKE_TOOL not in granted:
            self._cached_effects = bound
        return bound

    def _declared_effects(self) -> frozenset[Effect]:
        if self._spec is None:
            return EVERY_EFFECT
        sections = self._target.grant.tools or ()
        effects = next((tool.effects for tool in sections if tool.name == self._spec.name), None)
        declared = EVERY_EFFECT if effects is None else frozenset(effects)
        return declared & READING if self._spec.read_only else declared

    @property
    def type(self) -> ComponentType:
        """The component's imports and exports."""
        return self._target.component.type

    def tool(self, name: str) -> PreparedTool:
        """Return one tool of a component that has several.

        Raises:
            NotInstalledError: the component has no such tool.
        """
        spec = self._target.specs.get(name)
        if spec is None:
            near = did_you_mean(name, self._target.specs)
            hint = f"did you mean {near}?" if near else f"it has: {', '.join(self._target.specs) or 'none'}"
            raise NotInstalledError(f"{self._target.name} has no tool {name!r}", hint=hint)
        # Return the same object each time, so that a registry recognizes the object when another tool invokes it.
        part = self._parts.setdefault(name, PreparedTool(self._runner, self._target, self.size_bytes, spec))
        part.offer = self.offer
        return part

    def preview(self, params: Any, context: ToolContext) -> str | None:
        """Return a diff of what a call would change, and the digest of its result; None if the tool has no previews.

        Raises:
            ToolError: the call would fail.
        """
        if not self.own.previews:
            return None
        output = self._run_request(CallRequest(self._tool, params, preview_context(context)))
        return preview_text(output.result)

    def execute(
        self,
        params: Any,
        context: Any = None,
        user: str = "local",
        *,
        on_progress: Progress | None = None,
        receipt: Receipt = EMPTY_RECEIPT,
        workspace: Path | None = None,
    ) -> ToolOutput:
        """Run the tool in a fresh store and return its output.

        `params` is a mapping or JSON text. `context` is JSON data for the guest, so it must not contain anything that
        the guest may not know, or a `ToolContext` with data, user and receipt. `on_progress` is called with `(done,
        total, message)`, on this thread or on another thread with the same context variables. `receipt` has the receipt
        fields that the caller knows: trace, source, effects, policy, approval, decisions. `workspace` replaces the
        runtime's workspace folder.

        Raises:
            ToolError: the call failed. The error has a kind, code, hint, usage, logs and decisions.
        """
        return self._run_request(self._make_request(params, context, user, on_progress, receipt, workspace))

    async def aexecute(
        self,
        params: Any,
        context: Any = None,
        user: str = "local",
        *,
        on_progress: Progress | None = None,
        receipt: Receipt = EMPTY_RECEIPT,
        workspace: Path | None = None,
    ) -> ToolOutput:
        """Run the tool without blocking the event loop: calls that may block it, such as calls in process, use threads.

        Cancellation stops the guest; the deadline includes every wait.

        Raises:
            ToolError: see `execute`.
        """
        import asyncio  # already imported in programs that await; it takes a third of the start of other programs

        request = self._make_request(params, context, user, on_progress, receipt, workspace)
        call = self._runner.start(self._run_request, request, self._target)
        del request  # the call has its own; thousands may wait here
        try:
            return await call.output
        except asyncio.CancelledError:
            call.lifetime.cancel()
            await call.wait_ended()  # the loop may be closed after the last task, and the call needs it for its end
            raise

    def replay(self, recording: Recording) -> ReplayResult:
        """Run a recorded call again, using only its recording, and compare the results. The tool's grant is not used.

        Raises:
            NotInstalledError: the component has no tool of the recorded name.
        """
        known, tape = recording.call, Replay(recording)
        if known.tool not in self._target.specs:
            raise NotInstalledError(
                f"{self._target.name} has no tool {known.tool!r}", hint="replay with the component that was recorded"
            )
        try:
            self._run_request(
                CallRequest(known.tool, known.params, ToolContext(user=known.user, data=known.context), tape=tape)
            )
        except InvalidParametersError as error:
            tape.end(error.code, None)  # the recorded call was rejected before it began, too
        except ToolError:
            pass
        return tape.outcome(self.digest)

    def execute_many(
        self,
        batch: Iterable[Any],
        context: Any = None,
        user: str = "local",
        *,
        parallel: int = 0,
        ordered: bool = True,
    ) -> Iterator[BatchResult]:
        """Run the tool once for each item of `batch`, several at a time, and yield the result of each call.

        Each item contains the params of one call. At most `parallel` calls run at a time, by default twice the number
        of processors; use more for tools that wait for the network. With `ordered`, results are yielded in the order of
        the batch, otherwise as they complete. A failed call yields its error and does not stop the other calls. Ending
        the iteration early cancels the running calls.
        """
        return self._make_batch(batch, context, user, parallel, ordered).results()

    def aexecute_many(
        self,
        batch: Iterable[Any],
        context: Any = None,
        user: str = "local",
        *,
        parallel: int = 0,
        ordered: bool = True,
    ) -> AsyncIterator[BatchResult]:
        """Run the tool like `execute_many`, for use with `async for`."""
        return self._make_batch(batch, context, user, parallel, ordered).aresults()

    def _make_batch(self, batch: Iterable[Any], context: Any, user: str, parallel: int, ordered: bool) -> Batch:
        tool, own = self._tool, ToolContext(user=user, data=context)

        def start(params: Any) -> tuple[Lifetime, Future[ToolOutput]]:
            return self._runner.submit(self._run_request, CallRequest(tool, params, own), self._target.limits)

        return Batch(start, batch, parallel=parallel or 2 * (os.cpu_count() or 1), ordered=ordered)

    def invoke(self, params: str, caller: Call) -> ToolOutput:
        """Run this tool for the call `caller` of another tool.

        The tool has its own grant, and runs within the caller's deadline and budgets.

        Raises:
            ToolError: see `execute`.
        """
        return self._run_request(CallRequest(self._tool, params, ToolContext(user=caller.user), parent=caller))

    def _make_request(
        self, params: Any, context: Any, user: str, on_progress: Progress | None, receipt: Receipt, folder: Path | None
    ) -> CallRequest:
        if isinstance(context, ToolContext):
            if on_progress is not None or folder is not None:
                on_progress, folder = on_progress or context.on_progress, folder or context.workspace
                context = replace(context, on_progress=on_progress, workspace=folder)
        else:
            context = ToolContext(user=user, data=context, on_progress=on_progress, receipt=receipt, workspace=folder)
        if self.own.previews:
            context = with_approved_result(context)
        return CallRequest(self._tool, params, context)

    def _run_request(self, request: CallRequest) -> ToolOutput:
        self._runner.check_open()
        return run_call(self._runner.pipeline, self._target, request)

    @property
    def _tool(self) -> str:
        return "" if self._spec is None else self._spec.name  # without a choice, the call is rejected with a receipt
