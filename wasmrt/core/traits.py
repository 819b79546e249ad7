"""Traits of a tool: its declared effects, and everything that is derived from them.

Safety tier, risk, confirmation and the other traits follow from the effects; an operator can only tighten them. Every
derivation is monotone: additional effects never give a looser result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from wasmrt.core.effects import EVERY_EFFECT, MEMORY, NETWORKING, PRIVILEGED, READING, REVERSIBLE, Effect
from wasmrt.core.errors import ConfigurationError

MAX_ACTIONS = 256


class _Ordered(StrEnum):
    """A closed set whose members are ordered, the loosest first."""

    @property
    def order(self) -> int:
        """The rank of the member; a higher rank is stricter."""
        return list(type(self)).index(self)


_Level = TypeVar("_Level", bound=_Ordered)


def get_tightest(*levels: _Level) -> _Level:
    """Return the tightest of the given levels."""
    return max(levels, key=lambda level: level.order)


class SafetyTier(_Ordered):
    """The policy class of a tool: read-only calls run at once, privileged calls require approval.

    Examples:
        >>> from wasmrt import SafetyTier, tool
        >>> @tool(effects=["read-filesystem"])
        ... def read_note(name: str) -> str:
        ...     "Read a note."
        ...     return "empty"
        >>> read_note.traits.tier() is SafetyTier.READ_ONLY
        True
    """

    READ_ONLY = "read-only"
    SIDE_EFFECTING = "side-effecting"
    PRIVILEGED = "privileged"


class Risk(_Ordered):
    """The potential harm of a call."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Confirmation(_Ordered):
    """Which calls must be confirmed: by the user, or with a token that was issued when the user approved."""

    NEVER = "never"
    IF_DESTRUCTIVE = "if-destructive"
    ALWAYS = "always"


class SubagentAccess(_Ordered):
    """The part of a tool that a sub-agent can use."""

    FULL = "full"
    READ_ONLY = "read-only"
    DENIED = "denied"


class ToolDomain(StrEnum):
    """The process that a tool belongs in: the agent's own, or a confined one."""

    ORCHESTRATOR = "orchestrator"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class ActionDescriptor:
    """One action of a tool whose actions are selected by a parameter."""

    name: str
    effects: frozenset[Effect] = EVERY_EFFECT

    @property
    def read_only(self) -> bool:
        """True if the action changes nothing."""
        return self.effects <= READING


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCapabilities:
    """The traits that matter to sub-agents and to protection against exfiltration."""

    built_in: bool = False
    network_outbound: bool = False
    subagent_access: SubagentAccess = SubagentAccess.DENIED
    actions: tuple[ActionDescriptor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraitRestrictions:
    """An operator's restrictions for one tool. None keeps the derived value; no value can loosen it."""

    tier: SafetyTier | None = None
    risk: Risk | None = None
    confirmation: Confirmation | None = None
    subagent_access: SubagentAccess | None = None
    network_outbound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The effects of a tool and of each of its actions, and whether a sandbox enforces them.

    Raises:
        ConfigurationError: an action is listed twice, or there are too many actions.
    """

    effects: frozenset[Effect] = EVERY_EFFECT
    """The possible effects. A tool that declares none is treated as having all."""
    declared: bool = False
    """True if the effects were declared; otherwise `effects` contains all effects."""
    enforced: bool = False
    reading: frozenset[Effect] = frozenset()
    """The effects that remain if the sandbox limits the tool to reading."""
    """True if a sandbox limits each call to given effects, so that a view can narrow them."""
    actions: tuple[ActionDescriptor, ...] = ()
    action_param: str = "action"
    tightening: TraitRestrictions = field(default_factory=TraitRestrictions)

    def __post_init__(self) -> None:
        names = [action.name for action in self.actions]
        if len(set(names)) < len(names) or len(names) > MAX_ACTIONS:
            raise ConfigurationError(f"a tool must have at most {MAX_ACTIONS} actions, with distinct names")

    @classmethod
    def of(
        cls,
        effects: Iterable[Effect | str] | None,
        actions: Mapping[str, Iterable[Effect | str]] | None = None,
        action_param: str = "action",
    ) -> Traits:
        """Return the traits of a tool with these declared effects; None declares nothing, and stands for all effects.

        The effects of an action are added to the tool's effects.

        Raises:
            ConfigurationError: an effect is unknown.
        """
        base = read_effects(effects or ())
        listed = tuple(ActionDescriptor(name, base | read_effects(own)) for name, own in (actions or {}).items())
        whole = EVERY_EFFECT if effects is None and not listed else base
        whole = whole.union(*(action.effects for action in listed))
        declared = effects is not None or bool(listed)
        return cls(effects=whole, declared=declared, actions=listed, action_param=action_param)

    def action(self, params: Any) -> ActionDescriptor | None:
        """Return the action that the params select, or None if it is missing or unknown."""
        named = params.get(self.action_param) if isinstance(params, Mapping) else None
        if not isinstance(named, str):
            return None
        return next((action for action in self.actions if action.name == named), None)

    def effects_of(self, params: Any) -> frozenset[Effect]:
        """Return the possible effects of a call with `params`: its action's effects, or the whole tool's."""
        action = self.action(params) if self.actions else None
        return self.effects if action is None else action.effects

    def within(self, effects: frozenset[Effect]) -> Traits:
        """Return the traits of the same tool limited to `effects`."""
        actions = tuple(action for action in self.actions if action.effects <= effects)
        return replace(self, effects=self.effects & effects, actions=actions)

    def tightened(self, tightening: TraitRestrictions) -> Traits:
        """Return the traits with an operator's restrictions."""
        return replace(self, tightening=tightening)

    # -- derived from the effects ----------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """True if the tool changes nothing."""
        return self.effects <= READING

    def tier(self, effects: frozenset[Effect] | None = None) -> SafetyTier:
        """Return the safety tier of a call with these effects; by default all effects of the tool."""
        return self._tighten(derive_tier(self._effects_or_own(effects)), self.tightening.tier)

    def risk(self, effects: frozenset[Effect] | None = None) -> Risk:
        """Return the risk of a call with these effects; by default all effects of the tool."""
        wanted = self.tightening.tier
        derived = self._tighten(derive_risk(self._effects_or_own(effects)), None if wanted is None else _RISKS[wanted])
        return self._tighten(derived, self.tightening.risk)

    def confirmation(self, effects: frozenset[Effect] | None = None) -> Confirmation:
        """Return which calls require confirmation, derived from the risk."""
        return self._tighten(_CONFIRMATIONS[self.risk(effects)], self.tightening.confirmation)

    def needs_confirmation(self, effects: frozenset[Effect]) -> bool:
        """Return whether a call with these effects requires confirmation: always, or because it changes something."""
        wanted = self.confirmation(effects)
        return wanted is Confirmation.ALWAYS or (wanted is Confirmation.IF_DESTRUCTIVE and not effects <= READING)

    @property
    def network_outbound(self) -> bool:
        """True if the tool can reach other machines."""
        return self.tightening.network_outbound or bool(self.effects & NETWORKING)

    @property
    def has_reading_part(self) -> bool:
        """True if the sandbox can limit the tool to reading, and some calls can succeed with this limit."""
        return self.enforced and bool(self.reading - {Effect.USE_SECRET})

    @property
    def subagent_access(self) -> SubagentAccess:
        """The part of the tool that a sub-agent can use."""
        reads = self.has_reading_part or any(action.read_only for action in self.actions)
        return self._tighten(derive_subagent_access(self.effects, reads), self.tightening.subagent_access)

    @property
    def domain(self) -> ToolDomain:
        """The process that the tool belongs in."""
        return derive_domain(self.effects)

    def annotations(self) -> dict[str, bool]:
        """Return the tool's MCP annotations (ToolAnnotations, 2025-06-18)."""
        return derive_annotations(self.effects, network=self.network_outbound)

    def capabilities(self, *, built_in: bool = False) -> ToolCapabilities:
        """Return the traits that matter to sub-agents and to protection against exfiltration."""
        return ToolCapabilities(
            built_in=built_in,
            network_outbound=self.network_outbound,
            subagent_access=self.subagent_access,
            actions=self.actions,
        )

    def _effects_or_own(self, effects: frozenset[Effect] | None) -> frozenset[Effect]:
        return self.effects if effects is None else effects

    @staticmethod
    def _tighten(derived: _Level, operator: _Level | None) -> _Level:
        return derived if operator is None else get_tightest(derived, operator)


def derive_tier(effects: frozenset[Effect]) -> SafetyTier:
    """Return the safety tier that follows from the effects."""
    if effects & PRIVILEGED:
        return SafetyTier.PRIVILEGED
    return SafetyTier.READ_ONLY if effects <= READING else SafetyTier.SIDE_EFFECTING


_RISKS = {SafetyTier.READ_ONLY: Risk.LOW, SafetyTier.SIDE_EFFECTING: Risk.MEDIUM, SafetyTier.PRIVILEGED: Risk.HIGH}
_CONFIRMATIONS = {
    Risk.LOW: Confirmation.NEVER,
    Risk.MEDIUM: Confirmation.IF_DESTRUCTIVE,
    Risk.HIGH: Confirmation.ALWAYS,
}


def derive_risk(effects: frozenset[Effect]) -> Risk:
    """Return the potential harm of a call with these effects; reversible effects are a low risk."""
    return Risk.LOW if effects <= REVERSIBLE else _RISKS[derive_tier(effects)]


def derive_subagent_access(effects: frozenset[Effect], can_read_only: bool) -> SubagentAccess:
    """Return a sub-agent's access to a tool; `can_read_only` means that a read-only part of the tool can be offered.

    A tool that uses the memory, and has no read-only part, is denied: the memory belongs to the main agent. Seed 002
    denies `memory_search` to sub-agents.
    """
    if effects & MEMORY and not can_read_only:
        return SubagentAccess.DENIED
    if effects <= READING:
        return SubagentAccess.FULL
    return SubagentAccess.READ_ONLY if can_read_only else SubagentAccess.DENIED


def derive_domain(effects: frozenset[Effect]) -> ToolDomain:
    """Return the process that a tool with these effects belongs in."""
    local = {
        Effect.READ_FILESYSTEM,
        Effect.WRITE_FILESYSTEM,
        Effect.DELETE_FILESYSTEM,
        Effect.EXECUTE_CODE,
        Effect.SPAWN_PROCESS,
    }
    return ToolDomain.CONTAINER if effects & local else ToolDomain.ORCHESTRATOR


def derive_annotations(effects: frozenset[Effect], *, network: bool = False) -> dict[str, bool]:
    """Return the MCP annotations of a tool with these effects."""
    reads = effects <= READING
    return {
        "readOnlyHint": reads,
        "destructiveHint": not reads,
        "idempotentHint": reads,
        "openWorldHint": network or bool(effects & NETWORKING),
    }


def read_effects(names: Iterable[Effect | str]) -> frozenset[Effect]:
    """Return the effects with these names.

    Raises:
        ConfigurationError: a name is not an effect.
    """
    found = set()
    for name in (names,) if isinstance(names, str) else names:
        try:
            found.add(Effect(name))
        except ValueError:
            known = ", ".join(Effect)
            raise ConfigurationError(f"{name!r:.40} is not an effect", hint=f"effects are {known}") from None
    return frozenset(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTerms:
    """Terms of a tool that only the embedding program can set; components and packages cannot."""

    actions: tuple[ActionDescriptor, ...] = ()
    action_param: str = "action"
    labels: tuple[str, ...] | None = None
    """Labels of its results, `private` and `untrusted`; None if they follow from its effects."""
    cost: Decimal | None = None
    """Cost of one call in the operator's currency; None if unknown."""
    seconds: float | None = None
    """Typical duration of one call."""
    settings: Mapping[str, str | bool] | None = None
    """The context of the tool's calls. None means that the caller's context is used."""
    previews: bool = False
    """True if the component returns a preview of a call, and refuses a call whose result differs from its preview."""

    def traits(self, effects: frozenset[Effect], reading: frozenset[Effect]) -> Traits:
        """Return the traits of a tool that a sandbox limits to `effects`, and in read-only views to `reading`."""
        # SECURITY: an action is limited to these effects too: naming it must not restore what was narrowed away.
        actions = tuple(replace(action, effects=action.effects & effects) for action in self.actions)
        return Traits(
            effects=effects, declared=True, enforced=True, reading=reading, actions=actions,
            action_param=self.action_param,
        )  # fmt: skip


NO_TERMS = OwnTerms()
