"""Call a component for `wasmrt run`: directly if the default policy allows the call, else through a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.calls import (
    CallOptions,
    describes_denials,
    run_interruptible,
    show_denials,
    show_logs,
    show_undo_hint,
)
from wasmrt.cli.shared.errors import exit_code
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import with_invoked
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ToolError
from wasmrt.core.model import Decision, ToolOutput
from wasmrt.core.names import spelling
from wasmrt.core.places import find_places
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime


def run_component(found: FoundTool, part: str | None, call: CallOptions, path: str, *, unsafe_no_policy: bool) -> int:
    """Call a component, print its result, and return the exit code. `path` is the name or path that the user gave.

    Raises:
        ToolError: the call was denied or failed.
        NotInstalledError: the component has no tool `part`.
    """
    tools = with_invoked(found)
    with ExitStack() as stack:
        runtime = stack.enter_context(
            open_runtime(*(each.grant for each in tools), workspace=call.workspace, receipts=True)
        )
        prepared, *_ = [_prepare(runtime, each) for each in tools]
        if part is not None:
            spelled = (each.name for each in prepared.tools if spelling(each.name) == spelling(part))
            prepared = prepared.tool(next(spelled, part))
        section = None if found.grant.tools is None else f"tools.{part}"
        # A component with several tools raises an error that lists them.
        if unsafe_no_policy or prepared.has_several or _is_allowed_by_default(prepared, call):
            work: Callable[[], ToolOutput] = lambda: prepared.execute(  # noqa: E731 - the other branch has one, too
                call.params, call.context, call.user, on_progress=call.show_progress
            )
        else:
            from wasmrt.cli.use.registered import answer_model, registry_of  # a seventh of the time of a short run

            registry = stack.enter_context(registry_of(runtime, prepared, builtin=found.origin == "bundled"))
            if call.as_model:
                return answer_model(registry, prepared.name, call)
            view = call.choice.of(registry)
            work = lambda: view.execute(  # noqa: E731 - as above
                prepared.name, call.params, user=call.user, trace=call.trace, data=call.context, token=call.token,
                on_progress=call.show_progress,
            )  # fmt: skip
        try:
            output = run_interruptible(runtime.close, work)
        except ToolError as error:
            if call.as_json:
                raise
            show_logs(error.logs)
            if describes_denials(error):
                raise
            _show_notes(found, path, error.decisions, error.call_id, section)
            message = _without_denials(error)
            if message == error.message:
                raise
            print_message(f"error: {message}")
            return exit_code(error)
    call.show_output(output)
    if not call.as_json:
        _show_notes(found, path, output.decisions, output.call_id, section)
    return 0


def _prepare(runtime: WasmToolRuntime, found: FoundTool) -> PreparedTool:
    tool = prepare(runtime, found.name, found.component, found.grant, tools=found.tools, request=found.request)
    tool.offer = found.offer
    return tool


def _is_allowed_by_default(tool: PreparedTool, call: CallOptions) -> bool:
    """Return whether a registry under the default policy would run the call with the same effects, without approval.

    SECURITY: false if any step of a registry could decide otherwise: if there is a configuration file, an option that
    needs a registry, an effect or a package that requires approval, or another tool that this tool may invoke.
    """
    if find_places().config.exists() or call.needs_registry or tool.default_permission in ("ask", "deny"):
        return False
    effects, traits = tool.granted_effects, tool.traits
    return (
        traits.effects == effects
        and Effect.INVOKE_TOOL not in effects
        and not traits.needs_confirmation(effects)
        and not tool.requires_approval(call.params)
    )


def _show_notes(
    found: FoundTool, path: str, decisions: Iterable[Decision], call_id: str | None, section: str | None
) -> None:
    """Print the denials of a call with their hints, and how to undo its changes."""
    decisions = tuple(decisions)
    show_denials(decisions, section)
    if found.grant.get(WorkspaceWriteCapability) is not None:
        show_undo_hint(call_id)
    if found.origin != "file" or found.sidecar is None or all(decision.allowed for decision in decisions):
        return
    if found.grant == Capabilities.none():  # the capability file next to a component is only a request
        sidecar = f"{path.removesuffix('.wasm')}.capabilities.json"
        print_message(f"  its capability file was not granted: install the tool, or pass --capabilities {sidecar}")


def _without_denials(error: ToolError) -> str:
    """Return an error's message without the denials quoted in it, which `show_denials` has already printed."""
    message = error.message
    for decision in error.decisions:
        if not decision.allowed:
            message = message.replace(decision.sentence, "denied, as above")
    return message
