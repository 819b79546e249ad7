"""Rules over flows: the calls that a person is asked about for what was seen and where their values came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from blake3 import blake3

from wasmrt.agent.flows import Flow, Kind, Label, Provenance, Traced
from wasmrt.core.effects import READING, Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

_CHANGING = frozenset(Effect) - READING
_WRITES = _CHANGING - {Effect.WRITE_FILESYSTEM, Effect.WRITE_MEMORY}
OUTGOING = _WRITES - {Effect.DELETE_FILESYSTEM}
"""Effects by which something can leave, or be done that a stranger gains from."""
_BOTH = frozenset({Label.UNTRUSTED, Label.PRIVATE})
_NOBODY = frozenset({Provenance.UNSAID, Provenance.UNTRUSTED})


class FlowAction(StrEnum):
    """The word of a rule on a flow that it fits."""

    ALLOW = "allow"
    """The rule is switched off."""
    ASK = "ask"
    REFUSE = "refuse"


class Carries(StrEnum):
    """The part of a call that a rule looks at besides where it goes."""

    ANYTHING = "anything"
    PRIVATE = "private"
    """A part of what is private is in what is sent."""
    LINK = "link"
    """A link or an address of the provenance is in what is sent."""
    HOST = "host"
    """It asks a host for something; the path and the query of a request carry data too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRule:
    """One rule: for a call with one of `effects`, in a trace with all of `labels`, to a destination of `provenance`."""

    name: str
    why: str
    """The reason in words, behind the parameter that it is about."""
    effects: frozenset[Effect]
    labels: frozenset[Label] = frozenset()
    provenance: frozenset[Provenance]
    """Empty for a rule that holds wherever the call goes."""
    every: bool = False
    """True for a rule that holds only where each destination is of the provenance."""
    carries: Carries = Carries.ANYTHING
    action: FlowAction = FlowAction.ASK

    def finds(self, flow: Flow, effects: frozenset[Effect]) -> tuple[Traced, ...] | None:
        """Return the destinations of a call for which the rule holds, none of them where it is about the call itself.

        Returns None where the rule does not hold.
        """
        if self.action is FlowAction.ALLOW or not effects & self.effects or not self.labels <= flow.labels:
            return None
        if not self.provenance:
            return flow.destinations
        if self.every:
            found = self._of(flow.destinations)
            return found if len(found) == len(flow.destinations) else None
        if self.carries is Carries.LINK:
            return self._of(flow.carried) or None
        if self.carries is Carries.HOST:
            return self._of(each for each in flow.destinations if each.destination.kind is Kind.URL) or None
        found = self._of(flow.destinations)
        if self.carries is Carries.PRIVATE:
            fixed = not flow.destinations or flow.guessed_all
            return found if flow.private_body and (found or fixed) else None
        if _anchored(flow):
            found = tuple(each for each in found if not _is_unsaid_name(each))
        return found or (() if flow.cut else None)

    def _of(self, traced: Iterable[Traced]) -> tuple[Traced, ...]:
        return tuple(each for each in traced if each.provenance in self.provenance)


def _anchored(flow: Flow) -> bool:
    """Tell whether one of the texts that count as destinations for want of better knowledge was said."""
    return any(each.provenance.vouched for each in flow.destinations)


def _is_unsaid_name(traced: Traced) -> bool:
    return traced.destination.kind is Kind.NAME and traced.provenance is Provenance.UNSAID


UNTRUSTED_DESTINATION = FlowRule(
    name="untrusted-destination", why="stands in text that a stranger could write, and nobody else said it",
    effects=_WRITES, labels=frozenset({Label.UNTRUSTED}), provenance=frozenset({Provenance.UNTRUSTED}),
)  # fmt: skip
UNSAID_DESTINATION = FlowRule(
    name="unsaid-destination", why="was said by nobody, and the trace has seen private text and strangers' text",
    effects=OUTGOING, labels=_BOTH, provenance=_NOBODY,
)  # fmt: skip
NEW_HOST = FlowRule(
    name="new-host", why="is a host that nobody said, and the trace has seen private text and strangers' text",
    effects=frozenset({Effect.NETWORK}), labels=_BOTH, provenance=_NOBODY, carries=Carries.HOST,
)  # fmt: skip
PRIVATE_BODY = FlowRule(
    name="private-body", why="would get private text, and the person did not say it in this trace",
    effects=OUTGOING, labels=frozenset({Label.PRIVATE}), provenance=_NOBODY | {Provenance.KNOWN},
    carries=Carries.PRIVATE,
)  # fmt: skip
CARRIED_LINK = FlowRule(
    name="carried-link", why="would be sent on, and stands in text that a stranger could write",
    effects=OUTGOING, labels=frozenset({Label.UNTRUSTED}), provenance=frozenset({Provenance.UNTRUSTED}),
    carries=Carries.LINK,
)  # fmt: skip
DELETION = FlowRule(
    name="deletion", why="would be deleted, and the trace has seen strangers' text",
    effects=frozenset({Effect.DELETE_FILESYSTEM}), labels=frozenset({Label.UNTRUSTED}), provenance=frozenset(),
)  # fmt: skip
PAYMENT = FlowRule(
    name="payment", why="is paid, and the person said nothing of whom and how much",
    effects=frozenset({Effect.FINANCIAL}), labels=frozenset({Label.UNTRUSTED}),
    provenance=frozenset(Provenance) - {Provenance.SAID}, every=True,
)  # fmt: skip
_DEFAULT = (UNTRUSTED_DESTINATION, UNSAID_DESTINATION, NEW_HOST, PRIVATE_BODY, CARRIED_LINK, DELETION, PAYMENT)
_CAREFUL = (
    replace(UNTRUSTED_DESTINATION, effects=_CHANGING),
    replace(UNSAID_DESTINATION, labels=frozenset(), why="was said by nobody"),
    replace(NEW_HOST, labels=frozenset(), why="is a host that nobody said"),
    replace(PRIVATE_BODY, provenance=frozenset(Provenance), why="would get private text for the first time"),
    CARRIED_LINK,
    DELETION,
    PAYMENT,
)


@dataclass(frozen=True, kw_only=True)
class FlowPolicy:
    """The rules over flows that are in force, and what the operator vouches for. `flow_policy` makes one of a preset.

    Raises:
        ConfigurationError: two rules have one name.
    """

    preset: str = "default"
    rules: tuple[FlowRule, ...] = _DEFAULT
    known: tuple[str, ...] = ()
    """Destinations that the operator vouches for: `ann@example.com`, `*@example.com`, `api.example.com`."""
    automation: bool = False
    """True where nobody is there to be asked: what would ask refuses."""
    files_untrusted: bool = True
    """True where strangers may have written files of the workspace."""

    def __post_init__(self) -> None:
        names = [rule.name for rule in self.rules]
        if len(set(names)) < len(names):
            raise ConfigurationError("rules over flows have a name each, and no two the same")

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of what the rules say, in hex."""
        rules = [
            [
                rule.name,
                sorted(rule.effects),
                sorted(rule.labels),
                sorted(rule.provenance),
                rule.carries,
                rule.action,
                rule.every,
            ]
            for rule in self.rules
        ]
        said = [rules, sorted(self.known), self.automation, self.files_untrusted]
        return blake3(json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()

    def switched(self, actions: Mapping[str, FlowAction | str]) -> FlowPolicy:
        """Return the policy with other actions for some rules; `allow` switches a rule off.

        Raises:
            ConfigurationError: no rule has the name, or there is no such action.
        """
        rules = {rule.name: rule for rule in self.rules}
        for name, action in actions.items():
            if name not in rules:
                near = did_you_mean(name, rules)
                hint = f"did you mean {near}?" if near else f"rules are: {', '.join(rules) or 'none'}"
                raise ConfigurationError(f"there is no rule over flows named {name!r:.80}", hint=hint)
            if action not in list(FlowAction):
                raise ConfigurationError(f"{action!r:.40} is no action", hint=f"actions are {', '.join(FlowAction)}")
            rules[name] = replace(rules[name], action=FlowAction(action))
        return replace(self, rules=tuple(rules.values()))


FLOW_PRESETS: dict[str, FlowPolicy] = {
    "careful": FlowPolicy(preset="careful", rules=_CAREFUL),
    "default": FlowPolicy(),
    "trusting": FlowPolicy(preset="trusting", rules=(UNTRUSTED_DESTINATION,), files_untrusted=False),
    "off": FlowPolicy(preset="off", rules=()),
}


def flow_policy(preset: str = "default") -> FlowPolicy:
    """Return the rules of a preset: `careful`, `default`, `trusting`, or `off` for none.

    Raises:
        ConfigurationError: there is no such preset.
    """
    found = FLOW_PRESETS.get(preset)
    if found is None:
        near = did_you_mean(preset, FLOW_PRESETS)
        hint = f"did you mean {near}?" if near else f"presets of flows are: {', '.join(FLOW_PRESETS)}"
        raise ConfigurationError(f"there is no preset of flows {preset!r:.80}", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class FlowFinding:
    """A rule that a call does not pass, and the destinations that it is about."""

    rule: FlowRule
    destinations: tuple[Traced, ...]
    refused: bool

    @property
    def sentence(self) -> str:
        """The rule in words, without any value of the call, so that a receipt can hold it."""
        params = ", ".join(dict.fromkeys(each.destination.param for each in self.destinations))
        return f"flows.{self.rule.name}: {f'{params} ' if params else 'the call: what it goes to '}{self.rule.why}"


def decide_flow(
    policies: Iterable[FlowPolicy], flow: Flow, effects: frozenset[Effect], *, automation: bool
) -> FlowFinding | None:
    """Return the rule that a call does not pass, the strictest first; None where it passes all."""
    asks = None
    for policy in policies:
        for rule in policy.rules:
            found = rule.finds(flow, effects)
            if found is None:
                continue
            refused = rule.action is FlowAction.REFUSE or automation or policy.automation
            if refused:
                return FlowFinding(rule, found, True)
            asks = asks or FlowFinding(rule, found, False)
    return asks
