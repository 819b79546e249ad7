"""The flow and plan steps of a call, which check it against the labels, the content and the plans of its trace."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from wasmrt.agent.flows import (
    Flow,
    FlowTrace,
    Label,
    Outgoing,
    PlannedCall,
    Provenance,
    Traced,
    derive_labels,
    find_outgoing,
    flow_texts,
    only_transforms,
    read_labels,
)
from wasmrt.agent.policy import Carries, FlowFinding, FlowPolicy, decide_flow, flow_policy
from wasmrt.agent.registry._registered import OWN_SOURCES
from wasmrt.agent.registry._state import CallState
from wasmrt.core.effects import NETWORKING, READING
from wasmrt.core.model import Decision, Reason
from wasmrt.core.setting_commands import append_command
from wasmrt.runtime.context import Progress

_WHAT = "tool.flow"
_SHOWN = 8
"""Maximum number of destinations whose origin an approval request shows."""
_BY_ITSELF = flow_policy("default")


def list_policies(state: CallState) -> tuple[FlowPolicy, ...]:
    """Return the flow policies that the operator and the presets of the view define for a call."""
    named = (state.services.policy.flows, *(preset.flows for preset in state.restrictions.presets))
    return tuple(policy for policy in named if policy is not None)


def list_rules(state: CallState) -> tuple[FlowPolicy, ...]:
    """Return the flow policies that apply to a call in an open trace: the configured ones, or else the default."""
    return list_policies(state) or (_BY_ITSELF,)


def trace_of(state: CallState) -> FlowTrace | None:
    """Return the trace of a call, or None if its flows are not tracked.

    Flows are tracked in traces that the program opened, and in every trace if flow rules are configured.
    """
    found = state.services.traces.find(state.request.user, state.request.trace)
    if found is None and any(policy.rules for policy in list_policies(state)):
        state.services.traces.open(state.request.user, state.request.trace)
        found = state.services.traces.find(state.request.user, state.request.trace)
    state.services.traces.read_shared(state.request.user, state.request.trace)
    return found


def is_checked(state: CallState) -> bool:
    """Return whether flow rules apply to a call: it changes something, or uses the network."""
    return bool(state.effects - READING or state.effects & NETWORKING)


def check_flow(state: CallState) -> Decision | str:
    """Decide by the flow rules. Some rules require approval of the call instead of denying it."""
    trace = trace_of(state)
    if trace is None:
        return "the trace was not opened, and no flow rules are configured"
    if not is_checked(state):
        return f"{_describe_labels(trace.labels)}; the call only reads"
    effects = state.effects
    known = tuple(name for policy in list_policies(state) for name in policy.known)
    state.flow = trace.flow(
        state.known.name, _find_outgoing(state), known, is_described=lambda value: bool(find_describing(state, value))
    )
    finding = decide_flow(list_rules(state), state.flow, effects, automation=trace.automation)
    name = state.known.name
    if finding is not None and state.planned is not None:
        finding = _decide_planned(state, state.planned, automation=trace.automation)
    if finding is None:
        rule = f"{_describe_labels(state.flow.labels)}; {_describe_destinations(state.flow)}"
        return Decision(True, Reason.ALLOWED, rule, None, _WHAT, name)
    state.finding = finding
    why = f"{finding.sentence}; {_describe_labels(state.flow.labels)}"
    if finding.refused:
        hint = f"have the user name the destination, or allow it: {append_command('tools.flows.known', 'DESTINATION')}"
        return Decision(False, Reason.UNTRUSTED_FLOW, why, hint, _WHAT, name)
    state.approval_needed = Decision(
        False, Reason.APPROVAL_REQUIRED, why, "the user has to approve it", "tool.approval", name
    )
    state.approved_by = None  # a rule that approves the call's effects does not approve its flow
    return f"approval is required: {why}"


def _decide_planned(state: CallState, planned: PlannedCall, *, automation: bool) -> FlowFinding | None:
    """Decide by the flow rules for a call that fits a plan.

    SECURITY: rules that deny calls still apply. If the plan allows texts of the model, the rules about links in these
    texts apply, too, and the rules about private text in them unless the plan allows private text. A destination whose
    value the plan fixes counts as named by the user for these rules, but not for the rules that deny calls.
    """
    assert state.flow is not None
    covered = frozenset(str(value).casefold() for value in planned.values)
    flow = replace(
        state.flow,
        destinations=tuple(
            replace(each, provenance=Provenance.SAID) if each.destination.param in planned.fixed else each
            for each in state.flow.destinations
        ),
        carried=tuple(each for each in state.flow.carried if str(each.destination.value).casefold() not in covered),
    )
    asking = {Carries.LINK} if planned.has_text else set()
    asking |= {Carries.PRIVATE} if planned.has_text and not planned.has_private else set()
    rules = list_rules(state)
    finding = decide_flow(rules, state.flow, state.effects, automation=automation, asking=())
    finding = finding or decide_flow(rules, flow, state.effects, automation=automation, asking=asking)
    if finding is None:
        state.approved_by = ("plan", planned.by, planned.name)
    return finding


def provenance_lines(state: CallState) -> tuple[str, ...]:
    """Return lines for the approver about the origin of the call's destinations.

    For each destination, they show the sentence that contains it, and the source of that sentence.
    """
    finding, trace = state.finding, state.services.traces.find(state.request.user, state.request.trace)
    if finding is None or trace is None:
        return ()
    lines = [line for each in finding.destinations[:_SHOWN] for line in _format_origins(state, trace, each)]
    if len(finding.destinations) > _SHOWN:
        lines.append(f"and {len(finding.destinations) - _SHOWN} more")
    if state.flow is not None and state.flow.private_body:
        lines.append("the payload includes private text read earlier in this trace")
    return tuple(lines)


def find_describing(state: CallState, value: object) -> str:
    """Return the name of another author's tool whose definition contains a value, or an empty string."""
    return state.services.definitions.find(state.services.store, value, called=state.known)


def _format_origins(state: CallState, trace: FlowTrace, traced: Traced) -> list[str]:
    tool = find_describing(state, traced.destination.value) if traced.provenance is Provenance.UNTRUSTED else ""
    if not tool:
        return origin_lines(trace, traced)
    return [f"{traced.named}: {_PROVENANCE[traced.provenance]}", f"  source: the definition of the tool {tool}"]


def origin_lines(trace: FlowTrace, traced: Traced) -> list[str]:
    """Return lines for the approver about one destination.

    They show its provenance, the sentence that contains it, and the source of that sentence.
    """
    origin = trace.origin(traced.destination)
    lines = [f"{traced.named}: {_PROVENANCE[traced.provenance]}"]
    if origin is not None:
        lines.append(f'  "{origin.sentence}"')
        lines.append(f"  source: {origin.tool or 'a text'}{f' (call {origin.call})' if origin.call else ''}")
    elif traced.provenance is Provenance.UNTRUSTED:
        lines.append("  in a text that is no longer stored completely")
    return lines


def approval_destinations(state: CallState) -> tuple[str, ...]:
    """Return the destinations of an approval request. The answer applies only to the same destinations."""
    return () if state.finding is None else tuple(each.named for each in state.finding.destinations)


def record_approval(state: CallState) -> None:
    """Record the destinations of an approved call. In later calls of the same tool in this trace, they are known."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    if trace is None or state.flow is None:
        return
    flow = state.flow if not state.edited else trace.flow(state.known.name, _find_outgoing(state))
    trace.approve(state.known.name, flow)


def record_written(state: CallState) -> None:
    """Record the text that a call writes, if its trace contains untrusted or private text."""
    traces = state.services.traces
    trace = traces.find(state.request.user, state.request.trace)
    if trace is None or state.effects <= READING or not trace.labels & {Label.UNTRUSTED, Label.PRIVATE}:
        return
    outgoing = _find_outgoing(state)
    for text in trace.select_text_to_mark(outgoing):
        traces.written.add(text)
    for text in trace.select_private_text_to_mark(outgoing):
        traces.private_written.add(text)


def get_trace_labels(state: CallState) -> frozenset[Label] | None:
    """Return the labels of the content of a call's trace, or None if the trace is not tracked."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    return None if trace is None else trace.labels


def record_result(state: CallState, result: Any, declared: Iterable[str] | None = None) -> None:
    """Add the result of a call, or the message of its failure, to the content of the trace.

    `declared` are the labels that the tool declares for this result. They are used only for tools of the program.
    """
    trace = state.services.traces.find(state.request.user, state.request.trace)
    if trace is None:
        return
    policy, name = state.services.policy, state.known.name
    own = None if declared is None or state.known.source not in OWN_SOURCES else read_labels(declared)
    labels = result_labels(state, trace.labels, result, own)
    # SECURITY: a result that follows from the params, such as a program's, is a choice of the model.
    computed = own is None and not _has_stated_labels(state) and only_transforms(state.effects)
    marked = own is not None and Label.UNTRUSTED in own
    texts = tuple(flow_texts(result))
    if Label.UNTRUSTED not in labels and (marked or any(map(state.services.traces.written.occurs_in, texts))):
        # SECURITY: untrusted text remains untrusted if one trace writes it to a file or memory and another reads it.
        labels = (labels | {Label.UNTRUSTED}) - {Label.TRUSTED}
    # SECURITY: likewise for private text. In a text from the network it was public, or has already been sent.
    may_add = Label.PRIVATE not in labels and not state.effects & NETWORKING
    if may_add and any(map(state.services.traces.private_written.occurs_in, texts)):
        labels |= {Label.PRIVATE}
    ids = state.tool.ids if state.known.source in OWN_SOURCES else ()
    ids = (*policy.find_id_parameters(state.known.names), *ids)
    vouched = policy.find_vouched_members(state.known.names)
    trace.saw(
        result, labels, tool=name, call=state.request.call_id, ids=ids, vouched=vouched, asked=state.params,
        computed=computed, lapses=state.effects <= READING,
    )  # fmt: skip
    state.services.traces.share(state.request.user, state.request.trace, labels)


def _has_stated_labels(state: CallState) -> bool:
    """Return whether the operator's rules, a data file, or a tool of the program itself fixes the labels of results."""
    own = state.known.source in OWN_SOURCES and state.tool.own.labels is not None
    return own or _find_declared_labels(state) is not None


def _find_declared_labels(state: CallState) -> frozenset[Label] | None:
    """Return the labels that the operator's rules, or else a data file, set for all results of the tool."""
    labels, declared = state.services.policy.find_result_labels(state.known.names), state.known.declaration
    return declared.results if labels is None and declared is not None else labels


def with_recorded_messages(state: CallState, report: Progress | None) -> Progress | None:
    """Return a function that reports the progress of a call, and adds its messages to the content of the trace."""
    if report is None:
        return None

    def record_and_report(done: int, total: int | None, message: str | None) -> None:
        if message:
            record_result(state, message)
        report(done, total, message)

    return record_and_report


def result_labels(
    state: CallState, seen: frozenset[Label], result: Any = None, declared: frozenset[Label] | None = None
) -> frozenset[Label]:
    """Return the labels of a call's result. If `result` is None, return the labels that any result can have.

    The labels come from the first of these sources that sets them: the operator's rules, a data file, the labels
    `declared` with this result, the labels that a tool of the program declares for all its results, and the effects of
    the call.
    """
    labels = _find_declared_labels(state)
    if labels is not None:
        return labels
    if declared is not None:
        return declared
    foreign = state.known.source not in OWN_SOURCES
    if not foreign and state.tool.own.labels is not None:
        return read_labels(state.tool.own.labels)
    unknown = any(rules.files_untrusted for rules in list_rules(state))
    foreign = foreign or bool(state.tool.untrusted_result(result))
    return derive_labels(state.effects, seen, foreign=foreign, files_untrusted=unknown)


def _find_outgoing(state: CallState) -> Outgoing:
    named = state.services.policy.find_destination_parameters(state.known.names)
    if named is None and state.known.source in OWN_SOURCES:
        named = state.tool.destinations
    declared = state.known.declaration
    content = declared.content if named is None and declared is not None and declared.matches else ()
    return find_outgoing(state.tool.schema, state.params, named, content)


_PROVENANCE = {
    Provenance.SAID: "named by the user",
    Provenance.KNOWN: "trusted by the operator, or approved before",
    Provenance.UNSAID: "found in no message of the user and in no text that was read",
    Provenance.UNTRUSTED: "found only in untrusted content",
}


def _describe_labels(labels: frozenset[Label]) -> str:
    return f"labels: {', '.join(sorted(labels)) or 'none'}"


def _describe_destinations(flow: Flow) -> str:
    """Return the provenance of the call's destinations, without their values."""
    listed = dict.fromkeys(f"{each.destination.param} ({each.provenance})" for each in flow.destinations)
    return f"destinations: {', '.join(listed) or 'those of its grant'}"


def find_plan_step(state: CallState) -> Decision | str:
    """Find the step of an approved plan that the call fits. The call is not counted."""
    traces, request = state.services.traces, state.request
    plans, trace = traces.plans(request.user, request.trace), traces.find(request.user, request.trace)
    if plans is None or trace is None or state.registered is None:
        return "the trace has no plan"
    # A call that only reads needs no approval by flow rules, so its values may come from anywhere.
    checked = is_checked(state)
    described = partial(find_describing, state)
    state.planned = plans.find(
        state.registered, state.params, state.effects,
        lambda value: checked and trace.is_untrusted(value, lambda each: bool(described(each))),
    )  # fmt: skip
    if state.planned is None:
        return "no plan of the trace covers the call"
    rule = f"{state.planned.name} covers the call, approved by {state.planned.by}"
    return Decision(True, Reason.ALLOWED, rule, None, "tool.plan", state.known.name)


def take_plan_step(state: CallState) -> bool:
    """Count a call that fits a plan. If its step was used up meanwhile, undo the approval and return False."""
    if state.planned is None:
        return True
    if state.approval_needed is not None:
        state.planned = None  # a person decides about this call
        return True
    plans = state.services.traces.plans(state.request.user, state.request.trace)
    if plans is not None and plans.take(state.planned):
        return True
    state.planned = state.approved_by = None
    return False


def record_plan_result(state: CallState, result: Any) -> None:
    """Add the result of a planned call as a source of values for later steps.

    SECURITY: the model chooses the params, and so also the result of a tool that only transforms its params. Such a
    result is not a source of values. A result is a source if the call had no params, for example the current time.
    """
    plans = state.services.traces.plans(state.request.user, state.request.trace)
    chosen = only_transforms(state.effects) and bool(state.params)
    if plans is not None and state.planned is not None and not chosen:
        plans.record(state.planned, state.params, result)
