"""The values of a policy: frozen, compared and hashed by what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType

from blake3 import blake3

from wasmrt.agent.policy._flows import FlowPolicy
from wasmrt.capabilities import RateLimitConfig, path_problem, plain_path
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.labels import Label
from wasmrt.core.limits import KIB
from wasmrt.core.names import did_you_mean, folded, offered_name
from wasmrt.core.traits import Tightening, tightest

DEFAULT_APPROVAL_SECONDS = 300.0
DEFAULT_OUTPUT_BYTES = 16 * KIB


NO_TIGHTENING = Tightening()


class Permission(StrEnum):
    """An operator's standing word on calls of a tool.

    Example:
        >>> from wasmrt import Permission
        >>> [permission.value for permission in Permission]
        ['allow', 'ask', 'deny']
    """

    ALLOW = "allow"
    """Approved by the operator: nobody is asked, and the receipt says so."""
    ASK = "ask"
    DENY = "deny"


class ApproverKind(StrEnum):
    """Who is asked where a person has to approve a call."""

    AUTO = "auto"
    """A terminal where there is one, else nobody."""
    TERMINAL = "terminal"
    QUEUE = "queue"
    DENY = "deny"


class AccessAction(StrEnum):
    """The answer to a component that was refused what it was not granted."""

    ASK = "ask"
    """A person is asked for it, and it is refused until then."""
    DENY = "deny"
    """It is refused, and nobody is asked."""


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether one of the patterns (`files.*`) is for a name, however it is spelled."""
    spelled = {folded(name), folded(offered_name(name))}
    return any(_fits(one, pattern) for pattern in patterns for one in spelled)


@lru_cache(maxsize=4096)
def _fits(spelled: str, pattern: str) -> bool:
    # Only * stands for something else than itself.
    literal = "".join(f"[{mark}]" if mark in "?[]" else mark for mark in folded(pattern))
    return fnmatchcase(spelled, literal)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A named set of tools with what they may reach together.

    Raises:
        ConfigurationError: a write path is absolute or climbs.

    Example:
        >>> from wasmrt import Preset, ToolPolicy
        >>> review = Preset(name="review", tools=("read_*",), read_only=True)
        >>> ToolPolicy(presets={"review": review}, preset="review").active.read_only
        True
    """

    name: str
    tools: tuple[str, ...] = ()
    """Names, or patterns with `*`; a tool that none of them fits may not be called."""
    allow_network: bool = False
    allow_write_paths: tuple[str, ...] = ()
    """Folders of the workspace that may be written to."""
    read_only: bool = False
    flows: FlowPolicy | None = None
    """Rules over flows for every call under this preset."""

    def __post_init__(self) -> None:
        for path in self.allow_write_paths:
            if path_problem(path) is not None or not plain_path(path):
                raise ConfigurationError(
                    f"the write path {path!r:.80} leaves the workspace", hint="write it like 'out' or 'notes/daily'"
                )

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of what the preset allows, in hex: it stands in every decision that it made."""
        allowed = [
            self.name,
            self.allow_network,
            self.read_only,
            sorted(set(self.tools)),
            sorted(set(self.allow_write_paths)),
        ]
        return _digest(allowed if self.flows is None else [*allowed, self.flows.digest])


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalFilter:
    """The second gate of tools that somebody else wrote: closed, until an operator opens it."""

    allow_external: bool = False
    external_allow_list: tuple[str, ...] = ()
    """With `allow_external`: the only ones allowed, where the list is not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExfiltrationGuard:
    """Keeps tools that speak to somebody outside from a model."""

    enabled: bool = False
    allow_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """An operator's rule for the tools that a pattern fits.

    Example:
        >>> from wasmrt import Permission, RateLimitConfig, ToolRule
        >>> rule = ToolRule(tool="search", permission=Permission.ALLOW, rate=RateLimitConfig(requests_per_minute=5))
        >>> rule.permission.value
        'allow'
    """

    tool: str
    permission: Permission | None = None
    tightening: Tightening = field(default_factory=Tightening)
    rate: RateLimitConfig | None = None
    timeout_seconds: float | None = None
    results: frozenset[Label] | None = None
    """Labels of its results, in place of those that its effects give them."""
    destinations: tuple[str, ...] | None = None
    """Parameters that decide where something goes or what is changed; empty for none."""
    ids: tuple[str, ...] = ()
    """Parameters, of any tool, that take the identifiers in its results: each stands for the name beside it."""
    vouched: tuple[str, ...] = ()
    """Members of its results that the service writes itself and nobody else can: their values are known."""


@dataclass(frozen=True, kw_only=True)
class ToolPolicy:
    """Everything that an operator says about tools. The default says nothing but keeps external tools out.

    Raises:
        ConfigurationError: the active preset is not one of the presets, or a value cannot be.

    Example:
        >>> from wasmrt import Permission, ToolPolicy, ToolRegistry, ToolRule
        >>> policy = ToolPolicy(rules=(ToolRule(tool="send_*", permission=Permission.DENY),))
        >>> ToolRegistry(policy=policy).policy.rules[0].tool
        'send_*'
    """

    presets: Mapping[str, Preset] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    preset: str | None = None
    """The active one; None for no preset at all."""
    filter: ExternalFilter = ExternalFilter()
    guard: ExfiltrationGuard = ExfiltrationGuard()
    rules: tuple[ToolRule, ...] = ()
    flows: FlowPolicy | None = None
    """Rules over flows for every call. None: those of the preset `default`, for traces that the program opened."""
    max_output_bytes: int = DEFAULT_OUTPUT_BYTES
    approver: ApproverKind = ApproverKind.AUTO
    approval_seconds: float = DEFAULT_APPROVAL_SECONDS
    access: AccessAction = AccessAction.ASK
    plugin_dir: Path | None = None
    """The folder of plugins."""
    unsafe_native_plugins: bool = False
    """Let plugins run that are programs of the machine, which the kernel alone confines."""
    notes: tuple[str, ...] = ()
    """Warnings about what was read, in sentences."""

    def __post_init__(self) -> None:
        if self.preset is not None:
            self.named(self.preset)
        if not isinstance(self.max_output_bytes, int) or self.max_output_bytes < 256:
            raise ConfigurationError("max_output_bytes is a whole number of at least 256")
        if not all(isinstance(rule, ToolRule) for rule in self.rules):
            raise ConfigurationError("rules may hold ToolRule only")

    def named(self, name: str) -> Preset:
        """Return a preset by its name.

        Raises:
            ConfigurationError: there is none; it never becomes another one.
        """
        found = self.presets.get(name)
        if found is None:
            near = did_you_mean(name, self.presets)
            known = ", ".join(self.presets) or "none"
            hint = f"did you mean {near}?" if near else f"presets are: {known}"
            raise ConfigurationError(f"there is no preset {name!r:.80}", code="unknown-preset", hint=hint)
        return found

    @property
    def asks_for_access(self) -> bool:
        """True where a person is asked for what a component was not granted."""
        return self.access is AccessAction.ASK and self.approver is not ApproverKind.DENY

    @property
    def active(self) -> Preset | None:
        """The active preset."""
        return None if self.preset is None else self.presets[self.preset]

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of what the policy allows, in hex: active preset, filter, guard, rules and the cap of an answer."""
        rules = [[rule.tool, rule.permission, repr(rule.tightening), repr(rule.rate), rule.timeout_seconds,
                  *_flow_words(rule)] for rule in self.rules]  # fmt: skip
        return _digest(
            [
                None if self.active is None else self.active.digest,
                [self.filter.allow_external, sorted(self.filter.external_allow_list)],
                [self.guard.enabled, sorted(self.guard.allow_tools)],
                rules,
                self.max_output_bytes,
                *([] if self.flows is None else [self.flows.digest]),
            ]
        )

    def rules_for(self, tool: str) -> Iterator[ToolRule]:
        """Return the rules that are for a tool, in their order."""
        return (rule for rule in self.rules if fits(tool, (rule.tool,)))

    def tightening_for(self, tool: str) -> Tightening:
        """Return the tightest of what the rules say of a tool."""
        if not self.rules:
            return NO_TIGHTENING
        found = Tightening()
        for rule in self.rules_for(tool):
            found = _both(found, rule.tightening)
        return found

    def permission_for(self, tool: str) -> Permission | None:
        """Return the strictest permission that the rules give a tool; None where none says."""
        if not self.rules:
            return None
        said = {rule.permission for rule in self.rules_for(tool)}
        return next((one for one in (Permission.DENY, Permission.ASK, Permission.ALLOW) if one in said), None)

    def rate_for(self, tool: str) -> RateLimitConfig | None:
        """Return the narrowest rate that the rules give a tool."""
        if not self.rules:
            return None
        rates = [rule.rate for rule in self.rules_for(tool) if rule.rate is not None]
        if not rates:
            return None
        return RateLimitConfig(
            min(rate.requests_per_minute for rate in rates), min(rate.requests_per_hour for rate in rates)
        )

    def timeout_for(self, tool: str) -> float | None:
        """Return the shortest time that the rules give one call of a tool, in seconds."""
        if not self.rules:
            return None
        return min((rule.timeout_seconds for rule in self.rules_for(tool) if rule.timeout_seconds), default=None)

    def results_for(self, tool: str) -> frozenset[Label] | None:
        """Return the labels that the rules give the results of a tool, all of them together; None where none says.

        A result is trusted only where every rule that speaks of it says so.
        """
        said = [rule.results for rule in self.rules_for(tool) if rule.results is not None]
        if not said:
            return None
        labels = frozenset[Label]().union(*said)
        return labels if all(Label.TRUSTED in each for each in said) else labels - {Label.TRUSTED}

    def destinations_for(self, tool: str) -> tuple[str, ...] | None:
        """Return the parameters that the rules name as the destinations of a tool; None where none says."""
        said = [rule.destinations for rule in self.rules_for(tool) if rule.destinations is not None]
        return tuple(dict.fromkeys(name for each in said for name in each)) if said else None

    def ids_for(self, tool: str) -> tuple[str, ...]:
        """Return the parameters that take the identifiers in the results of a tool, as the rules say."""
        return tuple(dict.fromkeys(name for rule in self.rules_for(tool) for name in rule.ids))

    def vouched_for(self, tool: str) -> tuple[str, ...]:
        """Return the members of a tool's results that the service itself writes, as the rules say."""
        return tuple(dict.fromkeys(name for rule in self.rules_for(tool) for name in rule.vouched))

    def warnings(self, *, built_in: Iterable[str] = (), known: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return in sentences what in the policy has no effect.

        `built_in` are the names of tools that are the agent's own, `known` those of all; None where nobody can say.
        """
        names = {folded(name) for name in built_in}
        listed = [tool for preset in self.presets.values() for tool in preset.tools]
        found = list(self.notes)
        for tool in self.filter.external_allow_list:
            if folded(tool) in names:
                found.append(f"external_allow_list names {tool}, which is built in and passes the filter anyway")
            if self.presets and not fits(tool, listed):
                found.append(f"external_allow_list names {tool}, which no preset lists")
        if known is not None:
            found += self._unfitting(tuple(known))
        if self.filter.external_allow_list and not self.filter.allow_external:
            found.append("external_allow_list has no effect while allow_external is false")
        return tuple(found)

    def _unfitting(self, known: tuple[str, ...]) -> Iterator[str]:
        places = [("tools.rules", rule.tool) for rule in self.rules]
        places += [(f"presets.{preset.name}", tool) for preset in self.presets.values() for tool in preset.tools]
        for place, pattern in places:
            if not any(fits(name, (pattern,)) for name in known):
                near = did_you_mean(pattern, known)
                meant = f"; did you mean {near}?" if near else ""
                yield f"{place} names {pattern!r}, which no tool is called{meant}"


def _flow_words(rule: ToolRule) -> list[object]:
    """Return what a rule says about flows; nothing for one that says nothing, whose digest stays what it was."""
    if rule.results is None and rule.destinations is None and not rule.ids and not rule.vouched:
        return []
    said: list[object] = [None if rule.results is None else sorted(rule.results), rule.destinations, rule.ids]
    return [*said, rule.vouched] if rule.vouched else said


def _both(one: Tightening, other: Tightening) -> Tightening:
    def stricter(name: str) -> object:
        said = [level for level in (getattr(one, name), getattr(other, name)) if level is not None]
        return tightest(*said) if said else None

    levels = {name: stricter(name) for name in ("tier", "risk", "confirmation", "subagent_access")}
    return Tightening(**levels, network_outbound=one.network_outbound or other.network_outbound)  # type: ignore[arg-type]


def _digest(value: object) -> str:
    return blake3(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
