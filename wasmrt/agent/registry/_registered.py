"""A registered tool with its definitions for models, and the restrictions of a view: they decide about its calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from wasmrt.agent.flows import find_declaration
from wasmrt.agent.policy import (
    NO_TIGHTENING,
    ExfiltrationGuard,
    Names,
    Preset,
    ToolPolicy,
    decide_exfiltration,
    decide_preset,
    fits,
    remove_aliases,
)
from wasmrt.agent.registry._function import action_names
from wasmrt.agent.registry._tool import Tool
from wasmrt.agent.safety import Sanitizer
from wasmrt.core.effects import EVERY_EFFECT, NETWORKING, READING, Effect
from wasmrt.core.model import Addition, Decision, Reason, Step
from wasmrt.core.names import offered_name
from wasmrt.core.setting_commands import set_command
from wasmrt.core.tool_defaults import Declaration
from wasmrt.core.traits import SubagentAccess, Traits
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.schema import Validator, is_light
from wasmrt.sandbox.schema.providers import Provider, render

_SANITIZER = Sanitizer()
_MAX_VARIANTS = 64
WIDER_HINT = "call it outside of the read-only view"
"""The hint for a call that was denied by `read_only()` or by the option --read-only."""


class ToolSource(StrEnum):
    """The origin of a tool.

    Examples:
        >>> from wasmrt import ToolRegistry, ToolSource, tool
        >>> @tool(effects=[])
        ... def ping() -> str:
        ...     "Return pong."
        ...     return "pong"
        >>> registry = ToolRegistry()
        >>> _ = registry.register(ping, source=ToolSource.FUNCTION)
        >>> registry.source("ping")
        <ToolSource.FUNCTION: 'function'>
    """

    BUILTIN = "builtin"
    FUNCTION = "function"
    COMPONENT = "component"
    """A component that the program prepared itself."""
    INSTALLED = "installed"
    PLUGIN = "plugin"
    MCP_LOCAL = "mcp-local"
    MCP_VERIFIED = "mcp-verified"
    MCP_COMMUNITY = "mcp-community"

    @property
    def external(self) -> bool:
        """True if the filter for external tools applies: the program's own code did not register the tool."""
        return self not in (ToolSource.BUILTIN, ToolSource.FUNCTION, ToolSource.COMPONENT)


OWN_SOURCES = (ToolSource.BUILTIN, ToolSource.FUNCTION)
"""Sources of tools whose code is part of the program. The declarations of these tools are trusted."""


def _find_declaration(tool: Tool, source: ToolSource) -> Declaration | None:
    if not isinstance(tool, PreparedTool) or source not in (ToolSource.INSTALLED, ToolSource.BUILTIN):
        return tool.declaration
    package, _, name = tool.component
    publisher = "wasmrt:tools" if source is ToolSource.BUILTIN else f"package:{package}"
    return find_declaration((publisher,), name, tool.schema)


class RegisteredTool:
    """One tool of a registry. Values that are derived from the tool are cached."""

    def __init__(self, tool: Tool, name: str, source: ToolSource, group: str, aliases: tuple[str, ...]) -> None:
        self.tool = tool
        self.name = name
        self.offered = offered_name(name)
        """The name for models. It is valid for every provider."""
        self.source = source
        self.group = group
        self.aliases = aliases
        self.names = (name, *aliases)
        """The name, then the aliases: a rule of the policy applies to the tool under each of them."""
        self.is_component = isinstance(tool, PreparedTool)
        self.declaration = _find_declaration(tool, source)
        self._lock = threading.Lock()
        self._definitions: dict[tuple[str, frozenset[str] | None], str] = {}
        self._tightened_traits: tuple[Traits, ToolPolicy, Traits] | None = None
        self._variants: dict[tuple[Addition, ...], RegisteredTool] = {}

    def traits(self, policy: ToolPolicy) -> Traits:
        """Return the tool's current traits, restricted by the rules of `policy`."""
        own = self.tool.traits
        kept = self._tightened_traits
        if kept is None or kept[0] is not own or kept[1] is not policy:
            kept = self._tightened_traits = (own, policy, own.tightened(policy.find_restrictions(self.names)))
        return kept[2]

    def with_added_grant(self, additions: tuple[Addition, ...]) -> RegisteredTool:
        """Return a copy of this tool with `additions` in its grant.

        Raises:
            ConfigurationError: one of the additions cannot be added to the grant.
        """
        found = self._variants.get(additions)
        if found is None:
            assert isinstance(self.tool, PreparedTool)
            found = RegisteredTool(
                self.tool.with_added_grant(additions), self.name, self.source, self.group, self.aliases
            )
            with self._lock:
                if len(self._variants) >= _MAX_VARIANTS:
                    self._variants.clear()
                self._variants[additions] = found
        return found

    @property
    def digest(self) -> str:
        """The digest of the tool's code; if it is empty, approvals are never remembered."""
        return self.tool.digest

    @property
    def grant_digest(self) -> str:
        """The digest of the tool's current grant and effects."""
        return self.tool.grant_digest or repr(sorted(self.tool.traits.effects))

    @property
    def granted_effects(self) -> frozenset[Effect]:
        """All effects that a call without further restrictions can have."""
        granted = self.tool.granted_effects
        return self.tool.traits.effects if granted is None else granted

    @property
    def document(self) -> str:
        """The document for models from the tool's package, or an empty string."""
        # SECURITY: this text is untrusted, like a result, and models read it.
        document: str = _sanitize(self.tool.prompt)
        return document

    @cached_property
    def validator(self) -> Validator | None:
        """The validator for params in this process; None if the tool's worker process validates the params.

        SECURITY: a component's schema is untrusted, so only small schemas are evaluated in this process.
        """
        tool = self.tool
        here = not isinstance(tool, PreparedTool) or (tool.checks_params and is_light(tool.schema))
        return Validator(tool.schema) if here else None

    def definition(self, provider: Provider, actions: frozenset[str] | None) -> dict[str, Any]:
        """Return the tool's definition for a provider. It lists only the given actions; None means all actions."""
        key = (provider, actions)
        text = self._definitions.get(key)
        if text is None:
            text = json.dumps(self._render_definition(provider, actions))
            with self._lock:
                if len(self._definitions) > 64:
                    self._definitions.clear()
                self._definitions[key] = text
        found: dict[str, Any] = json.loads(text)
        return found

    def _render_definition(self, provider: Provider, actions: frozenset[str] | None) -> dict[str, Any]:
        tool = self.tool
        # SECURITY: schema and description are untrusted, like a result, and models read them.
        schema, description = _sanitize(tool.schema), _sanitize(tool.description)
        if actions is not None:
            schema = with_actions(schema, tool.traits.action_param, actions)
            description = f"{description.rstrip()} Actions here: {', '.join(sorted(actions))}.".lstrip()
        rendered = render(self.offered, description, schema, provider, prompt=self.document)
        output = tool.output_schema
        if provider == "mcp" and output is not None and is_light(output):
            # SECURITY: the schema is untrusted. A large schema is omitted, because it could not be checked here.
            rendered["outputSchema"] = _sanitize(output)
        return rendered


def _sanitize(value: Any) -> Any:
    if isinstance(value, str):
        return _SANITIZER.sanitize(value).text
    if isinstance(value, list):
        return [_sanitize(item) for item in value]
    if isinstance(value, dict):
        return {_sanitize(key): _sanitize(item) for key, item in value.items()}
    return value


def with_actions(schema: dict[str, Any], param: str, actions: frozenset[str]) -> dict[str, Any]:
    """Return a copy of a schema in which the action parameter is required and accepts only `actions`."""
    listed = action_names(schema, param) or ()
    kept = [name for name in listed if name in actions] or sorted(actions)
    properties = dict(schema.get("properties", {}))
    old = properties.get(param)
    words = {"description": old["description"]} if isinstance(old, dict) and "description" in old else {}
    properties[param] = {"type": "string", "enum": kept} | words
    required = [*schema.get("required", ()), *([] if param in schema.get("required", ()) else [param])]
    return {**schema, "properties": properties, "required": required}


class ToolRestrictions(NamedTuple):
    """The restrictions of a view: which tools it includes, and which effects calls of these tools may have."""

    read_only: bool = False
    subagent: bool = False
    guards: tuple[ExfiltrationGuard, ...] = ()
    presets: tuple[Preset, ...] = ()
    names: tuple[tuple[str, ...], ...] = ()
    """Tuples of patterns. The view includes a tool only if the tool's name matches a pattern in every tuple."""

    def get_allowed_effects(self, traits: Traits) -> frozenset[Effect]:
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

    def get_sandbox_effects(self, guard: ExfiltrationGuard, names: Names) -> frozenset[Effect]:
        """Return the effects that the sandbox allows a tool and the tools it invokes.

        They exclude the network if a preset or a guard denies it.
        """
        offline = any(not preset.allow_network for preset in self.presets)
        guarded = any(each.enabled and not fits(names, each.allow_tools) for each in (guard, *self.guards))
        return EVERY_EFFECT - NETWORKING if offline or guarded else EVERY_EFFECT

    @property
    def write_paths(self) -> tuple[tuple[str, ...], ...]:
        """For each preset, the workspace folders to which a sandboxed tool may write."""
        return tuple(dict.fromkeys(tuple(preset.allow_write_paths) for preset in self.presets))

    def decide_presets(self, names: Names, traits: Traits) -> Decision | None:
        """Decide whether the active preset and every other preset of the view allow the tool."""
        decision = None
        for preset in self.presets:
            decision = decide_preset(preset, names, traits)._replace(policy=preset.digest)
            if not decision.allowed:
                return decision
        return decision

    def decide_guards(self, guard: ExfiltrationGuard, names: Names, traits: Traits) -> Decision | None:
        """Decide whether the policy's guard and the view's guards allow the tool."""
        decision = None
        for each in (guard, *self.guards):
            found = decide_exfiltration(each, names, traits)
            if found is not None and each is not guard and not found.allowed:
                found = found._replace(suggestion=Step("call it outside of the view without network (--no-network)"))
            if found is not None:
                decision = found
                if not found.allowed:
                    return found
        return decision

    def decide_access(self, names: Names, traits: Traits) -> Decision | None:
        """Decide whether the view includes the tool: by the name, and by the access that sub-agents have."""
        name = remove_aliases(names)
        if not all(fits(names, patterns) for patterns in self.names):
            rule, hint = "the view does not include this tool", "call it outside of this view (--tool)"
            return Decision(False, Reason.NOT_IN_VIEW, rule, hint, "tool.view", name)
        what = "tool.subagent"
        if self.subagent and traits.subagent_access is SubagentAccess.DENIED:
            rule = "sub-agents cannot use this tool, which has no read-only actions"
            hint = "no setting allows this tool for sub-agents: have the agent itself call it"
            if replace(traits, tightening=NO_TIGHTENING).subagent_access is not SubagentAccess.DENIED:
                hint = f"remove subagent_access from the rules for {name}: wasmrt config show tools.rules"
            return Decision(False, Reason.SUBAGENT_DENIED, rule, hint, what, name)
        return None

    def make_wider_hint(self) -> str:
        """Return the hint that says how to remove the view's restriction of effects."""
        preset = next((preset for preset in self.presets if preset.read_only), None)
        if preset is not None and not self.read_only and not self.subagent:
            return set_command("presets.NAME.read_only", False, preset.name)
        return WIDER_HINT if self.read_only else "have the agent itself call it instead of a sub-agent"


def list_allowed_actions(traits: Traits, allowed: frozenset[Effect]) -> frozenset[str] | None:
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
    action. A sandboxed tool without actions is allowed if it can read, because the sandbox enforces the effects.
    """
    what, listed = "tool.effects", list_allowed_actions(traits, allowed)
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
    elif not traits.effects <= allowed and not traits.has_reading_part:
        over = ", ".join(sorted(traits.effects - allowed))
        rule = f"the tool can {over}, which the view does not allow"
        return Decision(False, Reason.EFFECT_NOT_ALLOWED, rule, wider(), what, name)
    return None


def is_visible(traits: Traits, allowed: frozenset[Effect]) -> bool:
    """Return whether a view includes any part of a tool."""
    listed = list_allowed_actions(traits, allowed)
    if listed is not None:
        return bool(listed)
    return traits.effects <= allowed or traits.has_reading_part
