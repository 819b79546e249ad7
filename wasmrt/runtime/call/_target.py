"""A prepared component under a grant, shared by all its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.capabilities import (
    Capabilities,
    WorkspaceWriteCapability,
    asks_for,
    for_tool,
    make_amendment,
    with_added_entries,
    within_effects,
    within_write_paths,
)
from wasmrt.core.effects import Effect
from wasmrt.core.errors import InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import Addition
from wasmrt.runtime.call._state import Backends
from wasmrt.sandbox.component import ANY_OBJECT, ToolSpec, worlds
from wasmrt.sandbox.guest.runner import GuestComponent

if TYPE_CHECKING:
    from wasmrt.sandbox.schema import Validator

CAPABILITY_ID = "capability_id"
"""The key in a call's context that selects one of a package's tools."""
_MAX_GRANTS = 1024
WritePaths = tuple[tuple[str, ...], ...]


class EffectiveGrant(NamedTuple):
    """The part of a grant that applies to one tool, and the backends for it."""

    grant: Capabilities
    backends: Backends


class CallTarget:
    """A linked component under a grant, with the name it was prepared under.

    `tools` are the tools declared by its package; by default, the tools that the component describes.

    Raises:
        InvalidComponentError: the package declares a tool that the component does not have.
    """

    def __init__(
        self,
        name: str,
        digest: str,
        component: GuestComponent,
        grant: Capabilities,
        backends: Callable[[Capabilities], Backends],
        tools: Mapping[str, ToolSpec] | None = None,
        request: Callable[[], Capabilities] | None = None,
    ) -> None:
        self.name = name
        self.digest = digest
        self.component = component
        self.grant = grant
        self.request = request
        """Returns what an installed tool requests, which may exceed the grant; None for other tools."""
        self._own = component.description.specs
        self.specs = dict(self._own if tools is None else tools)
        """The component's tools by name."""
        decides = worlds.schema_decides(component.world)
        if tools is not None:
            self.specs.update({name: _fill_in_spec(spec, self._own.get(name), decides) for name, spec in tools.items()})
        self._packaged = tools is not None
        self.checked = self._packaged or decides
        """True if the host rejects params that do not fit the schema; otherwise the guest decides."""
        self._backends = backends
        self._whole = EffectiveGrant(grant, backends(grant))
        self._grants: dict[tuple[str, frozenset[Effect] | None, WritePaths], EffectiveGrant] = {}
        self._validators: dict[str, Validator] = {}
        self._lock = threading.Lock()
        for spec in self.specs.values():
            self._check_known(spec)

    @property
    def may_block(self) -> bool:
        """True if calls may block their thread: they read and write files, or invoke tools that may do so."""
        backends = self._whole.backends
        return backends.files_of is not None or backends.tools is not None

    @property
    def limits(self) -> ResourceLimits:
        return self.component.limits

    def derive_grant(
        self, tool: str, effects: frozenset[Effect] | None = None, write_paths: WritePaths = ()
    ) -> EffectiveGrant:
        """Return the part of the grant that applies to a call of one tool, without the parts for other tools.

        `effects` limits the call's effects; None means no limit. Each element of `write_paths` is a list of folders to
        which writes are limited.
        """
        if self.grant.get(WorkspaceWriteCapability) is None:
            write_paths = ()
        if self.grant.tools is None and effects is None and not write_paths:
            return self._whole
        key = (tool if self.grant.tools is not None else "", effects, write_paths)
        effective = self._grants.get(key)
        if effective is None:
            grant = self.grant if self.grant.tools is None else for_tool(self.grant, tool)
            if effects is not None:
                grant = within_effects(grant, effects)
            for paths in write_paths:
                grant = within_write_paths(grant, paths)
            with self._lock:
                if len(self._grants) >= _MAX_GRANTS:  # a program may create views of views in a loop
                    self._grants.clear()
                effective = self._grants.setdefault(key, EffectiveGrant(grant, self._backends(grant)))
        return effective

    def with_added_grant(self, tool: str, additions: Sequence[Addition]) -> CallTarget:
        """Return a copy of this target in which only the given tool's grant has additional entries.

        Raises:
            ConfigurationError: an entry cannot be added.
        """
        other = copy(self)
        other.grant = with_added_entries(self.grant, additions, tool if self.grant.tools is not None else None)
        other._whole = EffectiveGrant(other.grant, self._backends(other.grant))
        other._grants = {}
        return other

    @property
    def choice(self) -> str:
        """The hint for a call that names no tool, although the component has several tools."""
        return f"choose a tool (on the command line with --tool NAME): {', '.join(self.specs) or 'none'}"

    def get_name_in_grants(self, tool: str) -> str:
        """Return the name by which grants of other tools refer to this tool."""
        if tool not in self.specs:
            return self.name
        return f"{self.name}.{tool}" if len(self.specs) > 1 or self.specs[tool].capability_id else self.name

    def get_guest_name(self, tool: str) -> str:
        """Return the name of a tool within the component.

        If a component selects the tool by the context, all its tools have the same name within the component.
        """
        return tool if tool in self._own else next(iter(self._own))

    def find_amendment(self, tool: str, addition: Addition) -> str | None:
        """Return the amendment that would grant an addition, if the tool's capability file requests it, else None."""
        if self.request is None:
            return None
        requested = self.request()
        if requested.tools is None:
            return str(make_amendment(addition)) if asks_for(requested, addition) else None
        return f"tools={tool}" if asks_for(for_tool(requested, tool), addition) else None

    def accept(self, tool: str, params: Any) -> Any:
        """Return the params to pass to the tool, checked and coerced by its schema.

        The package's schema is enforced; without one, the component's own schema is enforced if its world requires it.
        In other worlds the schema is only a description: params that do not fit it are passed to the guest unchanged.

        Raises:
            InvalidParametersError: the params do not fit the enforced schema, or are not an object.
        """
        if self.component.checks_params and not self._packaged:
            return params  # the worker checks them against the component's schema in the same way
        validator = self._get_validator(tool)
        if self.checked or not isinstance(params, dict):
            return validator.accept(params)
        try:
            return validator.accept(params)
        except InvalidParametersError:
            return params

    def context(self, tool: str, given: Any) -> Any:
        """Return the context for the guest: the caller's context, plus the tool's ID if the context selects the tool.

        Raises:
            InvalidParametersError: the caller's context is not an object, so the ID cannot be added.
        """
        if (settings := self.specs[tool].own.settings) is not None:
            return dict(settings)  # settings of the operator; data from the conversation is not passed
        chosen = self.specs[tool].capability_id
        if not chosen:
            return given
        if given is not None and not isinstance(given, dict):
            raise InvalidParametersError(
                "the context for this tool must be an object", hint="pass an object, or no context"
            )
        # SECURITY: the ID must match the chosen tool and its grant, so it overrides an ID from the caller.
        return {**(given or {}), CAPABILITY_ID: chosen}

    def _get_validator(self, tool: str) -> Validator:
        from wasmrt.sandbox.schema import Validator  # see `GuestComponent.checks_params`

        validator = self._validators.get(tool)
        if validator is None:
            with self._lock:
                validator = self._validators.setdefault(tool, Validator(self.specs[tool].schema))
        return validator

    def _check_known(self, spec: ToolSpec) -> None:
        by_context = spec.capability_id and not worlds.schema_decides(self.component.world)
        if by_context or spec.name in self._own:
            return
        raise InvalidComponentError(
            f"the package declares a tool {spec.name!r} that the component does not have",
            hint=f"the component has: {', '.join(self._own) or 'none'}",
        )


def _fill_in_spec(spec: ToolSpec, own: ToolSpec | None, decides: bool) -> ToolSpec:
    """Return a tool of a package, with missing fields taken from the component's own description.

    `decides` is True if the component's world enforces the component's own schema.
    """
    if own is None:
        return spec
    described = replace(spec, description=spec.description or own.description)
    if not decides:
        return described
    return replace(
        described,
        schema=own.schema if spec.schema == ANY_OBJECT else spec.schema,
        schema_problem=own.schema_problem if spec.schema == ANY_OBJECT else spec.schema_problem,
        read_only=spec.read_only or own.read_only,
        destructive=spec.destructive or own.destructive,
        network=spec.network or own.network,
    )
