"""Describe and read the policy in the operator's file: the sections [tools], [presets.NAME] and [approvals]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from wasmrt.agent.flows import Provenance, read_labels
from wasmrt.agent.policy._decide import ExfiltrationGuard, ExternalFilter, Permission, Preset
from wasmrt.agent.policy._flows import FLOW_PRESETS, OUTGOING, Carries, FlowAction, FlowPolicy, FlowRule, flow_policy
from wasmrt.agent.policy._model import (
    DEFAULT_APPROVAL_SECONDS,
    DEFAULT_OUTPUT_BYTES,
    AccessAction,
    ApproverKind,
    ToolPolicy,
    ToolRule,
)
from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MIB
from wasmrt.core.settings import Setting
from wasmrt.core.strict_toml import (
    Mistake,
    Place,
    Reader,
    make_choice_reader,
    make_number_reader,
    make_seconds_reader,
    read_boolean,
    read_table,
    read_texts,
)
from wasmrt.core.traits import Confirmation, Risk, SafetyTier, SubagentAccess, TraitRestrictions, read_effects

_PRESETS = ", ".join(FLOW_PRESETS)
POLICY_SETTINGS = (
    Setting("tools.preset", "Name of the active preset.", "work"),
    Setting(
        "tools.max_output_bytes", "Maximum size of a tool's answer to a model.", 65_536, DEFAULT_OUTPUT_BYTES,
        "bytes",
    ),
    Setting("tools.plugin_dir", "Folder of plugins.", "plugins"),
    Setting("tools.unsafe_native_plugins", "Allow plugins that are native programs.", True, False),
    Setting(
        "tools.filter.allow_external",
        "Offer all external tools (installed tools, plugins, tools of MCP servers) or none. "
        "By default, only installed tools and tools of MCP servers that a user agreed to offer.", True,
    ),
    Setting("tools.filter.external_allow_list", "The only external tools that may be offered.", ["weather"], []),
    Setting("tools.exfiltration_guard.enabled", "Deny tools that can send data.", True, False),
    Setting("tools.exfiltration_guard.allow_tools", "Tools that the guard allows.", ["weather"], []),
    Setting("tools.exfiltration_guard.blocked_tools", "Has no effect; other programs' files have it.", ["curl"]),
    Setting("tools.rules.NAME.permission", "For calls of tools that match NAME: allow, ask or deny.", "ask"),
    Setting("tools.rules.NAME.safety_tier", "The tools have at least this tier, such as privileged.", "privileged"),
    Setting("tools.rules.NAME.risk", "The tools have at least this risk: low, medium, high or critical.", "high"),
    Setting("tools.rules.NAME.confirmation", "When calls require approval.", "always"),
    Setting("tools.rules.NAME.subagent_access", "Access of sub-agents to the tools.", "denied"),
    Setting("tools.rules.NAME.network_outbound", "The tools can send data.", True),
    Setting("tools.rules.NAME.requests_per_minute", "Maximum number of calls of one user in a minute.", 10),
    Setting("tools.rules.NAME.requests_per_hour", "Maximum number of calls of one user in an hour.", 100),
    Setting("tools.rules.NAME.timeout_seconds", "Timeout of a call.", 20.0, unit="seconds"),
    Setting("tools.rules.NAME.results", "Labels of the results.", ["untrusted"]),
    Setting("tools.rules.NAME.destinations", "Parameters that decide where data goes.", ["to"]),
    Setting("tools.rules.NAME.ids", "Parameters that accept identifiers from the tools' results.", ["id"]),
    Setting("tools.rules.NAME.vouched", "Members of the tools' results that only the service writes.", ["address"]),
    Setting("tools.flows.preset", f"Preset of the flow rules: {_PRESETS}.", "careful"),
    Setting("tools.flows.known", "Destinations that the flow rules always allow.", ["ann@example.com"]),
    Setting("tools.flows.automation", "For jobs without a user: deny calls that would require approval.", True),
    Setting("tools.flows.files_untrusted", "Treat the content of files as untrusted.", True),
    Setting("tools.flows.rules.NAME", "The action of this built-in rule: allow, ask or deny.", "ask"),
    Setting("tools.flows.rules.NAME.effects", "Your rule applies to calls with one of these effects.", ["network"]),
    Setting("tools.flows.rules.NAME.labels", "The rule applies in conversations with all these labels.", ["private"]),
    Setting("tools.flows.rules.NAME.provenance", "The rule applies to these origins of destinations.", ["untrusted"]),
    Setting("tools.flows.rules.NAME.carries", "The rule applies to calls with this kind of content.", "private"),
    Setting("tools.flows.rules.NAME.action", "The action of the rule: allow, ask or deny.", "ask"),
    Setting("presets.NAME.tools", "Tools of the preset; * matches any text.", ["read_*"], []),
    Setting("presets.NAME.allow_network", "Allow the network.", True, False),
    Setting("presets.NAME.allow_write_paths", "Folders that tools may write to.", ["out"], []),
    Setting("presets.NAME.read_only", "Only allow reading.", True, False),
    Setting("presets.NAME.flows", f"Preset of the flow rules: {_PRESETS}.", "careful"),
    Setting("approvals.approver", "How requests are answered: auto, terminal, queue or deny.", "queue", "auto"),
    Setting(
        "approvals.timeout_seconds", "Time after which a request is denied.", 60.0, DEFAULT_APPROVAL_SECONDS, "seconds",
    ),
    Setting("approvals.access", "If a grant does not allow a call: ask the user for access, or deny.", "deny", "ask"),
    Setting("approvals.notify", "Show a desktop notification for each new request.", True, False),
)  # fmt: skip


_FLOWS_PLACE = Place(("tools", "flows"))
_FLOWS: dict[str, Reader] = {
    "preset": make_choice_reader(str, FLOW_PRESETS),
    "known": read_texts,
    "automation": read_boolean,
    "files_untrusted": read_boolean,
}
_flow_preset: Reader = make_choice_reader(flow_policy, FLOW_PRESETS)
"""Reads the name of a flow preset."""


def _read_label_list(value: Any) -> Any:
    """Read a list of labels.

    Raises:
        ConfigurationError: a label is unknown, or labels contradict each other.
    """
    return read_labels(read_texts(value))


def _read_provenance(value: Any) -> Any:
    read = make_choice_reader(Provenance, Provenance)
    return frozenset(read(name) for name in read_texts(value))


_FLOW_RULE: dict[str, Reader] = {
    "effects": lambda value: read_effects(read_texts(value)),
    "labels": _read_label_list,
    "provenance": _read_provenance,
    "carries": make_choice_reader(Carries, Carries),
    "action": make_choice_reader(FlowAction, FlowAction),
}
_MAX_RATE = 1_000_000
_PRESET: dict[str, Reader] = {
    "tools": read_texts,
    "allow_network": read_boolean,
    "allow_write_paths": read_texts,
    "read_only": read_boolean,
    "flows": _flow_preset,
}
_FILTER: dict[str, Reader] = {"allow_external": read_boolean, "external_allow_list": read_texts}
_GUARD: dict[str, Reader] = {"enabled": read_boolean, "allow_tools": read_texts, "blocked_tools": read_texts}
_RULE: dict[str, Reader] = {
    "permission": make_choice_reader(Permission, Permission),
    "safety_tier": make_choice_reader(SafetyTier, SafetyTier),
    "risk": make_choice_reader(Risk, Risk),
    "confirmation": make_choice_reader(Confirmation, Confirmation),
    "subagent_access": make_choice_reader(SubagentAccess, SubagentAccess),
    "network_outbound": read_boolean,
    "requests_per_minute": make_number_reader(1, _MAX_RATE),
    "requests_per_hour": make_number_reader(1, _MAX_RATE),
    "timeout_seconds": make_seconds_reader(86_400),
    "results": _read_label_list,
    "destinations": read_texts,
    "ids": read_texts,
    "vouched": read_texts,
}
_APPROVALS: dict[str, Reader] = {
    "approver": make_choice_reader(ApproverKind, ApproverKind),
    "timeout_seconds": make_seconds_reader(7 * 86_400),
    "access": make_choice_reader(AccessAction, AccessAction),
    "notify": read_boolean,
}
_BLOCKED_TOOLS = (
    "tools.exfiltration_guard.blocked_tools has no effect: every tool that can send data over the network is denied, "
    "except those in allow_tools"
)


def read_policy(tree: Mapping[str, Any], folder: Path, mistakes: list[Mistake]) -> ToolPolicy:
    """Read the policy in a parsed configuration file, and append the errors in the file to `mistakes`.

    Relative paths begin at `folder`, the directory of the file.
    """
    before = len(mistakes)
    tools = dict(tree["tools"]) if isinstance(tree.get("tools"), dict) else {}
    if "tools" in tree and not isinstance(tree["tools"], dict):
        mistakes.append(Mistake("tools", "must be a section", "write [tools] on a separate line"))
    parts = {name: tools.pop(name) for name in ("filter", "exfiltration_guard", "rules") if name in tools}
    flows = _read_flows(tools.pop("flows", None), mistakes)
    own = read_table(tools, Place(("tools",)), _TOOLS, mistakes, example='and preset = "dev" below')
    filter_ = _read_part(parts, "filter", _FILTER, mistakes)
    guard = _read_part(parts, "exfiltration_guard", _GUARD, mistakes)
    rules = _read_rules(parts.get("rules", {}), mistakes)
    presets = _read_presets(tree.get("presets", {}), mistakes)
    approvals = read_table(
        tree.get("approvals", {}), Place(("approvals",)), _APPROVALS, mistakes, example='and approver = "queue" below'
    )
    if len(mistakes) > before:
        return ToolPolicy()
    notes = (_BLOCKED_TOOLS,) if guard.pop("blocked_tools", None) is not None else ()
    try:
        return ToolPolicy(
            presets=presets,
            preset=own.get("preset"),
            filter=ExternalFilter(**filter_),
            guard=ExfiltrationGuard(**guard),
            rules=rules,
            flows=flows,
            max_output_bytes=own.get("max_output_bytes", DEFAULT_OUTPUT_BYTES),
            approver=approvals.get("approver", ApproverKind.AUTO),
            approval_seconds=approvals.get("timeout_seconds", DEFAULT_APPROVAL_SECONDS),
            access=approvals.get("access", AccessAction.ASK),
            notify=approvals.get("notify", False),
            plugin_dir=folder / own["plugin_dir"] if "plugin_dir" in own else None,
            unsafe_native_plugins=own.get("unsafe_native_plugins", False),
            notes=notes,
        )
    except ConfigurationError as error:  # an unknown active preset is the only error not yet found
        mistakes.append(Mistake("tools.preset", error.message, error.hint))
        return ToolPolicy()


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError("must be a string that is not empty")
    return value


_TOOLS: dict[str, Reader] = {
    "preset": _read_text,
    "max_output_bytes": make_number_reader(256, 16 * MIB),
    "plugin_dir": _read_text,
    "unsafe_native_plugins": read_boolean,
}


def _read_part(
    parts: Mapping[str, Any], name: str, readers: Mapping[str, Reader], mistakes: list[Mistake]
) -> dict[str, Any]:
    example = "and its keys below"
    return read_table(parts.get(name, {}), Place(("tools", name)), readers, mistakes, example=example)


def _read_presets(tree: Any, mistakes: list[Mistake]) -> dict[str, Preset]:
    if not isinstance(tree, dict):
        mistakes.append(Mistake("presets", "must be a section", "write [presets.NAME] on a separate line"))
        return {}
    presets = {}
    for name, table in tree.items():
        place = Place(("presets", name))
        values = read_table(table, place, _PRESET, mistakes, example='and tools = ["time"] below')
        try:
            presets[name] = Preset(name=name, **values)
        except ConfigurationError as error:
            mistakes.append(Mistake(str(place.at("allow_write_paths")), error.message, error.hint))
    return presets


def _read_rules(tree: Any, mistakes: list[Mistake]) -> tuple[ToolRule, ...]:
    if not isinstance(tree, dict):
        mistakes.append(Mistake("tools.rules", "must be a section", "write [tools.rules.NAME] on a separate line"))
        return ()
    return tuple(_read_rule(name, table, mistakes) for name, table in tree.items())


def _read_rule(name: str, table: Any, mistakes: list[Mistake]) -> ToolRule:
    place = Place(("tools", "rules", name))
    values = read_table(table, place, _RULE, mistakes, example='and confirmation = "always" below')
    minute, hour = values.pop("requests_per_minute", None), values.pop("requests_per_hour", None)
    rate = None
    if minute is not None or hour is not None:
        rate = RateLimitConfig(minute or min(hour, _MAX_RATE), hour or min(minute * 60, _MAX_RATE))
    permission, timeout = values.pop("permission", None), values.pop("timeout_seconds", None)
    tier = values.pop("safety_tier", None)
    flow_values = {name: values.pop(name) for name in ("results", "destinations", "ids", "vouched") if name in values}
    return ToolRule(
        tool=name, permission=permission, tightening=TraitRestrictions(tier=tier, **values), rate=rate,
        timeout_seconds=timeout, **flow_values,
    )  # fmt: skip


def _read_flows(tree: Any, mistakes: list[Mistake]) -> FlowPolicy | None:
    """Read the flow policy in a parsed section; None if there is no section. Append the errors to `mistakes`.

    A key that the section lacks has its value from the preset.
    """
    if tree is None:
        return None
    parts = dict(tree) if isinstance(tree, dict) else tree
    rules = parts.pop("rules", {}) if isinstance(parts, dict) else {}
    values = read_table(parts, _FLOWS_PLACE, _FLOWS, mistakes, example='and preset = "default" below')
    found = flow_policy(values.pop("preset", "default"))
    found = replace(found, **values)
    if not isinstance(rules, dict):
        mistakes.append(
            Mistake(
                str(_FLOWS_PLACE.at("rules")),
                "must be a section",
                'write [tools.flows.rules] on a separate line, and new-host = "allow" below',
            )
        )
        return found
    for name, rule in rules.items():
        place = _FLOWS_PLACE.at("rules").at(name)
        try:
            found = (
                found.with_actions({name: rule})
                if isinstance(rule, str)
                else _add_flow_rule(found, name, rule, mistakes)
            )
        except ConfigurationError as error:
            mistakes.append(Mistake(str(place), error.message, error.hint))
    return found


def _add_flow_rule(policy: FlowPolicy, name: str, table: Any, mistakes: list[Mistake]) -> FlowPolicy:
    place = _FLOWS_PLACE.at("rules").at(name)
    values = read_table(table, place, _FLOW_RULE, mistakes, example='and action = "ask" below')
    values.setdefault("effects", OUTGOING)
    values.setdefault("provenance", frozenset({Provenance.UNSAID, Provenance.UNTRUSTED}))
    rule = FlowRule(name=name, why=f"matches the rule {name}", **values)
    return replace(policy, rules=(*policy.rules, rule))
