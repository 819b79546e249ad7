"""Traits of a tool: the effects it declares, and everything that is derived from them.

Effects are the one thing declared. A safety tier, a risk, a confirmation and the rest follow from them, and an operator
can only tighten what follows. Every derivation is monotone: more effects never give a looser answer.
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
    """A closed set whose members stand in order, the loosest first."""

    @property
    def order(self) -> int:
        """The place of the member: a higher one is tighter."""
        return list(type(self)).index(self)


_Level = TypeVar("_Level", bound=_Ordered)


def tightest(*levels: _Level) -> _Level:
    """Return the tightest of some levels of one kind."""
    return max(levels, key=lambda level: level.order)


class SafetyTier(_Ordered):
    """The policy class of a tool: calls of the first run at once, those of the last are asked for.

    Example:
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
    """The harm that a call can do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Confirmation(_Ordered):
    """The calls that a person, or a token that a person's approval made, has to confirm."""

    NEVER = "never"
    IF_DESTRUCTIVE = "if-destructive"
    ALWAYS = "always"


class SubagentAccess(_Ordered):
    """The part of a tool that an agent started by an agent has."""

    FULL = "full"
    READ_ONLY = "read-only"
    DENIED = "denied"


class ToolDomain(StrEnum):
    """The place a tool belongs to: the agent's own process, or a confined one."""

    ORCHESTRATOR = "orchestrator"
    CONTAINER = "container"


@dataclass(frozen=True, slots=True)
class ActionDescriptor:
    """One action of a tool that has several, told apart by one parameter."""

    name: str
    effects: frozenset[Effect] = EVERY_EFFECT

    @property
    def read_only(self) -> bool:
        """True where nothing that it does changes anything."""
        return self.effects <= READING


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCapabilities:
    """The traits of a tool in the terms of a sub-agent and of a guard against exfiltration."""

    built_in: bool = False
    network_outbound: bool = False
    subagent_access: SubagentAccess = SubagentAccess.DENIED
    actions: tuple[ActionDescriptor, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightening:
    """An operator's stricter word on one tool. None leaves what is derived; nothing here can loosen it."""

    tier: SafetyTier | None = None
    risk: Risk | None = None
    confirmation: Confirmation | None = None
    subagent_access: SubagentAccess | None = None
    network_outbound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """The effects of a tool, as a whole and for each of its actions, and whether a sandbox holds it to them.

    Raises:
        ConfigurationError: an action stands there twice, or there are too many.
    """

    effects: frozenset[Effect] = EVERY_EFFECT
    """Those that it may have. A tool that declares none at all is taken to have every one."""
    declared: bool = False
    """True where somebody said which; else `effects` is every one because nobody did."""
    enforced: bool = False
    """True where a sandbox holds each call to the effects that it is given, so that a view can narrow it."""
    actions: tuple[ActionDescriptor, ...] = ()
    action_param: str = "action"
    tightening: Tightening = field(default_factory=Tightening)

    def __post_init__(self) -> None:
        names = [action.name for action in self.actions]
        if len(set(names)) < len(names) or len(names) > MAX_ACTIONS:
            raise ConfigurationError(f"a tool's actions are up to {MAX_ACTIONS}, each named once")

    @classmethod
    def of(
        cls,
        effects: Iterable[Effect | str] | None,
        actions: Mapping[str, Iterable[Effect | str]] | None = None,
        action_param: str = "action",
    ) -> Traits:
        """Return the traits of a tool that declares these effects; None declares nothing, and is taken for everything.

        Effects of an action are added to those of the tool.

        Raises:
            ConfigurationError: an effect is not one of the closed set.
        """
        base = read_effects(effects or ())
        listed = tuple(ActionDescriptor(name, base | read_effects(own)) for name, own in (actions or {}).items())
        whole = EVERY_EFFECT if effects is None and not listed else base
        whole = whole.union(*(action.effects for action in listed))
        declared = effects is not None or bool(listed)
        return cls(effects=whole, declared=declared, actions=listed, action_param=action_param)

    def action(self, params: Any) -> ActionDescriptor | None:
        """Return the action that params name; None where they name none that is known."""
        named = params.get(self.action_param) if isinstance(params, Mapping) else None
        if not isinstance(named, str):
            return None
        return next((action for action in self.actions if action.name == named), None)

    def effects_of(self, params: Any) -> frozenset[Effect]:
        """Return the effects that a call with `params` may have: its action's, else those of the whole tool."""
        action = self.action(params) if self.actions else None
        return self.effects if action is None else action.effects

    def within(self, effects: frozenset[Effect]) -> Traits:
        """Return the traits of the same tool held to `effects`."""
        actions = tuple(action for action in self.actions if action.effects <= effects)
        return replace(self, effects=self.effects & effects, actions=actions)

    def tightened(self, tightening: Tightening) -> Traits:
        """Return the traits under an operator's stricter word."""
        return replace(self, tightening=tightening)

    # -- what follows from the effects -----------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        """True where nothing that the tool may do changes anything."""
        return self.effects <= READING

    def tier(self, effects: frozenset[Effect] | None = None) -> SafetyTier:
        """Return the safety tier of a call with these effects, by default of the whole tool."""
        return self._at_least(tier_of(self._or_own(effects)), self.tightening.tier)

    def risk(self, effects: frozenset[Effect] | None = None) -> Risk:
        """Return the risk of a call with these effects, by default of the whole tool."""
        wanted = self.tightening.tier
        derived = self._at_least(risk_of(self._or_own(effects)), None if wanted is None else _RISKS[wanted])
        return self._at_least(derived, self.tightening.risk)

    def confirmation(self, effects: frozenset[Effect] | None = None) -> Confirmation:
        """Return which calls have to be confirmed; it follows from the risk."""
        return self._at_least(_CONFIRMATIONS[self.risk(effects)], self.tightening.confirmation)

    def needs_confirmation(self, effects: frozenset[Effect]) -> bool:
        """Tell whether a call with these effects has to be confirmed: always, or because it changes something."""
        wanted = self.confirmation(effects)
        return wanted is Confirmation.ALWAYS or (wanted is Confirmation.IF_DESTRUCTIVE and not effects <= READING)

    @property
    def network_outbound(self) -> bool:
        """True where the tool may speak to somebody outside."""
        return self.tightening.network_outbound or bool(self.effects & NETWORKING)

    @property
    def subagent_access(self) -> SubagentAccess:
        """The part of the tool that a sub-agent has."""
        reads = self.enforced or any(action.read_only for action in self.actions)
        return self._at_least(subagent_access_of(self.effects, reads), self.tightening.subagent_access)

    @property
    def domain(self) -> ToolDomain:
        """The place the tool belongs to."""
        return domain_of(self.effects)

    def annotations(self) -> dict[str, bool]:
        """Return the hints that the Model Context Protocol has for a tool (ToolAnnotations, 2025-06-18)."""
        return annotations_of(self.effects, network=self.network_outbound)

    def capabilities(self, *, built_in: bool = False) -> ToolCapabilities:
        """Return the traits in the terms of a sub-agent and of a guard against exfiltration."""
        return ToolCapabilities(
            built_in=built_in,
            network_outbound=self.network_outbound,
            subagent_access=self.subagent_access,
            actions=self.actions,
        )

    def _or_own(self, effects: frozenset[Effect] | None) -> frozenset[Effect]:
        return self.effects if effects is None else effects

    @staticmethod
    def _at_least(derived: _Level, operator: _Level | None) -> _Level:
        return derived if operator is None else tightest(derived, operator)


def tier_of(effects: frozenset[Effect]) -> SafetyTier:
    """Return the safety tier that effects have."""
    if effects & PRIVILEGED:
        return SafetyTier.PRIVILEGED
    return SafetyTier.READ_ONLY if effects <= READING else SafetyTier.SIDE_EFFECTING


_RISKS = {
    SafetyTier.READ_ONLY: Risk.LOW,
    SafetyTier.SIDE_EFFECTING: Risk.MEDIUM,
    SafetyTier.PRIVILEGED: Risk.HIGH,
}
_CONFIRMATIONS = {
    Risk.LOW: Confirmation.NEVER,
    Risk.MEDIUM: Confirmation.IF_DESTRUCTIVE,
    Risk.HIGH: Confirmation.ALWAYS,
}


def risk_of(effects: frozenset[Effect]) -> Risk:
    """Return the harm that a call with these effects can do; what can be taken back is little."""
    return Risk.LOW if effects <= REVERSIBLE else _RISKS[tier_of(effects)]


def subagent_access_of(effects: frozenset[Effect], can_read_only: bool) -> SubagentAccess:
    """Return what a sub-agent has of a tool; `can_read_only` says whether a part of it can be had that only reads.

    The memory is the agent's own (seed 002: `memory_search` is denied to sub-agents).
    """
    if effects & MEMORY and not can_read_only:
        return SubagentAccess.DENIED
    if effects <= READING:
        return SubagentAccess.FULL
    return SubagentAccess.READ_ONLY if can_read_only else SubagentAccess.DENIED


def domain_of(effects: frozenset[Effect]) -> ToolDomain:
    """Return the place for a tool with these effects."""
    local = {
        Effect.READ_FILESYSTEM,
        Effect.WRITE_FILESYSTEM,
        Effect.DELETE_FILESYSTEM,
        Effect.EXECUTE_CODE,
        Effect.SPAWN_PROCESS,
    }
    return ToolDomain.CONTAINER if effects & local else ToolDomain.ORCHESTRATOR


def annotations_of(effects: frozenset[Effect], *, network: bool = False) -> dict[str, bool]:
    """Return the hints that the Model Context Protocol has for a tool with these effects."""
    reads = effects <= READING
    return {
        "readOnlyHint": reads,
        "destructiveHint": not reads,
        "idempotentHint": reads,
        "openWorldHint": network or bool(effects & NETWORKING),
    }


def read_effects(names: Iterable[Effect | str]) -> frozenset[Effect]:
    """Return effects by their names.

    Raises:
        ConfigurationError: a name is none of the closed set.
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
    """Terms of a tool that the program says itself. No component and no package can set them."""

    actions: tuple[ActionDescriptor, ...] = ()
    action_param: str = "action"
    labels: tuple[str, ...] | None = None
    """Labels of its results, `private` and `untrusted`; None where they follow from its effects."""
    cost: Decimal | None = None
    """Of one call, in the operator's currency; None for unknown."""
    seconds: float | None = None
    """Of one call, usually."""
    settings: Mapping[str, str] | None = None
    """The context of each of its calls, in place of the caller's; None for the caller's."""

    def traits(self, effects: frozenset[Effect]) -> Traits:
        """Return the traits of a tool that a sandbox holds to `effects`."""
        # SECURITY: an action is never more than that: what was narrowed away is not had by naming it.
        actions = tuple(replace(action, effects=action.effects & effects) for action in self.actions)
        return Traits(effects=effects, declared=True, enforced=True, actions=actions, action_param=self.action_param)


NO_TERMS = OwnTerms()
