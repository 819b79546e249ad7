"""A policy and its rules. All these objects are immutable; they are compared and hashed by their content."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from wasmrt.agent.policy._decide import ExfiltrationGuard, ExternalFilter, Names, Permission, Preset, fits, json_digest
from wasmrt.agent.policy._flows import FlowPolicy
from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.labels import Label
from wasmrt.core.limits import KIB
from wasmrt.core.names import did_you_mean, fold_name
from wasmrt.core.setting_commands import write_dotted_key
from wasmrt.core.traits import TraitRestrictions, get_tightest

DEFAULT_APPROVAL_SECONDS = 300.0
DEFAULT_OUTPUT_BYTES = 16 * KIB


NO_TIGHTENING = TraitRestrictions()


class ApproverKind(StrEnum):
    """The kind of approver for calls that require approval."""

    AUTO = "auto"
    """Ask at the terminal if the process has a terminal; otherwise deny the calls."""
    TERMINAL = "terminal"
    QUEUE = "queue"
    DENY = "deny"


class AccessAction(StrEnum):
    """The reaction if a component makes a call that its grant does not allow."""

    ASK = "ask"
    """Deny the call, and request access from the user."""
    DENY = "deny"
    """Deny the call, without requesting access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """An operator's rule for the tools whose name matches a pattern.

    Examples:
        >>> from wasmrt import Permission, RateLimitConfig, ToolRule
        >>> rule = ToolRule(tool="search", permission=Permission.ALLOW, rate=RateLimitConfig(requests_per_minute=5))
        >>> rule.permission.value
        'allow'
    """

    tool: str
    permission: Permission | None = None
    tightening: TraitRestrictions = field(default_factory=TraitRestrictions)
    rate: RateLimitConfig | None = None
    timeout_seconds: float | None = None
    results: frozenset[Label] | None = None
    """Labels of the tool's results. They replace the labels that follow from the tool's effects."""
    destinations: tuple[str, ...] | None = None
    """Parameters that determine where data goes or which data is changed; empty if the tool has no destinations."""
    ids: tuple[str, ...] = ()
    """Parameters that accept identifiers from this tool's results. The parameters may belong to any tool.

    An identifier counts as the name that is in the same JSON object of the result.
    """
    vouched: tuple[str, ...] = ()
    """Members of this tool's results that only the service itself writes. Their values are known destinations."""


@dataclass(frozen=True, kw_only=True)
class ToolPolicy:
    """An operator's policy for tools. The default policy only denies external tools that no user offered.

    Raises:
        ConfigurationError: the active preset is unknown, or a value is invalid.

    Examples:
        >>> from wasmrt import Permission, ToolPolicy, ToolRegistry, ToolRule
        >>> policy = ToolPolicy(rules=(ToolRule(tool="send_*", permission=Permission.DENY),))
        >>> ToolRegistry(policy=policy).policy.rules[0].tool
        'send_*'
    """

    presets: Mapping[str, Preset] = field(default_factory=dict, hash=False)
    preset: str | None = None
    """The name of the active preset, or None."""
    filter: ExternalFilter = field(default_factory=ExternalFilter)
    guard: ExfiltrationGuard = field(default_factory=ExfiltrationGuard)
    rules: tuple[ToolRule, ...] = ()
    flows: FlowPolicy | None = None
    """The flow policy for every call. If it is None, the preset `default` applies in traces that the program opened."""
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES
    approver: ApproverKind = ApproverKind.AUTO
    approval_seconds: float = DEFAULT_APPROVAL_SECONDS
    access: AccessAction = AccessAction.ASK
    notify: bool = False
    """True to show a desktop notification for each new request."""
    plugin_dir: Path | None = None
    """The folder of plugins."""
    unsafe_native_plugins: bool = False
    """True to allow plugins that are native programs, which are confined only by the kernel."""
    notes: tuple[str, ...] = ()
    """Warnings about the configuration file, as sentences."""

    def __post_init__(self) -> None:
        if self.preset is not None:
            self.named(self.preset)
        if not isinstance(self.max_output_bytes, int) or self.max_output_bytes < 256:
            given = f"{self.max_output_bytes!r:.40}"
            raise ConfigurationError(f"max_output_bytes: expected an integer of at least 256, got {given}")
        if not all(isinstance(rule, ToolRule) for rule in self.rules):
            raise ConfigurationError("rules: expected only ToolRule objects")

    def named(self, name: str) -> Preset:
        """Return the preset with this exact name.

        Raises:
            ConfigurationError: no preset has this name.
        """
        found = self.presets.get(name)
        if found is None:
            near = did_you_mean(name, self.presets)
            known = ", ".join(self.presets) or "none"
            hint = f"did you mean {near}?" if near else f"known presets: {known}"
            raise ConfigurationError(f"unknown preset: {name!r:.80}", code="unknown-preset", hint=hint)
        return found

    @property
    def asks_for_access(self) -> bool:
        """True if a denied call of a component creates an access request."""
        return self.access is AccessAction.ASK and self.approver is not ApproverKind.DENY

    @property
    def active(self) -> Preset | None:
        """The active preset."""
        return None if self.preset is None else self.presets[self.preset]

    def for_typed_calls(self) -> ToolPolicy:
        """Return the policy for a call that a user types.

        SECURITY: external tools are denied by default, so that agents get only tools that the operator offers to them.
        A user who types a tool's name has chosen this tool, and agreed to its grant when the tool was installed. If the
        operator's file sets `allow_external`, it applies to typed calls, too.
        """
        if self.filter.allow_external is not None:
            return self
        return replace(self, filter=replace(self.filter, allow_external=True))

    @cached_property
    def digest(self) -> str:
        """BLAKE3 digest of the active preset, filter, guard, rules, flow policy and output limit, in hexadecimal."""
        rules = [[rule.tool, rule.permission, repr(rule.tightening), repr(rule.rate), rule.timeout_seconds,
                  *_list_flow_settings(rule)] for rule in self.rules]  # fmt: skip
        return json_digest(
            [
                None if self.active is None else self.active.digest,
                [bool(self.filter.allow_external), sorted(self.filter.external_allow_list)],
                [self.guard.enabled, sorted(self.guard.allow_tools)],
                rules,
                self.max_output_bytes,
                *([] if self.flows is None else [self.flows.digest]),
            ]
        )

    def iter_rules(self, tool: Names) -> Iterator[ToolRule]:
        """Yield the rules for a tool or one of its aliases, in the order of the policy."""
        return (rule for rule in self.rules if fits(tool, (rule.tool,)))

    def find_restrictions(self, tool: Names) -> TraitRestrictions:
        """Return the strictest trait restrictions in the rules for a tool."""
        if not self.rules:
            return NO_TIGHTENING
        found = TraitRestrictions()
        for rule in self.iter_rules(tool):
            found = _combine_restrictions(found, rule.tightening)
        return found

    def find_permission(self, tool: Names) -> Permission | None:
        """Return the strictest permission in the rules for a tool, or None if no rule sets one."""
        if not self.rules:
            return None
        found = {rule.permission for rule in self.iter_rules(tool)}
        return next((one for one in (Permission.DENY, Permission.ASK, Permission.ALLOW) if one in found), None)

    def find_rate_limits(self, tool: Names) -> RateLimitConfig | None:
        """Return the lowest rate limits in the rules for a tool, or None if no rule sets them."""
        if not self.rules:
            return None
        rates = [rule.rate for rule in self.iter_rules(tool) if rule.rate is not None]
        if not rates:
            return None
        return RateLimitConfig(
            min(rate.requests_per_minute for rate in rates), min(rate.requests_per_hour for rate in rates)
        )

    def find_timeout(self, tool: Names) -> float | None:
        """Return the shortest timeout of the rules for a tool, in seconds, or None."""
        if not self.rules:
            return None
        return min((rule.timeout_seconds for rule in self.iter_rules(tool) if rule.timeout_seconds), default=None)

    def find_result_labels(self, tool: Names) -> frozenset[Label] | None:
        """Return all result labels that the rules for a tool set, or None if no rule sets labels.

        The label `trusted` is included only if every rule that sets labels has it.
        """
        found = [rule.results for rule in self.iter_rules(tool) if rule.results is not None]
        if not found:
            return None
        labels = frozenset[Label]().union(*found)
        return labels if all(Label.TRUSTED in each for each in found) else labels - {Label.TRUSTED}

    def find_destination_parameters(self, tool: Names) -> tuple[str, ...] | None:
        """Return the destination parameters of the rules for a tool, or None if no rule sets them."""
        found = [rule.destinations for rule in self.iter_rules(tool) if rule.destinations is not None]
        return tuple(dict.fromkeys(name for each in found for name in each)) if found else None

    def find_id_parameters(self, tool: Names) -> tuple[str, ...]:
        """Return the parameters that accept identifiers from a tool's results, according to the rules for this tool."""
        return tuple(dict.fromkeys(name for rule in self.iter_rules(tool) for name in rule.ids))

    def find_vouched_members(self, tool: Names) -> tuple[str, ...]:
        """Return the members of a tool's results that only the service writes, according to the rules for this tool."""
        return tuple(dict.fromkeys(name for rule in self.iter_rules(tool) for name in rule.vouched))

    def warnings(self, *, built_in: Iterable[str] = (), known: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return sentences about settings of the policy that have no effect.

        `built_in` contains the names of the built-in tools. `known` contains the names of all tools, or is None if the
        names are not known.
        """
        names = {fold_name(name) for name in built_in}
        listed = [tool for preset in self.presets.values() for tool in preset.tools]
        found = list(self.notes)
        for tool in self.filter.external_allow_list:
            if fold_name(tool) in names:
                found.append(f"external_allow_list contains {tool}, which is built in and therefore always allowed")
            if self.presets and not fits(tool, listed):
                found.append(f"external_allow_list contains {tool}, which no preset lists")
        if known is not None:
            found += self._describe_unmatched_patterns(tuple(known))
        if self.filter.external_allow_list and self.filter.allow_external is False:
            found.append("external_allow_list has no effect while allow_external is false")
        return tuple(found)

    def check_rules(self, namespaces: Iterable[str], known: Iterable[str]) -> None:
        """Check that every rule in one of the namespaces matches a name. The namespace of `files.move` is `files`.

        Raises:
            ConfigurationError: a rule matches no name. Such a rule would have no effect, even if it is meant to deny a
                tool.
        """
        spaces, names = {fold_name(each) for each in namespaces}, tuple(known)
        for rule in self.rules:
            space, dot, _ = fold_name(rule.tool).partition(".")
            if dot and space in spaces and not any(fits(name, (rule.tool,)) for name in names):
                near = did_you_mean(rule.tool, [name for name in names if fold_name(name).startswith(f"{space}.")])
                raise ConfigurationError(
                    f"[{write_dotted_key(('tools', 'rules', rule.tool))}] matches no tool of the server {space}",
                    code="rule-without-tool",
                    hint=f"did you mean {near}?" if near else "wasmrt tools list shows the names; correct the rule",
                )

    def _describe_unmatched_patterns(self, known: tuple[str, ...]) -> Iterator[str]:
        places = [("tools.rules", rule.tool) for rule in self.rules]
        places += [(f"presets.{preset.name}", tool) for preset in self.presets.values() for tool in preset.tools]
        for place, pattern in places:
            if not any(fits(name, (pattern,)) for name in known):
                near = did_you_mean(pattern, known)
                meant = f"; did you mean {near}?" if near else ""
                yield f"{place} contains {pattern!r}, which matches no tool{meant}"


def _list_flow_settings(rule: ToolRule) -> list[object]:
    """Return the flow settings of a rule for the digest of the policy.

    A rule without flow settings adds nothing, so that the digests of older policies stay the same.
    """
    if rule.results is None and rule.destinations is None and not rule.ids and not rule.vouched:
        return []
    words: list[object] = [None if rule.results is None else sorted(rule.results), rule.destinations, rule.ids]
    return [*words, rule.vouched] if rule.vouched else words


def _combine_restrictions(one: TraitRestrictions, other: TraitRestrictions) -> TraitRestrictions:
    """Return the stricter value of each restriction."""

    def choose_stricter(name: str) -> object:
        levels = [level for level in (getattr(one, name), getattr(other, name)) if level is not None]
        return get_tightest(*levels) if levels else None

    levels = {name: choose_stricter(name) for name in ("tier", "risk", "confirmation", "subagent_access")}
    return TraitRestrictions(**levels, network_outbound=one.network_outbound or other.network_outbound)  # type: ignore[arg-type]
