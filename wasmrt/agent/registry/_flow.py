"""The step of a call that looks at its flow: what the trace has seen, where the call goes, and who said that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wasmrt.agent.flows import (
    Destination,
    Flow,
    FlowTrace,
    Label,
    Outgoing,
    Provenance,
    Traced,
    flow_texts,
    labels_of,
    outgoing,
    read_labels,
)
from wasmrt.agent.policy import Carries, FlowFinding, FlowPolicy, decide_flow, flow_policy
from wasmrt.agent.registry._state import CallState
from wasmrt.agent.registry._tool import ToolSource
from wasmrt.core.effects import NETWORKING, READING
from wasmrt.core.model import Decision, Reason

_WHAT = "tool.flow"
_SHOWN = 8
"""Destinations of which a question tells where they came from."""
_BY_ITSELF = flow_policy("default")
OWN_SOURCES = (ToolSource.BUILTIN, ToolSource.FUNCTION)
"""Sources whose code the program wrote: no stranger's, and what it says of itself counts."""


def policies_of(state: CallState) -> tuple[FlowPolicy, ...]:
    """Return the rules over flows that are for a call: those of the operator and of every preset of the view."""
    named = (state.services.policy.flows, *(preset.flows for preset in state.restrictions.presets))
    return tuple(policy for policy in named if policy is not None)


def rules_of(state: CallState) -> tuple[FlowPolicy, ...]:
    """Return the rules over flows that a call of an opened trace is held to."""
    return policies_of(state) or (_BY_ITSELF,)


def trace_of(state: CallState) -> FlowTrace | None:
    """Return the trace that a call belongs to; None where flows are not looked at.

    A trace that the program opened is looked at. Where the operator names rules over flows, every one is.
    """
    found = state.services.traces.find(state.request.user, state.request.trace)
    if found is None and any(policy.rules for policy in policies_of(state)):
        state.services.traces.open(state.request.user, state.request.trace)
        found = state.services.traces.find(state.request.user, state.request.trace)
    return found


def check_flow(state: CallState) -> Decision | str:
    """Decide by the rules over flows; a rule that asks has a person approve the call."""
    trace = trace_of(state)
    if trace is None:
        return "nobody opened the trace, and no rules over flows are named"
    effects = state.effects
    if not effects - READING and not effects & NETWORKING:
        return f"{_seen(trace.labels)}; the call only reads"
    known = tuple(name for policy in policies_of(state) for name in policy.known)
    state.flow = trace.flow(state.known.name, _outgoing(state), known)
    finding = decide_flow(rules_of(state), state.flow, effects, automation=trace.automation)
    name = state.known.name
    if finding is None:
        return Decision(True, Reason.ALLOWED, f"{_seen(state.flow.labels)}; {_goes(state.flow)}", None, _WHAT, name)
    state.finding, state.linked = finding, _links_beside(state, trace, finding)
    said = f"{finding.sentence}; {_seen(state.flow.labels)}"
    if finding.refused:
        hint = "have the person name it (trace.user_said), or name it under known in [tools.flows]"
        return Decision(False, Reason.UNTRUSTED_FLOW, said, hint, _WHAT, name)
    state.approval_needed = Decision(
        False, Reason.APPROVAL_REQUIRED, said, "a person has to approve it", "tool.approval", name
    )
    state.approved_by = None  # a rule that approves what effects ask for does not speak of this
    return f"a person is asked: {said}"


def provenance_lines(state: CallState) -> tuple[str, ...]:
    """Return for a person where the destinations of a call came from: the sentence, and the call that brought it."""
    finding, trace = state.finding, state.services.traces.find(state.request.user, state.request.trace)
    if finding is None or trace is None:
        return ()
    lines = [line for each in finding.destinations[:_SHOWN] for line in origin_lines(trace, each)]
    if len(finding.destinations) > _SHOWN:
        lines.append(f"and {len(finding.destinations) - _SHOWN} more")
    if state.linked:
        lines.append("a yes is for reading these links of the same text as well:")
        lines += [f"  {each.value}" for each in state.linked]
    if state.flow is not None and state.flow.private_body:
        lines.append("what is sent holds a part of what this trace read of private text")
    return tuple(lines)


def origin_lines(trace: FlowTrace, traced: Traced) -> list[str]:
    """Return for a person where a destination came from: who said it, the sentence, and the call that brought it."""
    origin = trace.origin(traced.destination)
    lines = [f"{traced.named}: {_PROVENANCE[traced.provenance]}"]
    if origin is not None:
        lines.append(f'  "{origin.sentence}"')
        lines.append(f"  brought by {origin.tool or 'a text'}{f', call {origin.call}' if origin.call else ''}")
    elif traced.provenance is Provenance.UNTRUSTED:
        lines.append("  in a text that is no longer kept whole")
    return lines


def _links_beside(state: CallState, trace: FlowTrace, finding: FlowFinding) -> tuple[Destination, ...]:
    """Return the links that a yes is for besides: those that stand beside the one that a call only reads."""
    if finding.rule.carries is not Carries.HOST or not state.effects <= READING:
        return ()
    if len(finding.destinations) != 1 or _outgoing(state).bodies:
        return ()
    return trace.links_beside(finding.destinations[0])


def asked_destinations(state: CallState) -> tuple[str, ...]:
    """Return the destinations that a question is about, as an answer is bound to them."""
    if state.finding is None:
        return ()
    beside = (f"beside it {each.value}" for each in state.linked)
    return (*(each.named for each in state.finding.destinations), *beside)


def approved(state: CallState) -> None:
    """Remember the destinations of a call that a person approved: in this trace they are known."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    if trace is None or state.flow is None:
        return
    flow = state.flow if not state.edited else trace.flow(state.known.name, _outgoing(state))
    trace.approve(state.known.name, (*flow.destinations, *flow.carried))
    # SECURITY: a token, an answer that was given before, and one to other params are for no links that nobody saw.
    if state.answer is not None and not state.answer.remembered and not state.edited:
        trace.approve_links(state.known.name, state.linked)


def wrote(state: CallState) -> None:
    """Remember what a call writes down, where its trace has seen strangers' text."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    if trace is None or state.effects <= READING or Label.UNTRUSTED not in trace.labels:
        return
    for text in trace.written(_outgoing(state)):
        state.services.traces.written.add(text)


def labels_seen(state: CallState) -> frozenset[Label] | None:
    """Return the labels of what the trace of a call has seen; None where nobody keeps track of it."""
    trace = state.services.traces.find(state.request.user, state.request.trace)
    return None if trace is None else trace.labels


def saw(state: CallState, result: Any, told: Iterable[str] | None = None) -> None:
    """Take what a call answered, or how it failed, into what its trace has seen.

    `told` are the labels that the tool itself gives its result; they count where the program wrote the tool.
    """
    trace = state.services.traces.find(state.request.user, state.request.trace)
    if trace is None:
        return
    policy, name = state.services.policy, state.known.name
    own = None if told is None or state.known.source not in OWN_SOURCES else read_labels(told)
    labels = result_labels(state, trace.labels, result, own)
    marked = own is not None and Label.UNTRUSTED in own
    if Label.UNTRUSTED not in labels and (marked or any(map(state.services.traces.written.is_in, flow_texts(result)))):
        # SECURITY: a file, a memory or a service between two traces makes nobody's word of a stranger's.
        labels = (labels | {Label.UNTRUSTED}) - {Label.TRUSTED}
    ids = state.tool.ids if state.known.source in OWN_SOURCES else ()
    ids = (*policy.ids_for(name), *ids)
    vouched = policy.vouched_for(name)
    trace.saw(result, labels, tool=name, call=state.request.call_id, ids=ids, vouched=vouched, asked=state.params)


def result_labels(
    state: CallState, seen: frozenset[Label], result: Any = None, told: frozenset[Label] | None = None
) -> frozenset[Label]:
    """Return the labels of a call's result, of any that it could have where there is none yet.

    It is the operator's word, else that of our own tool, else by its effects. `told` is the tool's word on this result.
    """
    labels = state.services.policy.results_for(state.known.name)
    if labels is not None:
        return labels
    if told is not None:
        return told
    foreign = state.known.source not in OWN_SOURCES
    if not foreign and state.tool.own.labels is not None:
        return read_labels(state.tool.own.labels)
    unknown = any(rules.files_untrusted for rules in rules_of(state))
    foreign = foreign or bool(state.tool.untrusted_result(result))
    return labels_of(state.effects, seen, foreign=foreign, files_untrusted=unknown)


def _outgoing(state: CallState) -> Outgoing:
    named = state.services.policy.destinations_for(state.known.name)
    if named is None and state.known.source in OWN_SOURCES:
        named = state.tool.destinations
    return outgoing(state.tool.schema, state.params, named)


_PROVENANCE = {
    Provenance.SAID: "the person said it",
    Provenance.KNOWN: "the operator vouches for it, or it was approved before",
    Provenance.UNSAID: "nobody said it, and no text that was read holds it",
    Provenance.UNTRUSTED: "nobody said it but a text that a stranger could write",
}


def _seen(labels: frozenset[Label]) -> str:
    return f"seen: {', '.join(sorted(labels)) or 'nothing'}"


def _goes(flow: Flow) -> str:
    """Return where the destinations of a call came from, without their values."""
    said = dict.fromkeys(f"{each.destination.param} {each.provenance}" for each in flow.destinations)
    return f"goes to: {', '.join(said) or 'where its grant leads'}"
