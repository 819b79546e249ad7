"""A registered tool, with its names and its definitions for models."""

from __future__ import annotations

import json
import threading
from functools import cached_property
from typing import Any

from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._function import action_names
from wasmrt.agent.registry._tool import Tool, ToolSource
from wasmrt.agent.safety import Sanitizer
from wasmrt.core.effects import Effect
from wasmrt.core.model import Addition
from wasmrt.core.names import offered_name
from wasmrt.core.traits import Traits
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.schema import Validator, is_light
from wasmrt.sandbox.schema.providers import Provider, render

_SANITIZER = Sanitizer()
_MAX_VARIANTS = 64


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
        self.is_component = isinstance(tool, PreparedTool)
        self._lock = threading.Lock()
        self._definitions: dict[tuple[str, frozenset[str] | None], str] = {}
        self._tightened_traits: tuple[Traits, ToolPolicy, Traits] | None = None
        self._variants: dict[tuple[Addition, ...], RegisteredTool] = {}

    def traits(self, policy: ToolPolicy) -> Traits:
        """Return the tool's current traits, restricted by the rules of `policy`."""
        own = self.tool.traits
        kept = self._tightened_traits
        if kept is None or kept[0] is not own or kept[1] is not policy:
            kept = self._tightened_traits = (own, policy, own.tightened(policy.tightening_for(self.name)))
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
