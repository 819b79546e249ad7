"""The host's side of a prepared component, shared by all calls of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from wasmrt.capabilities import (
    Capabilities,
    WorkspaceWriteCapability,
    amendment_of,
    asks_for,
    for_tool,
    grown,
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
"""The key of a call's context that tells a component of a package which of its tools is meant."""
_MAX_POWERS = 1024
WritePaths = tuple[tuple[str, ...], ...]


class Power(NamedTuple):
    """The part of a grant that one tool has, and the services that act on it."""

    grant: Capabilities
    backends: Backends


class CallTarget:
    """A linked component under a grant, by the name that it was prepared under.

    `tools` are the tools that its package says it has; without them, those that it says itself.

    Raises:
        InvalidComponentError: the package names a tool that the component does not have.
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
        """Reads what an installed tool asks for, of which somebody may have granted it a part; None for others."""
        self._own = component.description.specs
        self.specs = dict(self._own if tools is None else tools)
        """Its tools by name."""
        decides = worlds.schema_decides(component.world)
        if tools is not None:
            self.specs.update({name: _completed(spec, self._own.get(name), decides) for name, spec in tools.items()})
        self._packaged = tools is not None
        self.checked = self._packaged or decides
        """True where params that do not fit the schema are refused; else the guest decides."""
        self._backends = backends
        self._whole = Power(grant, backends(grant))
        self._powers: dict[tuple[str, frozenset[Effect] | None, WritePaths], Power] = {}
        self._validators: dict[str, Validator] = {}
        self._lock = threading.Lock()
        for spec in self.specs.values():
            self._check_known(spec)

    @property
    def limits(self) -> ResourceLimits:
        return self.component.limits

    def power(self, tool: str, effects: frozenset[Effect] | None = None, write_paths: WritePaths = ()) -> Power:
        """Return what a call of one tool may do: that tool's part of the grant, and nothing of another's.

        `effects` are those that the call is held to; None for all that the grant gives. Each of `write_paths` are the
        folders that it writes below.
        """
        if self.grant.get(WorkspaceWriteCapability) is None:
            write_paths = ()
        if self.grant.tools is None and effects is None and not write_paths:
            return self._whole
        key = (tool if self.grant.tools is not None else "", effects, write_paths)
        power = self._powers.get(key)
        if power is None:
            grant = self.grant if self.grant.tools is None else for_tool(self.grant, tool)
            if effects is not None:
                grant = within_effects(grant, effects)
            for paths in write_paths:
                grant = within_write_paths(grant, paths)
            with self._lock:
                if len(self._powers) >= _MAX_POWERS:  # whoever makes views of views in a loop
                    self._powers.clear()
                power = self._powers.setdefault(key, Power(grant, self._backends(grant)))
        return power

    def with_added_grant(self, tool: str, additions: Sequence[Addition]) -> CallTarget:
        """Return the same component under a grant in which one tool has more entries, and no other tool has them.

        Raises:
            ConfigurationError: an entry cannot be added.
        """
        other = copy(self)
        other.grant = grown(self.grant, additions, tool if self.grant.tools is not None else None)
        other._whole = Power(other.grant, self._backends(other.grant))
        other._powers = {}
        return other

    @property
    def choice(self) -> str:
        """The next step for whoever chose none of several tools."""
        return f"choose one, with --tool NAME or .tool(name): {', '.join(self.specs) or 'none'}"

    def action(self, tool: str) -> str:
        """Return the name by which another tool's grant would mean this tool."""
        if tool not in self.specs:
            return self.name
        return f"{self.name}.{tool}" if len(self.specs) > 1 or self.specs[tool].capability_id else self.name

    def guest_tool(self, tool: str) -> str:
        """Return the component's own name for a tool; a component whose context decides has one for all."""
        return tool if tool in self._own else next(iter(self._own))

    def to_ask(self, tool: str, addition: Addition) -> str | None:
        """Return the amendment of the grant that allows a tool what its file asks for and nobody granted, else None."""
        if self.request is None:
            return None
        asked = self.request()
        if asked.tools is None:
            return str(amendment_of(addition)) if asks_for(asked, addition) else None
        return f"tools={tool}" if asks_for(for_tool(asked, tool), addition) else None

    def accept(self, tool: str, params: Any) -> Any:
        """Return the params as the tool gets them.

        The package's schema decides; without one the component's own, where its world says so. Another world's only
        describes: params that do not fit it go to the guest as they are, which decides.

        Raises:
            InvalidParametersError: they do not fit the schema that decides, or are no object.
        """
        if self.component.checks_params and not self._packaged:
            return params  # where the guest lives they are held against its own schema, by the same rule
        validator = self._validator(tool)
        if self.checked or not isinstance(params, dict):
            return validator.accept(params)
        try:
            return validator.accept(params)
        except InvalidParametersError:
            return params

    def context(self, tool: str, given: Any) -> Any:
        """Return the context that the guest gets: the caller's, with the tool's id where the context tells tools apart.

        Raises:
            InvalidParametersError: the caller's is no object, so that the id cannot be put into it.
        """
        if (settings := self.specs[tool].own.settings) is not None:
            return dict(settings)  # the operator's, and nothing of the conversation
        chosen = self.specs[tool].capability_id
        if not chosen:
            return given
        if given is not None and not isinstance(given, dict):
            raise InvalidParametersError("the context of this tool must be an object", hint="pass one, or none")
        # SECURITY: the tool that was chosen decides, and its grant with it; a caller's own id is never passed on.
        return {**(given or {}), CAPABILITY_ID: chosen}

    def _validator(self, tool: str) -> Validator:
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
            f"its package names a tool {spec.name!r} that the component does not have",
            hint=f"the component has: {', '.join(self._own) or 'none'}",
        )


def _completed(spec: ToolSpec, own: ToolSpec | None, decides: bool) -> ToolSpec:
    """Return what a package says of a tool, and where it says nothing, what the component does.

    `decides` is true for a world whose components' own schemas count.
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
