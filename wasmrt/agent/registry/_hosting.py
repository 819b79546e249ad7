"""Functions for the parts of wasmrt that offer a registry's tools to other programs, such as the MCP server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from wasmrt.agent.approvals import ApprovalRequest, Approver
from wasmrt.agent.registry import _explain, _pipeline
from wasmrt.agent.registry._output import clean
from wasmrt.agent.registry._registry import ToolRegistry
from wasmrt.agent.registry._state import Caller, denial_error
from wasmrt.agent.registry._view import ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.core.model import Decision
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.runtime import WasmToolRuntime

_MCP = "mcp:"
"""The prefix of the groups with the tools of an MCP server."""


def clean_text(view: ToolView, text: str) -> str:
    """Return untrusted text for a model: sanitized under the safety policy, and without secrets."""
    return clean(view._services, text)


def preview_approval(
    view: ToolView, name: str, params: Any = None, *, user: str = "local", trace: str = ""
) -> ApprovalRequest | None:
    """Return the approval request that a call would cause, without making the call.

    Return None if the call requires no approval, a remembered answer applies, or the call would be denied.
    """
    return _explain.approval_preview(view._new_state(name, params, user, trace))


def refuse_call(
    view: ToolView, name: str, params: Any, decision: Decision, *, user: str, trace: str, client: str
) -> None:
    """Write the receipt of a call that the calling program denies."""
    state = view._new_state(name, params, user, trace, client=client)
    state.entry = view._services.store.find(name)
    state.decisions.append(decision._replace(policy=state.policy_digest))
    _pipeline.finish_failed(state, denial_error(decision))


def nested_registry(registry: ToolRegistry, runtime: WasmToolRuntime, approver: Approver) -> ToolRegistry:
    """Return a new, empty registry for a tool that makes calls itself.

    The new registry has its own tools and approver. It shares the policy, the rate limits, the leak and safety rules,
    and the receipts of `registry`, which contains the tool.
    """
    services = registry._services
    nested = ToolRegistry(
        runtime, policy=services.policy, approver=approver, rates=services.rates, detector=services.detector,
        safety=services.safety, receipts=services.receipts, telemetry=services.telemetry,
    )  # fmt: skip
    nested._services.hashed = services.hashed
    return nested


def record_event(view: ToolView, receipt: Receipt) -> None:
    """Write a receipt of an event that is not a call, such as a rejected message.

    Raises:
        ConfigurationError: the receipt cannot be written.
    """
    if view._services.receipts is not None:
        view._services.receipts(receipt)


def end_trace(view: ToolView, name: str, *, user: str) -> None:
    """End a conversation: remove its content, and revoke the access that was granted for it.

    Raises:
        ApprovalError: the access cannot be revoked, because its store cannot be written.
    """
    view._services.traces.end(user, name)


def end_with_call(registry: ToolRegistry) -> None:
    """Declare that the process ends after one call. Users can then not choose to grant access for the session."""
    registry._services.lasting = False


def absent_tools(registry: ToolRegistry) -> Mapping[str, str]:
    """Return the bundled tools that are unavailable, each with what a user can do to make it available."""
    return registry._services.store.absent


def bind_view(view: ToolView, caller: Caller) -> ToolView:
    """Return a view whose calls are made by a job or by a running tool. Approvals are requested as for other calls.

    Raises:
        ConfigurationError: the view already has a caller.
    """
    if view._caller is not None:
        raise ConfigurationError("the tools of a job cannot be used by another job", hint="pass a view of the registry")
    return ToolView(view._services, view._restrictions, caller)


def is_narrowed(view: ToolView, registry: ToolRegistry) -> bool:
    """Return whether a view has more restrictions than its registry.

    Raises:
        ConfigurationError: the view belongs to another registry.
    """
    if view._services is not registry._services:
        raise ConfigurationError("the view belongs to another registry", hint="pass a view of the registry of the jobs")
    return view._restrictions != registry._restrictions


def limit_servers(view: ToolView, registry: ToolRegistry, servers: Iterable[str]) -> ToolView:
    """Return a view without the tools of MCP servers other than `servers`.

    Raises:
        InvalidParametersError: the registry has no tools of a server.
    """
    entries, chosen = list(registry._services.store), set(servers)
    of_server = {entry.name: entry.group.removeprefix(_MCP) for entry in entries if entry.group.startswith(_MCP)}
    if unknown := sorted(chosen - set(of_server.values())):
        known = ", ".join(sorted(set(of_server.values()))) or "none"
        raise InvalidParametersError(f"no MCP server {unknown[0]!r:.60} has tools here; servers with tools: {known}")
    return view.only([entry.name for entry in entries if of_server.get(entry.name) in (None, *chosen)])


def detector_of(view: ToolView) -> LeakDetector:
    """Return the leak detector of a view's registry."""
    return view._services.detector
