"""Flow rules require approval for calls, depending on the trace's labels and the provenance of destinations."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from blake3 import blake3

from wasmrt.agent.flows import Flow, Kind, Label, Provenance, Traced
from wasmrt.core.effects import READING, Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

_CHANGING = frozenset(Effect) - READING
_WRITES = _CHANGING - {Effect.WRITE_FILESYSTEM}
OUTGOING = _WRITES - {Effect.DELETE_FILESYSTEM, Effect.WRITE_MEMORY}
"""Effects that can send data, or that could benefit the author of untrusted text."""
_GRAVE = frozenset(
    {Effect.DELETE_FILESYSTEM, Effect.EXECUTE_CODE, Effect.SPAWN_PROCESS, Effect.MODIFY_TOOLS, Effect.CONTROL_DESKTOP}
)
"""Effects that destroy data, run code, change tools or act as the user. A tool that declares no effects has all."""
_BOTH = frozenset({Label.UNTRUSTED, Label.PRIVATE})
_NOT_NAMED = frozenset({Provenance.UNSAID, Provenance.UNTRUSTED})


class FlowAction(StrEnum):
    """The action of a flow rule for matching calls."""

    ALLOW = "allow"
    """The rule is disabled."""
    ASK = "ask"
    REFUSE = "refuse"


class Carries(StrEnum):
    """The content of a call that a flow rule checks in addition to its destinations."""

    ANYTHING = "anything"
    PRIVATE = "private"
    """The payload includes private text."""
    LINK = "link"
    """The payload includes a link or an address with the provenance that the rule lists."""
    HOST = "host"
    """The call sends a request to a host. The path and the query of the request can carry data, too."""
    ACTION = "action"
    """The user did not request the call: see `_is_requested`."""
    VALUE = "value"
    """A destination or control has the provenance that the rule lists, or the user named none of these values."""
    HIDDEN = "hidden"
    """A destination is a hidden file, or below a hidden folder or the home folder: `.bashrc`, `~/.ssh/config`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """A rule for calls that have one of `effects`, if the trace has all `labels` and a destination has `provenance`."""

    name: str
    why: str
    """The reason, worded as the rest of a sentence that begins with the matching values."""
    effects: frozenset[Effect]
    labels: frozenset[Label] = frozenset()
    provenance: frozenset[Provenance]
    """A destination matches if its provenance is listed here. Empty for a rule that does not depend on destinations."""
    carries: Carries = Carries.ANYTHING
    action: FlowAction = FlowAction.ASK

    def find_destinations(self, flow: Flow, effects: frozenset[Effect]) -> tuple[Traced, ...] | None:
        """Return the destinations of a call that match the rule, or None if the rule does not apply to the call.

        The result is empty if the rule applies to the whole call and not because of a particular destination.
        """
        if self.action is FlowAction.ALLOW or not effects & self.effects or not self.labels <= flow.labels:
            return None
        if self.carries is Carries.ACTION:
            return None if _is_requested(flow, grave=bool(effects & _GRAVE)) else flow.destinations
        if not self.provenance:
            return flow.destinations
        if self.carries is Carries.VALUE:
            values = (*flow.destinations, *flow.controls)
            found = tuple(each for each in self._with_listed_provenance(values) if not _is_unsaid_time(each))
            said = any(each.provenance is Provenance.SAID for each in values)
            return found or (None if said else flow.destinations)
        if self.carries is Carries.HIDDEN:
            return tuple(each for each in self._with_listed_provenance(flow.destinations) if each.is_hidden) or None
        if self.carries is Carries.LINK:
            return self._with_listed_provenance(flow.carried) or None
        if self.carries is Carries.HOST:
            return (
                self._with_listed_provenance(each for each in flow.destinations if each.destination.kind is Kind.URL)
                or None
            )
        found = self._with_listed_provenance(flow.destinations)
        if self.carries is Carries.ANYTHING:
            found += tuple(each for each in flow.controls if each.provenance is Provenance.UNTRUSTED)
        if self.carries is Carries.PRIVATE:
            fixed = not flow.destinations or flow.guessed_all
            # SECURITY: the recipient's program may send the private text on to an address in the payload.
            found += self._with_listed_provenance(each for each in flow.carried if not each.provenance.vouched)
            return found if flow.private_body and (found or fixed) else None
        if _has_trusted_destination(flow):
            found = tuple(each for each in found if not _is_unsaid_name(each))
        return found or (() if flow.cut else None)

    def _with_listed_provenance(self, traced: Iterable[Traced]) -> tuple[Traced, ...]:
        return tuple(each for each in traced if each.provenance in self.provenance)


def _has_trusted_destination(flow: Flow) -> bool:
    """Return whether the user or the operator named at least one of the possible destinations."""
    return any(each.provenance.vouched for each in flow.destinations)


def _is_requested(flow: Flow, *, grave: bool) -> bool:
    """Return whether the user requested a call: stated the call's action, or one of the destinations is trusted.

    SECURITY: for grave effects, the user must have stated the action and named every destination. Otherwise, untrusted
    text could choose a different object of the user.
    """
    if grave:
        return flow.stated and all(each.provenance is Provenance.SAID for each in flow.destinations)
    return flow.stated or _has_trusted_destination(flow)


def _is_unsaid_name(traced: Traced) -> bool:
    return traced.destination.kind is Kind.NAME and traced.provenance is Provenance.UNSAID


def _is_unsaid_time(traced: Traced) -> bool:
    """Return whether a value is an unsaid date or time, which cannot be a recipient or an amount."""
    return traced.destination.kind is Kind.TIME and traced.provenance is Provenance.UNSAID


UNTRUSTED_DESTINATION = FlowRule(
    name="untrusted-destination", why="was found only in untrusted content",
    effects=_WRITES, labels=frozenset({Label.UNTRUSTED}), provenance=frozenset({Provenance.UNTRUSTED}),
)  # fmt: skip
UNSAID_DESTINATION = FlowRule(
    name="unsaid-destination", why="was not named by the user, and the trace contains private and untrusted text",
    effects=OUTGOING, labels=_BOTH, provenance=_NOT_NAMED,
)  # fmt: skip
NEW_HOST = FlowRule(
    name="new-host", why="is a host that the user did not name, and the trace contains private and untrusted text",
    effects=frozenset({Effect.NETWORK}), labels=_BOTH, provenance=_NOT_NAMED, carries=Carries.HOST,
)  # fmt: skip
PRIVATE_BODY = FlowRule(
    name="private-body", why="would receive private text, and the user did not name it in this trace",
    effects=OUTGOING, labels=frozenset({Label.PRIVATE}), provenance=_NOT_NAMED | {Provenance.KNOWN},
    carries=Carries.PRIVATE,
)  # fmt: skip
CARRIED_LINK = FlowRule(
    name="carried-link", why="would be sent on, and was found in untrusted content",
    effects=OUTGOING, labels=frozenset({Label.UNTRUSTED}), provenance=frozenset({Provenance.UNTRUSTED}),
    carries=Carries.LINK,
)  # fmt: skip
DELETION = FlowRule(
    name="deletion", why="would be deleted, the user did not state that, and the trace contains untrusted text",
    effects=frozenset({Effect.DELETE_FILESYSTEM}), labels=frozenset({Label.UNTRUSTED}), provenance=frozenset(),
    carries=Carries.ACTION,
)  # fmt: skip
PAYMENT = FlowRule(
    name="payment", why="is part of a payment, and the user did not name it",
    effects=frozenset({Effect.FINANCIAL}), labels=frozenset({Label.UNTRUSTED}), provenance=_NOT_NAMED,
    carries=Carries.VALUE,
)  # fmt: skip
UNSTATED_ACTION = FlowRule(
    name="unstated-action", why="would be affected, the user did not state that, and the trace contains untrusted text",
    effects=OUTGOING, labels=frozenset({Label.UNTRUSTED}), provenance=frozenset(), carries=Carries.ACTION,
)  # fmt: skip
HIDDEN_FILE = FlowRule(
    name="hidden-file", why="is a hidden file or folder that the user did not name, and the trace has untrusted text",
    effects=frozenset({Effect.WRITE_FILESYSTEM}), labels=frozenset({Label.UNTRUSTED}), provenance=_NOT_NAMED,
    carries=Carries.HIDDEN,
)  # fmt: skip
_DEFAULT = (
    UNTRUSTED_DESTINATION, UNSAID_DESTINATION, NEW_HOST, PRIVATE_BODY, CARRIED_LINK, DELETION, PAYMENT, UNSTATED_ACTION,
    HIDDEN_FILE,
)  # fmt: skip
_CAREFUL = (
    replace(UNTRUSTED_DESTINATION, effects=_CHANGING),
    replace(UNSAID_DESTINATION, labels=frozenset(), why="was not named by the user"),
    replace(NEW_HOST, labels=frozenset(), why="is a host that the user did not name"),
    replace(PRIVATE_BODY, provenance=frozenset(Provenance), why="would receive private text for the first time"),
    CARRIED_LINK,
    DELETION,
    PAYMENT,
    UNSTATED_ACTION,
    HIDDEN_FILE,
)


@dataclass(frozen=True, kw_only=True)
class FlowPolicy:
    """Flow rules, and the destinations that the operator trusts. `flow_policy` returns the flow policy of a preset.

    Raises:
        ConfigurationError: two rules have the same name.
    """

    preset: str = "default"
    rules: tuple[FlowRule, ...] = _DEFAULT
    known: tuple[str, ...] = ()
    """Destinations that the operator trusts: `ann@example.com`, `*@example.com`, `api.example.com`."""
    automation: bool = False
    """True if no user can answer: calls that would require approval are denied."""
    files_untrusted: bool = True
    """True if files of the workspace may contain untrusted text."""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ConfigurationError("two flow rules have the same name", hint="give each rule a different name")

    @cached_property
    def digest(self) -> str:
        """The BLAKE3 digest of the rules and settings, in hexadecimal."""
        rules = [
            [rule.name, sorted(rule.effects), sorted(rule.labels), sorted(rule.provenance), rule.carries, rule.action]
            for rule in self.rules
        ]  # fmt: skip
        content = [rules, sorted(self.known), self.automation, self.files_untrusted]
        return blake3(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()

    def with_actions(self, actions: Mapping[str, FlowAction | str]) -> FlowPolicy:
        """Return the policy with a different action for each rule in `actions`; the action `allow` disables a rule.

        Raises:
            ConfigurationError: a rule or an action is unknown.
        """
        rules = {rule.name: rule for rule in self.rules}
        for name, action in actions.items():
            if name not in rules:
                near = did_you_mean(name, rules)
                hint = f"did you mean {near}?" if near else f"known rules: {', '.join(rules) or 'none'}"
                raise ConfigurationError(f"unknown flow rule: {name!r:.80}", hint=hint)
            if action not in list(FlowAction):
                hint = f"known actions: {', '.join(FlowAction)}"
                raise ConfigurationError(f"unknown action: {action!r:.40}", hint=hint)
            rules[name] = replace(rules[name], action=FlowAction(action))
        return replace(self, rules=tuple(rules.values()))


FLOW_PRESETS: dict[str, FlowPolicy] = {
    "careful": FlowPolicy(preset="careful", rules=_CAREFUL),
    "default": FlowPolicy(),
    "trusting": FlowPolicy(preset="trusting", rules=(UNTRUSTED_DESTINATION,), files_untrusted=False),
    "off": FlowPolicy(preset="off", rules=()),
}


def flow_policy(preset: str = "default") -> FlowPolicy:
    """Return the flow policy of a preset: `careful`, `default`, `trusting`, or `off`, which has no rules.

    Raises:
        ConfigurationError: the preset is unknown.
    """
    found = FLOW_PRESETS.get(preset)
    if found is None:
        near = did_you_mean(preset, FLOW_PRESETS)
        hint = f"did you mean {near}?" if near else f"known flow presets: {', '.join(FLOW_PRESETS)}"
        raise ConfigurationError(f"unknown flow preset: {preset!r:.80}", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """A flow rule that applies to a call, and the destinations of the call that match the rule."""

    rule: FlowRule
    destinations: tuple[Traced, ...]
    refused: bool

    @property
    def sentence(self) -> str:
        """A sentence with the name and the reason of the rule.

        The sentence contains no values of the call, so that receipts can include it.
        """
        names = list(dict.fromkeys(each.destination.param for each in self.destinations))
        subject = f"the value of {' or '.join(names)}" if names else "the destination of the call"
        return f"flows.{self.rule.name}: {subject} {self.rule.why}"


def decide_flow(
    policies: Iterable[FlowPolicy],
    flow: Flow,
    effects: frozenset[Effect],
    *,
    automation: bool,
    asking: Container[Carries] = frozenset(Carries),
) -> FlowFinding | None:
    """Return the first rule that denies a call. If none does, return the first that requires approval, or None.

    `asking` lists the kinds of rules that may require approval here. A rule that denies calls always applies.
    """
    asks = None
    for policy in policies:
        for rule in policy.rules:
            found = rule.find_destinations(flow, effects)
            if found is None or (rule.action is FlowAction.ASK and rule.carries not in asking):
                continue
            refused = rule.action is FlowAction.REFUSE or automation or policy.automation
            if refused:
                return FlowFinding(rule, found, True)
            asks = asks or FlowFinding(rule, found, False)
    return asks
