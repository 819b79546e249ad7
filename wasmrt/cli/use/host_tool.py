"""Run one of the host's tools for `wasmrt run`, through the steps of a registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from shlex import quote
from typing import Any

from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory_tools import memory_tools
from wasmrt.agent.builtin.shell import ShellTool
from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.agent.loading import empty_registry
from wasmrt.agent.registry import Tool
from wasmrt.catalog.bundled import DESKTOP_NAMES, SHELL_NAME, OwnTool, missing_part
from wasmrt.cli.shared.calls import CallOptions, describes_denials, run_interruptible, show_denials, show_undo_hint
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.progress import status
from wasmrt.cli.shared.registry import TypedCallApprover, command_approver
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.cli.use.registered import answer_model
from wasmrt.core.errors import ConfigurationError, ToolError
from wasmrt.core.places import find_places
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.runtime import WasmToolRuntime


def run_host_tool(own: OwnTool, call: CallOptions) -> int:
    """Call a tool under the configured policy, print its result, and return the exit code.

    Raises:
        ToolError: the call was denied or failed.
        ConfigurationError: the tool is disabled, or needs a workspace and has none.
    """
    file = read_config_file(find_places().config)
    with open_runtime(workspace=call.workspace, receipts=True) as runtime, ExitStack() as stack:
        tools = _load_tools(own, runtime, file)
        approver = command_approver(file.policy)
        if own.needs != "memory":
            approver = TypedCallApprover(tools[0], file.policy, approver)
        registry = stack.enter_context(empty_registry(runtime, policy=file.policy, approver=approver))
        for tool in tools:
            registry.register(tool, builtin=True)
        if call.as_model:
            return answer_model(registry, own.name, call)
        trace = call.trace
        if not trace and call.typed and own.needs == "memory":
            trace = f"run-{os.urandom(6).hex()}"
            text = call.params if isinstance(call.params, str) else call.params.decode("utf-8", "replace")
            registry.trace(trace, user=call.user).user_said(text)  # typed params are the user's, not untrusted text
        view = call.choice.of(registry)
        try:
            with status("opening the page") if own.name == "browser.open_url" else nullcontext():
                output = run_interruptible(
                    runtime.close,
                    lambda: view.execute(
                        own.name, call.params, user=call.user, data=call.context, trace=trace, token=call.token
                    ),
                )
        except ToolError as error:
            if not call.as_json and not describes_denials(error):
                show_denials(error.decisions, None)
            raise
    call.show_output(output)
    if own.name == "memory_write" and not call.as_json:
        _show_undo_hint(output.result, call.user)
    elif own.name == SHELL_NAME and not call.as_json:
        show_undo_hint(output.call_id)
    return 0


def _load_tools(own: OwnTool, runtime: WasmToolRuntime, file: OperatorConfig) -> Sequence[Tool]:
    if own.needs == "memory":
        settings = runtime.config.get_memory_settings()
        if settings is None:
            hint = set_command("memory.enabled", True)
            raise ConfigurationError("memory is disabled", hint=hint)
        place = settings.path or file.store_place(find_places().memory)
        return memory_tools(MemoryStore(settings, place), detector=runtime.detector)
    if own.name in DESKTOP_NAMES:
        from wasmrt.agent.builtin.desktop import desktop_tool  # few commands need it

        if own.name not in file.desktop.tools:
            raise ConfigurationError(
                f"{own.name} is disabled; desktop tools have to be enabled one by one", hint=missing_part(own, ())
            )
        return [desktop_tool(own.name, file.desktop, runtime.open_gateway)]
    if runtime.config.workspace is None:
        raise ConfigurationError("the shell needs a workspace", hint="pass one with --workspace DIR")
    own_workspace, network = runtime.config.workspace, runtime.config.network
    return [ShellTool(own_workspace, file.shell, network=network, undo=runtime.config.undo)]


def _show_undo_hint(result: dict[str, Any], user: str) -> None:
    number, path = result["version"] - 1, result["path"]
    step = f"restore {quote(path)} {number}" if number else f"remove {quote(path)}"
    print_message(f"  to undo the write: wasmrt memory {step}{'' if user == 'local' else f' --user {quote(user)}'}")
