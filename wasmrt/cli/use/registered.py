"""Call a tool through a registry for `wasmrt run`, with all steps of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wasmrt.agent.config import read_config_file
from wasmrt.agent.loading import empty_registry
from wasmrt.agent.registry import ToolRegistry, ToolSource, end_with_call
from wasmrt.catalog.bundled import RUN_CODE, bundled_component
from wasmrt.cli.shared.calls import (
    CallOptions,
    describes_denials,
    run_interruptible,
    show_denials,
    show_logs,
    show_undo_hint,
)
from wasmrt.cli.shared.errors import exit_code
from wasmrt.cli.shared.output import show, show_json
from wasmrt.cli.shared.registry import TypedCallApprover, command_approver, open_registry
from wasmrt.cli.shared.runtime import prepare
from wasmrt.core.errors import ToolError
from wasmrt.core.places import find_places
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime


@contextmanager
def registry_of(runtime: WasmToolRuntime, tool: PreparedTool, *, builtin: bool) -> Iterator[ToolRegistry]:
    """Open a registry with one component under the configured policy, for one call that the user typed.

    Raises:
        ConfigFileError: the configuration file is invalid.
        InvalidNameError: the policy does not allow the tool to have its name.
    """
    policy = read_config_file(find_places().config).policy.for_typed_calls()
    approver = TypedCallApprover(tool, policy, command_approver(policy))
    with empty_registry(runtime, policy=policy, approver=approver) as registry:
        end_with_call(registry)
        source = ToolSource.INSTALLED if tool.installed else ToolSource.COMPONENT
        registry.register(tool, builtin=builtin, source=source)
        yield registry


def run_registered(name: str, call: CallOptions) -> int:
    """Call a tool that only a registry with all tools has, print its result, and return the exit code.

    Raises:
        ToolError: there is no such tool, or the call was denied or failed.
    """
    with open_registry(workspace=call.workspace, called=name, typed=True) as registry:
        end_with_call(registry)
        name = _find_server_tool(name, registry)
        _prepare_interpreter(name, registry)
        if call.as_model:
            return answer_model(registry, name, call)
        view = call.choice.of(registry)
        try:
            output = run_interruptible(
                _get_runtime(registry).close,
                lambda: view.execute(
                    name, call.params, user=call.user, trace=call.trace, data=call.context, token=call.token,
                    on_progress=call.show_progress,
                ),
            )  # fmt: skip
        except ToolError as error:
            if not call.as_json:
                show_logs(error.logs)
                if not describes_denials(error):
                    show_denials(error.decisions, None)
                if call.workspace is not None:
                    show_undo_hint(error.call_id)
            raise
    call.show_output(output)
    if call.workspace is not None and not call.as_json:
        show_undo_hint(output.call_id)
    return 0


def answer_model(registry: ToolRegistry, name: str, call: CallOptions) -> int:
    """Call a tool, print the result as a model receives it, and return the exit code."""
    view = call.choice.of(registry)
    asked: dict[str, Any] = {"id": "call-1", "name": name, "arguments": call.params}
    answer = run_interruptible(
        _get_runtime(registry).close, lambda: view.answer(asked, user=call.user, trace=call.trace, data=call.context)
    )
    show_json(answer.message()) if call.as_json else show(answer.text)
    return 0 if answer.error is None else exit_code(answer.error)


def _find_server_tool(name: str, registry: ToolRegistry) -> str:
    """Return the registry's name of `SERVER.TOOL`; other names are returned unchanged."""
    server, _, tool = name.partition(".")
    if not tool or not find_places().mcp_servers.exists():
        return name
    from wasmrt.interop.mcp.client import load_servers, tool_name  # the SDK takes 0.3 s to import

    if server not in load_servers(find_places())[0]:
        return name
    return tool if tool.startswith(f"{server}_") and tool in registry.all_names() else tool_name(server, tool)


def _prepare_interpreter(name: str, registry: ToolRegistry) -> None:
    """Compile the interpreter of code mode with a status before its call, because the first time takes seconds."""
    if name == RUN_CODE.name and name in registry.all_names():
        prepare(_get_runtime(registry), name, bundled_component(RUN_CODE))
        _get_runtime(registry).forget(name)  # no component may invoke it


def _get_runtime(registry: ToolRegistry) -> WasmToolRuntime:
    assert registry.runtime is not None
    return registry.runtime
