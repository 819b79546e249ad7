"""Read the section [tools.flows] of the configuration file: a preset, changed actions, and the operator's rules."""

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
"""Reads the name of a flow preset."""


def labels(value: Any) -> Any:
    """Read a list of labels.

    Raises:
        ConfigurationError: a label is unknown, or labels contradict each other.
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
    """Return the flow policy of a parsed section, or None without one, and append errors to `mistakes`.

    Missing keys have the value of the preset.
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
    for name, rule in rules.items():
        place = _PLACE.at("rules").at(name)
        try:
            found = found.switched({name: rule}) if isinstance(rule, str) else _added(found, name, rule, mistakes)
        except ConfigurationError as error:
            mistakes.append(Mistake(str(place), error.message, error.hint))
    return found


def _added(policy: FlowPolicy, name: str, table: Any, mistakes: list[Mistake]) -> FlowPolicy:
    place = _PLACE.at("rules").at(name)
    values = read_table(table, place, _RULE, mistakes, example='and action = "ask" below')
    values.setdefault("effects", OUTGOING)
    values.setdefault("provenance", frozenset({Provenance.UNSAID, Provenance.UNTRUSTED}))
    rule = FlowRule(name=name, why=f"matches the rule {name}", **values)
    return replace(policy, rules=(*policy.rules, rule))
