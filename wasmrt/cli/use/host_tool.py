"""Run one of the host's tools for `wasmrt run`, through the steps of a registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from shlex import quote
from typing import Any

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, ApprovalStore, Approver, DenyApprover, QueueApprover
from wasmrt.agent.builtin.memory import MemoryStore
from wasmrt.agent.builtin.memory_tools import memory_tools
from wasmrt.agent.builtin.shell import ShellTool
from wasmrt.agent.config import OperatorConfig, read_config_file
from wasmrt.agent.registry import Tool, ToolRegistry, approver_of
from wasmrt.catalog.bundled import DESKTOP_NAMES, SHELL_NAME, OwnTool, missing_part
from wasmrt.cli.shared.calls import parse_context, run_interruptible, show_denials, show_undo_hint
from wasmrt.cli.shared.output import print_message, show_json, status
from wasmrt.cli.shared.registry import AnnouncingApprover
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError, ToolError
from wasmrt.core.places import find_places
from wasmrt.runtime.runtime import WasmToolRuntime


class _CommandLineApprover:
    """Approves the call that the user typed, but asks about calls that require approval each time."""

    def __init__(self, tool: Tool, approver: Approver) -> None:
        self._tool = tool
        self._approver = approver

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a request."""
        if not self._tool.requires_approval(request.params):
            return ApprovalAnswer(approved=True, by="command line")
        answer = await self._approver.ask(request)
        if isinstance(self._approver, DenyApprover):
            why = self._tool.why(request.params) if isinstance(self._tool, ShellTool) else "the call requires approval"
            note = f"{why}; run it on a terminal to be asked for approval"
            return ApprovalAnswer(approved=False, note=note)
        return answer


def run_host_tool(
    own: OwnTool,
    params: str | bytes,
    *,
    context: str | None,
    user: str,
    workspace: Path | None,
    typed: bool,
    as_json: bool,
) -> int:
    """Call a tool under the configured policy, and print its result.

    `typed` is True if the params were given as an argument, not read from a file or from standard input.

    Raises:
        ToolError: the call was denied or failed.
        ConfigurationError: the tool is disabled, or needs a workspace and has none.
    """
    data, file = parse_context(context), read_config_file(find_places().config)
    with open_runtime(workspace=workspace, receipts=True) as runtime:
        tools = _tools(own, runtime, file)
        approver = _configured_approver(file)
        if own.needs != "memory":
            approver = _CommandLineApprover(tools[0], approver)
        with ToolRegistry(runtime, policy=file.policy, approver=approver) as registry:
            for tool in tools:
                registry.register(tool, builtin=True)
            trace = ""
            if typed and own.needs == "memory":
                trace = f"run-{os.urandom(6).hex()}"
                text = params if isinstance(params, str) else params.decode("utf-8", "replace")
                registry.trace(trace, user=user).user_said(text)  # typed params are the user's, not untrusted text
            try:
                with status("opening the page") if own.name == "browser.open_url" else nullcontext():
                    output = run_interruptible(
                        runtime.close, lambda: registry.execute(own.name, params, user=user, data=data, trace=trace)
                    )
            except ToolError as error:
                is_denial = isinstance(error, NotAuthorizedError)  # its message and hint describe the denial
                if not as_json and not is_denial:
                    show_denials(error.decisions, None)
                raise
    show_json(output.as_dict() if as_json else output.result)
    if own.name == "memory_write" and not as_json:
        _show_undo_hint(output.result, user)
    elif own.name == SHELL_NAME and not as_json:
        show_undo_hint(output.call_id)
    return 0


def _configured_approver(file: OperatorConfig) -> Approver:
    """Return the approver of the configuration file; a queue prints its requests."""
    approver = approver_of(file.policy.approver, ApprovalStore(find_places().approvals))
    return AnnouncingApprover(approver) if isinstance(approver, QueueApprover) else approver


def _tools(own: OwnTool, runtime: WasmToolRuntime, file: OperatorConfig) -> Sequence[Tool]:
    if own.needs == "memory":
        settings = runtime.config.memory_settings()
        if settings is None:
            hint = "set enabled = true in [memory] of the configuration file"
            raise ConfigurationError("memory is disabled", hint=hint)
        return memory_tools(MemoryStore(settings), detector=runtime.detector)
    if own.name in DESKTOP_NAMES:
        from wasmrt.agent.builtin.desktop import desktop_tool  # few commands need it

        if own.name not in file.desktop.tools:
            raise ConfigurationError(f"{own.name} is off, like all desktop tools", hint=missing_part(own, ()))
        return [desktop_tool(own.name, file.desktop, runtime.open_gateway)]
    if runtime.config.workspace is None:
        raise ConfigurationError("the shell needs a workspace", hint="pass one with --workspace DIR")
    own_workspace, network = runtime.config.workspace, runtime.config.network
    return [ShellTool(own_workspace, file.shell, network=network, undo=runtime.config.undo)]


def _show_undo_hint(result: dict[str, Any], user: str) -> None:
    number, path = result["version"] - 1, result["path"]
    step = f"restore {quote(path)} {number}" if number else f"remove {quote(path)}"
    print_message(f"  to undo the write: wasmrt memory {step}{'' if user == 'local' else f' --user {quote(user)}'}")
