"""The section [tools.flows] of the configuration file: a preset, rules that are switched, and rules of the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wasmrt.agent.flows import Provenance, read_labels
from wasmrt.agent.policy._flows import FLOW_PRESETS, OUTGOING, Carries, FlowAction, FlowPolicy, FlowRule, flow_policy
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.strict_toml import Mistake, Place, Reader, boolean, one_of, read_table, texts
from wasmrt.core.traits import read_effects

_PLACE = Place(("tools", "flows"))
_FLOWS: dict[str, Reader] = {
    "preset": one_of(str, FLOW_PRESETS),
    "known": texts,
    "automation": boolean,
    "files_untrusted": boolean,
}
flow_preset: Reader = one_of(flow_policy, FLOW_PRESETS)
"""Reads the name of a preset of flows."""


def labels(value: Any) -> Any:
    """Return labels.

    Raises:
        ConfigurationError: a name is none of them, or they contradict each other.
    """
    return read_labels(texts(value))


def _provenance(value: Any) -> Any:
    read = one_of(Provenance, Provenance)
    return frozenset(read(name) for name in texts(value))


_RULE: dict[str, Reader] = {
    "effects": lambda value: read_effects(texts(value)),
    "labels": labels,
    "provenance": _provenance,
    "carries": one_of(Carries, Carries),
    "action": one_of(FlowAction, FlowAction),
}


def read_flows(tree: Any, mistakes: list[Mistake]) -> FlowPolicy | None:
    """Return the rules over flows of a parsed section; what is wrong is added to `mistakes`. None where there is none.

    Every key but the rules has the value of the preset where it is not written.
    """
    if tree is None:
        return None
    parts = dict(tree) if isinstance(tree, dict) else tree
    rules = parts.pop("rules", {}) if isinstance(parts, dict) else {}
    values = read_table(parts, _PLACE, _FLOWS, mistakes, example='and preset = "default" below')
    found = flow_policy(values.pop("preset", "default"))
    found = replace(found, **values)
    if not isinstance(rules, dict):
        mistakes.append(Mistake(str(_PLACE.at("rules")), "must be a section", 'write new-host = "allow" below it'))
        return found
    for name, said in rules.items():
        place = _PLACE.at("rules").at(name)
        try:
            found = found.switched({name: said}) if isinstance(said, str) else _added(found, name, said, mistakes)
        except ConfigurationError as error:
            mistakes.append(Mistake(str(place), error.message, error.hint))
    return found


def _added(policy: FlowPolicy, name: str, table: Any, mistakes: list[Mistake]) -> FlowPolicy:
    place = _PLACE.at("rules").at(name)
    values = read_table(table, place, _RULE, mistakes, example='and action = "ask" below')
    values.setdefault("effects", OUTGOING)
    values.setdefault("provenance", frozenset({Provenance.UNSAID, Provenance.UNTRUSTED}))
    rule = FlowRule(name=name, why=f"is kept back by the rule {name}", **values)
    return replace(policy, rules=(*policy.rules, rule))
