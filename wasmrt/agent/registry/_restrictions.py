"""The restrictions of a view. Every further restriction narrows the view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from wasmrt.agent.policy import NO_TIGHTENING, ExfiltrationGuard, Preset, decide_guard, decide_preset, fits
from wasmrt.core.effects import EVERY_EFFECT, NETWORKING, READING, Effect
from wasmrt.core.model import Decision, Reason, Step
from wasmrt.core.strict_toml import section_of
from wasmrt.core.traits import SubagentAccess, Traits

WIDER_HINT = "call it outside of the read-only view"
"""The hint for a call that was denied by `read_only()` or by the option --read-only."""


class ToolRestrictions(NamedTuple):
    """The restrictions of a view: which tools it includes, and which effects calls of these tools may have."""

    read_only: bool = False
    subagent: bool = False
    guards: tuple[ExfiltrationGuard, ...] = ()
    presets: tuple[Preset, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    """Tuples of patterns. The view includes a tool only if the tool's name matches a pattern in every tuple."""

    def allowed_effects(self, traits: Traits) -> frozenset[Effect]:
        """Return the effects that the view allows for calls of a tool."""
        effects = EVERY_EFFECT
        if self.read_only or any(preset.read_only for preset in self.presets):
            effects &= READING
        if self.subagent and traits.subagent_access is not SubagentAccess.FULL:
            effects &= READING
        return effects

    @property
    def narrows(self) -> bool:
        """True if the view allows less than the registry allows without a view."""
        return self.read_only or self.subagent or bool(self.guards or self.presets)

    def sandbox_effects(self, guard: ExfiltrationGuard, name: str) -> frozenset[Effect]:
        """Return the effects that the sandbox allows a tool and the tools it invokes.

        They exclude the network if a preset or a guard denies it.
        """
        offline = any(not preset.allow_network for preset in self.presets)
        guarded = any(each.enabled and not fits(name, each.allow_tools) for each in (guard, *self.guards))
        return EVERY_EFFECT - NETWORKING if offline or guarded else EVERY_EFFECT

    @property
    def write_paths(self) -> tuple[tuple[str, ...], ...]:
        """For each preset, the workspace folders to which a sandboxed tool may write."""
        return tuple(dict.fromkeys(tuple(preset.allow_write_paths) for preset in self.presets))

    def decide_presets(self, name: str, traits: Traits) -> Decision | None:
        """Decide whether the active preset and every other preset of the view allow the tool."""
        decision = None
        for preset in self.presets:
            decision = decide_preset(preset, name, traits)._replace(policy=preset.digest)
            if not decision.allowed:
                return decision
        return decision

    def decide_guards(self, guard: ExfiltrationGuard, name: str, traits: Traits) -> Decision | None:
        """Decide whether the policy's guard and the view's guards allow the tool."""
        decision = None
        for each in (guard, *self.guards):
            found = decide_guard(each, name, traits)
            if found is not None and each is not guard and not found.allowed:
                found = found._replace(suggestion=Step(f'make the view with without_network(allow=["{name}"])'))
            if found is not None:
                decision = found
                if not found.allowed:
                    return found
        return decision

    def decide_access(self, name: str, traits: Traits) -> Decision | None:
        """Decide whether the view includes the tool: by the name, and by the access that sub-agents have."""
        if not all(fits(name, patterns) for patterns in self.names):
            rule, hint = "the view does not include this tool", f'make the view with only(["{name}"])'
            return Decision(False, Reason.NOT_IN_VIEW, rule, hint, "tool.view", name)
        what = "tool.subagent"
        if self.subagent and traits.subagent_access is SubagentAccess.DENIED:
            rule = "sub-agents cannot use this tool, which has no read-only actions"
            hint = "no setting allows this tool for sub-agents: have the agent itself call it"
            if replace(traits, tightening=NO_TIGHTENING).subagent_access is not SubagentAccess.DENIED:
                hint = f"remove subagent_access from the rules for {name} below [tools.rules]"
            return Decision(False, Reason.SUBAGENT_DENIED, rule, hint, what, name)
        return None

    def wider_hint(self) -> str:
        """Return the hint that says how to remove the view's restriction of effects."""
        preset = next((preset for preset in self.presets if preset.read_only), None)
        if preset is not None and not self.read_only and not self.subagent:
            return f"set read_only = false in [{section_of('presets', preset.name)}]"
        return WIDER_HINT if self.read_only else "have the agent itself call it instead of a sub-agent"


def actions_within(traits: Traits, allowed: frozenset[Effect]) -> frozenset[str] | None:
    """Return the names of the actions whose effects are allowed.

    Return None if all effects of the tool are allowed, or if the tool has no actions.
    """
    if not traits.actions or traits.effects <= allowed:
        return None
    return frozenset(action.name for action in traits.actions if action.effects <= allowed)


def decide_effects(
    name: str,
    traits: Traits,
    allowed: frozenset[Effect],
    params: object,
    *,
    wider: Callable[[], str] = lambda: WIDER_HINT,
) -> Decision | None:
    """Decide whether a call has only the effects that its view allows; `wider` returns the hint for a denial.

    SECURITY: if the action is missing or is not a string, the call is denied, because the tool may have a default
    action. A sandboxed tool without actions is allowed, because the sandbox enforces the effects.
    """
    what, listed = "tool.effects", actions_within(traits, allowed)
    if listed is not None:
        action, choose = traits.action(params), f"choose one of {', '.join(sorted(listed))}, or " if listed else ""
        if action is None:
            rule = f"the view allows only some actions, and the parameter {traits.action_param!r} names no known action"
            hint = f"{choose}{wider()}"
            return Decision(False, Reason.ACTION_MISSING, rule, hint, what, name)
        if action.name not in listed:
            over = ", ".join(sorted(action.effects - allowed))
            rule = f"the action {action.name} can {over}, which the view does not allow"
            hint = f"{choose}{wider()}"
            return Decision(False, Reason.ACTION_NOT_ALLOWED, rule, hint, what, name)
    elif not traits.effects <= allowed and not traits.enforced:
        over = ", ".join(sorted(traits.effects - allowed))
        rule = f"the tool can {over}, which the view does not allow"
        return Decision(False, Reason.EFFECT_NOT_ALLOWED, rule, wider(), what, name)
    return None


def is_visible(traits: Traits, allowed: frozenset[Effect]) -> bool:
    """Return whether a view includes any part of a tool."""
    listed = actions_within(traits, allowed)
    if listed is not None:
        return bool(listed)
    return traits.effects <= allowed or traits.enforced
