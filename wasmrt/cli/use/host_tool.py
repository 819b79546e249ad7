"""Runs one of the host's own tools through the steps of a registry, as `wasmrt run` does a component."""

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
from wasmrt.catalog.bundled import DESKTOP_NAMES, OwnTool, missing_part
from wasmrt.cli.shared.calls import check_context, interruptible, show_denials
from wasmrt.cli.shared.output import print_message, show_json, status
from wasmrt.cli.shared.registry import Announcing
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.core.errors import ConfigurationError, NotAuthorizedError, ToolError
from wasmrt.core.places import find_places
from wasmrt.runtime.runtime import WasmToolRuntime


class _Typed:
    """Approves what somebody typed; a command that cannot be taken back is asked for all the same."""

    def __init__(self, tool: Tool, approver: Approver) -> None:
        self._tool = tool
        self._approver = approver

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a request."""
        if not self._tool.requires_approval(request.params):
            return ApprovalAnswer(approved=True, by="command line")
        answer = await self._approver.ask(request)
        if isinstance(self._approver, DenyApprover):
            why = self._tool.why(request.params) if isinstance(self._tool, ShellTool) else "it asks"
            note = f"{why}; run it at a terminal, where you are asked"
            return ApprovalAnswer(approved=False, note=note)
        return answer


def run_own(
    own: OwnTool,
    params: str | bytes,
    *,
    context: str | None,
    user: str,
    workspace: Path | None,
    typed: bool,
    as_json: bool,
) -> int:
    """Call a tool under the operator's policy, and print its result.

    `typed` says that a person wrote the params, and did not hand on a file or what another program printed.

    Raises:
        ToolError: it was refused, or failed.
        ConfigurationError: there is no workspace, or the operator has it switched off.
    """
    data, file = check_context(context), read_config_file(find_places().config)
    with open_runtime(workspace=workspace, receipts=True) as runtime:
        tools = _tools(own, runtime, file)
        approver = _configured_approver(file)
        if own.needs != "memory":
            approver = _Typed(tools[0], approver)
        with ToolRegistry(runtime, policy=file.policy, approver=approver) as registry:
            for tool in tools:
                registry.register(tool, builtin=True)
            trace = ""
            if typed and own.needs == "memory":
                trace = f"run-{os.urandom(6).hex()}"
                said = params if isinstance(params, str) else params.decode("utf-8", "replace")
                registry.trace(trace, user=user).user_said(said)  # what a person types is theirs, and no stranger's
            try:
                with status("opening the page") if own.name == "browser.open_url" else nullcontext():
                    output = interruptible(
                        runtime.close, lambda: registry.execute(own.name, params, user=user, data=data, trace=trace)
                    )
            except ToolError as error:
                is_denial = isinstance(error, NotAuthorizedError)  # its own sentence and hint tell it
                if not as_json and not is_denial:
                    show_denials(error.decisions, None)
                raise
    show_json(output.as_dict() if as_json else output.result)
    if own.name == "memory_write" and not as_json:
        _show_way_back(output.result, user)
    return 0


def _configured_approver(file: OperatorConfig) -> Approver:
    """Return the approver that the configuration file names, as every command asks it."""
    approver = approver_of(file.policy.approver, ApprovalStore(find_places().approvals))
    return Announcing(approver) if isinstance(approver, QueueApprover) else approver


def _tools(own: OwnTool, runtime: WasmToolRuntime, file: OperatorConfig) -> Sequence[Tool]:
    if own.needs == "memory":
        settings = runtime.config.memory_settings()
        if settings is None:
            hint = "set enabled = true in [memory] of the configuration file"
            raise ConfigurationError("the memory is switched off", hint=hint)
        return memory_tools(MemoryStore(settings), detector=runtime.detector)
    if own.name in DESKTOP_NAMES:
        from wasmrt.agent.builtin.desktop import desktop_tool  # few commands need it

        if own.name not in file.desktop.tools:
            raise ConfigurationError(f"{own.name} is off, as every tool for a desktop is", hint=missing_part(own, ()))
        return [desktop_tool(own.name, file.desktop, runtime.open_gateway)]
    if runtime.config.workspace is None:
        raise ConfigurationError("the shell needs a workspace", hint="name one with --workspace DIR")
    return [ShellTool(runtime.config.workspace, file.shell, network=runtime.config.network)]


def _show_way_back(result: dict[str, Any], user: str) -> None:
    """Say how to take a write back."""
    number, path = result["version"] - 1, result["path"]
    step = f"restore {quote(path)} {number}" if number else f"remove {quote(path)}"
    print_message(f"  to take that back: wasmrt memory {step}{'' if user == 'local' else f' --user {quote(user)}'}")
