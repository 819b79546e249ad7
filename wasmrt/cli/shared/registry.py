"""Open the configured tool registry for one command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from wasmrt.agent.approvals import (
    ApprovalAnswer,
    ApprovalRequest,
    ApprovalStore,
    Approver,
    DenyApprover,
    QueueApprover,
)
from wasmrt.agent.builtin.shell import ShellTool
from wasmrt.agent.config import read_config_file
from wasmrt.agent.loading import load_registry, make_announcer, make_approver
from wasmrt.agent.policy import NO_TIGHTENING, ApproverKind, Permission, ToolPolicy, flow_policy
from wasmrt.agent.registry import Tool, ToolRegistry
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.progress import status
from wasmrt.core.errors import WasmrtError
from wasmrt.core.model import Decision
from wasmrt.core.places import find_places
from wasmrt.runtime.config import WasmRuntimeConfig
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import store_place

_MAX_REASONS = 20
_MAX_NAMES = 5


class AnnouncingApprover:
    """Prints the command that answers a request, then passes the request to another approver."""

    def __init__(self, approver: Approver) -> None:
        self._approver = approver

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Print the command that answers the request, then ask the other approver."""
        print_message(f"{request.tool} awaits approval: wasmrt approvals approve {request.id}")
        return await self._approver.ask(request)


class TypedCallApprover:
    """Approves a call that the user typed, unless a rule, the tool's package or the tool requires approval of it.

    SECURITY: typing a call with its parameters approves its effects. An approval is still requested if the operator (by
    a rule or flow policy), the tool's author, or the tool itself (for these parameters) requires one.
    """

    def __init__(self, tool: Tool, policy: ToolPolicy, approver: Approver) -> None:
        self._tool = tool
        self._approver = approver
        self._ruled = (
            policy.find_permission(tool.name) is Permission.ASK or policy.find_restrictions(tool.name) != NO_TIGHTENING
        )
        flows = (policy.flows, *(preset.flows for preset in policy.presets.values()))
        self._asks = self._ruled or tool.default_permission == Permission.ASK or any(flows)

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Answer a request."""
        if not self._asks and not self._tool.requires_approval(request.params):
            return ApprovalAnswer(approved=True, by="command line")
        answer = await self._approver.ask(request)
        if isinstance(self._approver, DenyApprover) and isinstance(self._tool, ShellTool) and not self._ruled:
            return ApprovalAnswer(approved=False, note=f"{self._tool.describe_reason(request.params)}; {answer.note}")
        return answer


class _NoTerminalApprover(DenyApprover):
    """Denies requests of a command without a terminal. The note says how the user can be asked."""

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Deny the request."""
        note = "run the command on a terminal to be asked"
        return ApprovalAnswer(approved=False, note=note)


def command_approver(policy: ToolPolicy) -> Approver:
    """Return the configured approver for one command; a queue prints its requests."""
    store = ApprovalStore(store_place(find_places().approvals), announce=make_announcer(policy))
    approver = make_approver(policy.approver, store)
    if isinstance(approver, QueueApprover):
        return AnnouncingApprover(approver)
    is_without_terminal = policy.approver is ApproverKind.AUTO and isinstance(approver, DenyApprover)
    return _NoTerminalApprover() if is_without_terminal else approver


@contextmanager
def open_registry(
    *,
    workspace: Path | None = None,
    called: str = "",
    typed: bool = False,
    config: Path | None = None,
    flows: str | None = None,
) -> Iterator[ToolRegistry]:
    """Open the configured registry for one command, and print which tools cannot be used.

    If the command calls a tool, only the problems of that tool and of its server are printed. With `typed`, the
    registry is for a call that the user types, see `ToolPolicy.for_typed_calls`. `config` is a file whose policy
    replaces the configured one, and `flows` a preset that replaces the flow rules.
    """
    policy = read_config_file(config or find_places().config).policy
    policy = policy if flows is None else replace(policy, flows=flow_policy(flows))
    policy = policy.for_typed_calls() if typed else policy
    settings = {} if workspace is None else {"workspace": workspace}
    with WasmToolRuntime(WasmRuntimeConfig.load(**settings)) as runtime:
        with status("preparing the tools"):
            registry = load_registry(runtime, policy=policy, approver=command_approver(policy))
        with registry:
            register_configured_servers(registry)
            registry.check_rules()
            print_problems(registry.problems, called)
            yield registry


def print_problems(problems: Mapping[str, WasmrtError], called: str = "") -> None:
    """Print why tools cannot be used, with the command that helps: one line for all refused tools of a server."""
    refused: dict[str | None, list[str]] = {}
    for name, error in problems.items():
        if called and called != name and not called.startswith((f"{name}_", f"{name}.")):
            continue
        if error.code == "mcp-tool" and not called:
            refused.setdefault(error.hint, []).append(name)
        else:
            print_message(f"{name} cannot be used: {error.message}" + (f"; {error.hint}" if error.hint else ""))
    for hint, names in refused.items():
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        print_message(f"{', '.join(names[:_MAX_NAMES])}{more} cannot be used; for the reasons: {hint}")


def print_refusals(refusals: Mapping[str, Decision], what: str) -> None:
    """Print why tools are hidden, with the suggested fix: one line for tools with the same reason and fix."""
    groups: dict[str, list[str]] = {}
    for name, decision in refusals.items():
        reason = f"{what}: {decision.rule}" + (f"; {decision.hint}" if decision.hint else "")
        groups.setdefault(reason, []).append(name)
    for reason, names in islice(groups.items(), _MAX_REASONS):
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        print_message(f"{', '.join(names[:_MAX_NAMES])}{more} {reason}")
    if len(groups) > _MAX_REASONS:
        print_message("more tools are hidden; for the reason: wasmrt policy explain NAME")


def register_configured_servers(registry: ToolRegistry) -> None:
    """Register the tools of the configured MCP servers; the registry closes the servers.

    Raises:
        ConfigurationError: a server's configuration cannot be used, or the MCP package is not installed.
    """
    places = find_places()
    if places.mcp_servers.exists() or (places.config.exists() and read_config_file(places.config).extensions.hosts):
        from wasmrt.interop.mcp.client import add_configured_servers  # the SDK takes 0.3 s to import

        add_configured_servers(registry)
