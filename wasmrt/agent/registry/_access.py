"""Request access if something was denied to a component because its grant lacks an entry.

Before a call, the entries of granted requests are added to the grant of the call. After the call, denials become access
requests if the policy allows that. Only `wasmrt.answer_access` answers requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from wasmrt.agent.access import AccessRequest, AccessScope, Caller, DeniedAccess, grant_digest
from wasmrt.agent.approvals import params_digest
from wasmrt.agent.flows import Destination, Kind, Outgoing
from wasmrt.agent.registry import _flow, _steps
from wasmrt.agent.registry._state import CallState, denial_error
from wasmrt.capabilities import (
    Capabilities,
    HttpCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    covers,
    effects_of,
    find_missing_entries,
    within_write_paths,
)
from wasmrt.capabilities.model import remove_covered
from wasmrt.capabilities.sentences import explain
from wasmrt.core.errors import (
    AccessRequestedError,
    ApprovalError,
    ConfigurationError,
    GuestError,
    GuestOutputError,
    InstallError,
    NotAuthorizedError,
    ToolError,
    TrapError,
)
from wasmrt.core.limits import MAX_ACCESS_PARAMS_BYTES, MAX_ACCESS_PER_CALL
from wasmrt.core.model import Addition, Decision, Reason
from wasmrt.runtime.prepared import PreparedTool

_WHAT = "tool.access"
_NOTHING_MORE = "no additional access is granted"
_MAX_LOOKED_AT = 16
"""Maximum number of missing entries that are considered for one call. A tool could cause hundreds of denials."""
_KINDS = {
    HttpCapability.grant_list: Kind.URL,
    WorkspaceCapability.grant_list: Kind.PATH,
    WorkspaceWriteCapability.grant_list: Kind.PATH,
}


def add_granted(state: CallState) -> str:
    """Add the entries of granted requests to the grant of a call. The registered tool remains unchanged.

    Raises:
        UnknownToolError: the tool is not installed any more.
        NotAuthorizedError: a granted entry cannot be added to the current grant.
    """
    store, refresh = state.services.access, state.services.refresh
    if store is None or not isinstance(state.known.tool, PreparedTool):
        return "access requests do not apply"
    try:
        if not store.answers(state.request.user, state.known.name):  # the usual case, before anything is hashed
            return _NOTHING_MORE
        found = store.granted(_build_caller(state))
        if refresh is not None and any(each.scope is AccessScope.KEEP for each in found):
            refresh()  # the entry is in the catalog, where it may have been revoked since
            _steps.look_up(state)
            found = tuple(each for each in store.granted(_build_caller(state)) if each.scope is not AccessScope.KEEP)
    except (ApprovalError, InstallError):
        found = ()  # an unreadable store or catalog grants nothing
    if not found:
        return _NOTHING_MORE
    entry, state.granted_access = state.known, found
    try:
        state.entry = entry.with_added_grant(tuple(dict.fromkeys(each for one in found for each in one.additions)))
    except ConfigurationError as error:
        rule = f"the granted access cannot be added to the tool's grant: {error.message}"
        raise denial_error(Decision(False, Reason.NOT_GRANTED, rule, error.hint, _WHAT, entry.name)) from error
    _steps.derive(state)
    return "; ".join(_describe_granted(each) for each in found)


def redeem_granted(state: CallState) -> None:
    """Use up the one-time access of a call right before it runs. Record a decision for all granted access that applies.

    Raises:
        NotAuthorizedError: another call has already used the one-time access.
    """
    store, name = state.services.access, state.known.name
    for each in state.granted_access:
        if store is None or not store.use(each):
            rule = "the access was granted for one call, and another call has used it"
            state.apply(Decision(False, Reason.NOT_GRANTED, rule, "call the tool again", _WHAT, name))
        state.apply(Decision(True, Reason.ALLOWED, _describe_granted(each), None, _WHAT, name))


def _describe_granted(granted: AccessRequest) -> str:
    lines = "; ".join(addition.hint for addition in granted.additions)
    return f"granted {granted.scope} by {granted.by}: {lines}"


def with_access_requests(state: CallState, failure: ToolError) -> ToolError:
    """Request the access that a failed call lacked. Return an `AccessRequestedError`, or the original failure."""
    if not isinstance(failure, (GuestError, TrapError, GuestOutputError, NotAuthorizedError)):
        return failure  # a deadline or a cancellation must be reported unchanged
    requests = request_access(state, failure.decisions, failure.call_id or state.request.call_id)
    if not requests:
        return failure
    error = AccessRequestedError(requests)
    error.call_id, error.usage, error.logs, error.decisions = (
        failure.call_id, failure.usage, failure.logs, failure.decisions,
    )  # fmt: skip
    error.__cause__ = failure
    return error


def request_access(state: CallState, decisions: Iterable[Decision], call: str) -> tuple[str, ...]:
    """Request the access that a call lacked, and return the IDs of the pending requests."""
    services, entry = state.services, state.entry
    if services.access is None or entry is None or not isinstance(entry.tool, PreparedTool):
        return ()
    refused = dict(islice(find_missing_entries(decisions).items(), _MAX_LOOKED_AT))
    if not refused or not services.policy.asks_for_access or _is_unattended(state):
        return ()
    asked_for: dict[str, None] = {}
    helping = (
        each for each in remove_covered(refused, lambda one, other: covers(other, one)) if _could_help(state, each)
    )
    for addition in islice(helping, MAX_ACCESS_PER_CALL):
        try:
            request = services.access.ask(
                _build_caller(state), _build_denied_access(state, addition, refused[addition], call)
            )
        except ApprovalError:  # the store cannot be written, so the denial is final
            continue
        if request is not None:
            asked_for[request.id] = None
    state.access_requests = tuple(asked_for)
    return state.access_requests


def _is_unattended(state: CallState) -> bool:
    """Return whether the operator or the program declared the call as unattended."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    return (trace is not None and trace.automation) or any(each.automation for each in _flow.list_policies(state))


def _could_help(state: CallState, addition: Addition) -> bool:
    """Return whether the call would be allowed if the entry were granted. If not, access is not requested.

    SECURITY: an answer cannot grant access that a view or a preset denies.
    """
    if any(covers(known, addition) for one in state.granted_access for known in one.additions):
        return False  # the entry was granted already, so the denial has another reason
    try:
        grown = (
            state.known.with_added_grant((addition,)) if addition.to != ToolInvokeCapability.grant_list else state.known
        )
        alone = Capabilities.none().with_addition(addition)
        for paths in state.restrictions.write_paths if addition.to == WorkspaceWriteCapability.grant_list else ():
            writing = within_write_paths(alone, paths).section(addition.to.section)
            if writing is None or writing.is_empty():
                return False
    except ConfigurationError:
        return False
    probe = replace(state, entry=grown, decisions=[], approval_needed=None, approved_by=None)
    _steps.derive(probe)
    checks = (
        _steps.check_view, _steps.check_filter, _steps.check_preset, _steps.check_rules, _steps.check_exfiltration,
    )  # fmt: skip
    if not all(each.allowed for check in checks if isinstance(each := check(probe), Decision)):
        return False
    held = (
        probe.traits.effects
        & probe.view_effects
        & state.restrictions.get_sandbox_effects(state.services.policy.guard, grown.names)
    )
    return addition.to == ToolInvokeCapability.grant_list or effects_of(alone) <= held


def _build_caller(state: CallState) -> Caller:
    entry = state.registered
    assert entry is not None
    return Caller(
        user=state.request.user, trace=state.request.trace, session=state.services.session, tool=entry.name,
        digest=entry.digest, grant=entry.grant_digest, params_digest=params_digest(state.params),
        client=state.request.client,
    )  # fmt: skip


def _build_denied_access(state: CallState, addition: Addition, decision: Decision, call: str) -> DeniedAccess:
    entry = state.registered
    assert entry is not None
    tool = entry.tool
    assert isinstance(tool, PreparedTool)
    clean, (component, grant, part) = state.services.detector.redact, tool.component
    text = json.dumps(state.params, ensure_ascii=False, indent=2)
    params = clean(text[: 2 * MAX_ACCESS_PARAMS_BYTES])  # redact before truncating, so that no secret is cut in two
    cut = params.encode("utf-8", "replace")[:MAX_ACCESS_PARAMS_BYTES].decode("utf-8", "ignore")
    return DeniedAccess(
        addition=addition,
        again=tuple(added for one in state.granted_access if one.scope is AccessScope.ONCE for added in one.additions),
        sentences=_explain_entry(grant, addition),
        limited=_explain_consequences(grant, addition, component, entry.name),
        refused=f"{decision.subject or decision.capability} ({decision.reason}: {decision.rule})",
        origins=_describe_origins(state, addition, decision),
        params=cut if cut == params and len(text) <= 2 * MAX_ACCESS_PARAMS_BYTES else f"{cut}\n... cut",
        call=call,
        component=component if tool.installed else "",
        part=part if grant.tools is not None else None,
        lasting=state.services.lasting,
        stored_grant=grant_digest(grant),
    )


def _explain_entry(grant: Capabilities, addition: Addition) -> tuple[str, ...]:
    """Return sentences that explain an entry, with the limits in the grant to which the entry would be added."""
    alone = Capabilities.none().with_addition(addition)
    alone = alone.with_numbers_of(grant)
    return tuple(sentence for sentence in explain(alone) if not sentence.startswith("may not"))


def _explain_consequences(grant: Capabilities, addition: Addition, component: str, name: str) -> tuple[str, ...]:
    """Return sentences about consequences of an entry that depend on the rest of the grant."""
    lines = []
    if addition.to == HttpCapability.grant_list and grant.http is not None and grant.http.credentials:
        names = ", ".join(dict.fromkeys(each.secret_name for each in grant.http.credentials))
        lines.append(f"requests to the hosts of the tool's credentials carry these secrets: {names}")
    if component != name and grant.tools is None:
        lines.append(f"granted permanently, it applies to every tool of {component}; for a session, only to this tool")
    if addition.to == ToolInvokeCapability.grant_list:
        lines.append("you choose the tool that is invoked; that tool runs under its own grant")
    return tuple(lines)


def _describe_origins(state: CallState, addition: Addition, decision: Decision) -> tuple[str, ...]:
    """Return lines about the origin of the host or path in an entry, for example the user or untrusted text."""
    trace, kind = state.services.traces.find(state.request.user, state.request.trace), _KINDS.get(addition.to)
    if kind is None:
        return ("the tool itself requested the entry",)
    value = decision.subject.rpartition(" ")[2] if kind is Kind.URL else decision.subject
    value = value.removesuffix("...")  # the mark of a truncated value
    if trace is None:
        return ("the origin is unknown, because the flows of this conversation are not tracked",)
    known = tuple(name for policy in _flow.list_policies(state) for name in policy.known)
    destination = Destination(str(kind), value, kind)
    flow = trace.flow(state.known.name, Outgoing((destination,), ()), known)
    return tuple(line for each in flow.destinations for line in _flow.origin_lines(trace, each))


def access_note(state: CallState) -> str:
    """Return a note for the model if access was requested during a successful call, otherwise an empty string."""
    text = "part of this call was denied; access was requested, and the same call may do more once it is granted"
    return f"\n({text})" if state.access_requests else ""
