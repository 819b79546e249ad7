"""What a tool may do. Frozen, hashable, and empty unless something was added: no power is ever assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from wasmrt.errors import ConfigurationError
from wasmrt.limits import ResourceLimits

if TYPE_CHECKING:
    from wasmrt.capabilities._endpoint import EndpointPattern
    from wasmrt.capabilities._powers import (
        HttpCapability,
        SecretsCapability,
        ToolInvokeCapability,
        WorkspaceCapability,
    )
    from wasmrt.model import Decision
    from wasmrt.url._addresses import Network

T = TypeVar("T")
MAX_CALL_TIMEOUT_SECONDS = 86_400
_MAX_NUMBER = 2**53 - 1


def check_numbers(owner: object, *names: str, maximum: int = _MAX_NUMBER) -> None:
    """Raise ConfigurationError unless each named attribute is a number above 0 and at most `maximum`."""
    for name in names:
        value = getattr(owner, name)
        kind = (int, float) if name.endswith("_seconds") else int
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value <= maximum:
            wanted = "whole number" if kind is int else "number"
            raise ConfigurationError(f"{name} must be a positive {wanted} of at most {maximum}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What one tool may use where it needs other limits than the runtime's; None keeps the runtime's."""

    memory_bytes: int | None = None
    fuel: int | None = None
    timeout_seconds: float | None = None
    output_bytes: int | None = None
    table_elements: int | None = None
    instances: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, *self.overrides())
        if self.timeout_seconds is not None:
            check_numbers(self, "timeout_seconds", maximum=MAX_CALL_TIMEOUT_SECONDS)

    def overrides(self) -> dict[str, Any]:
        """The limits that are set."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def over(self, defaults: ResourceLimits) -> ResourceLimits:
        """Return the runtime's limits with these in their place."""
        return replace(defaults, **self.overrides())


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Every power of one tool. Built up from `Capabilities.none()`; each `with_...` returns a new value."""

    http: HttpCapability | None = None
    workspace_read: WorkspaceCapability | None = None
    secrets: SecretsCapability | None = None
    tool_invoke: ToolInvokeCapability | None = None
    limits: ToolLimits = ToolLimits()

    @classmethod
    def none(cls) -> Capabilities:
        """No power at all."""
        return cls()

    @classmethod
    def parse(cls, data: str | bytes) -> Capabilities:
        """What a capability file asks for.

        Raises:
            CapabilityFileError: the file is refused; `problems` lists every mistake with its path.
        """
        from wasmrt.capabilities.file._parse import parse

        return parse(data).capabilities

    def with_http(self, http: HttpCapability | EndpointPattern | Iterable[EndpointPattern]) -> Capabilities:
        """Allow these requests; a list of entries comes with the default limits."""
        from wasmrt.capabilities._endpoint import EndpointPattern
        from wasmrt.capabilities._powers import HttpCapability

        if isinstance(http, EndpointPattern):
            http = (http,)
        return replace(self, http=http if isinstance(http, HttpCapability) else HttpCapability(_listed(http)))

    def with_workspace_read(self, prefixes: WorkspaceCapability | Iterable[str]) -> Capabilities:
        from wasmrt.capabilities._powers import WorkspaceCapability

        given = prefixes if isinstance(prefixes, WorkspaceCapability) else WorkspaceCapability(_listed(prefixes))
        return replace(self, workspace_read=given)

    def with_secrets(self, names: SecretsCapability | Iterable[str]) -> Capabilities:
        from wasmrt.capabilities._powers import SecretsCapability

        given = names if isinstance(names, SecretsCapability) else SecretsCapability(_listed(names))
        return replace(self, secrets=given)

    def with_tool_invoke(self, aliases: ToolInvokeCapability | Mapping[str, str]) -> Capabilities:
        from wasmrt.capabilities._powers import ToolInvokeCapability

        given = aliases
        if not isinstance(given, ToolInvokeCapability):
            given = ToolInvokeCapability(tuple(given.items()) if isinstance(given, Mapping) else given)
        return replace(self, tool_invoke=given)

    def with_limits(self, limits: ToolLimits) -> Capabilities:
        return replace(self, limits=limits)

    def explain_http(
        self,
        method: str,
        url: str,
        resolves_to: Iterable[str] | None = None,
        *,
        unsafe_allowed_networks: Iterable[Network | str] = (),
    ) -> Decision:
        """Decide one request without the network: its URL, a literal address, and every address given."""
        from wasmrt.capabilities._decide import decide_http

        return decide_http(self, method, url, resolves_to, unsafe_allowed_networks)

    def explain_workspace(self, path: str) -> Decision:
        """Decide whether a workspace path may be read; whether it exists is the reader's to find out."""
        from wasmrt.capabilities._decide import decide_workspace

        return decide_workspace(self, path)

    def explain_secret(self, name: str) -> Decision:
        """Decide whether a guest may ask if a secret exists."""
        from wasmrt.capabilities._decide import decide_secret

        return decide_secret(self, name)

    def explain_tool(self, alias: str) -> Decision:
        """Decide whether a guest may call a tool by this alias."""
        from wasmrt.capabilities._decide import decide_tool

        return decide_tool(self, alias)


def _listed(items: Iterable[T]) -> tuple[T, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    return tuple(items)
