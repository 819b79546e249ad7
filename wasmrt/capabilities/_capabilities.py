"""The capabilities of one tool. Frozen, hashable, and empty unless something was added: nothing is ever assumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from wasmrt.capabilities.decide import (
    decide_http,
    decide_secret,
    decide_tool,
    decide_workspace,
    decide_workspace_write,
)
from wasmrt.capabilities.model import (
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.model import Addition, Decision, GrantList
from wasmrt.core.url import Network

T = TypeVar("T")
Capability = HttpCapability | WorkspaceCapability | WorkspaceWriteCapability | SecretsCapability | ToolInvokeCapability
CAPABILITY_SECTIONS = {
    "http": "http",
    "workspace": "workspace_read",
    "workspace_write": "workspace_write",
    "secrets": "secrets",
    "tool_invoke": "tool_invoke",
}
"""Sections of a capability file that allow imports, with the field of `Capabilities` that each fills."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Everything that one tool may do. Built up from `Capabilities.none()`; each `with_...` returns a new value.

    Example:
        >>> from wasmrt import Capabilities, EndpointPattern
        >>> grant = Capabilities.none().with_http([EndpointPattern.host("api.example.com")])
        >>> grant.explain_http("GET", "https://api.example.com/items").allowed
        True
        >>> print(grant.explain_http("GET", "https://evil.example/").reason)
        host-not-allowed
    """

    http: HttpCapability | None = None
    workspace_read: WorkspaceCapability | None = None
    secrets: SecretsCapability | None = None
    tool_invoke: ToolInvokeCapability | None = None
    limits: ToolLimits = field(default_factory=ToolLimits)
    tools: tuple[ToolGrant, ...] | None = None
    """Sections of single tools, by name. None: every tool of the component has all of it. With sections, a tool that
    none is for has nothing, and one that has a section has what both that and the component's own capabilities allow
    (`wasmrt.capabilities.for_tool`)."""
    workspace_write: WorkspaceWriteCapability | None = None
    logins: tuple[LoginCapability, ...] = ()
    """Logins that a person may be asked for, each of another secret. They are the component's, not of single tools."""

    def __post_init__(self) -> None:
        if not all(isinstance(login, LoginCapability) for login in self.logins):
            raise ConfigurationError("logins may hold LoginCapability only")
        if len({login.secret_name for login in self.logins}) < len(self.logins):
            raise ConfigurationError("two logins set one secret", hint="keep one of them")
        object.__setattr__(self, "logins", tuple(self.logins))
        if self.tools is None:
            return
        if not all(isinstance(tool, ToolGrant) for tool in self.tools):
            raise ConfigurationError("tools may hold ToolGrant only")
        names = [tool.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise ConfigurationError("a tool has two sections", hint="write one section for each tool")
        object.__setattr__(self, "tools", tuple(sorted(self.tools, key=lambda tool: tool.name)))

    @classmethod
    def none(cls) -> Capabilities:
        """Return no capability at all."""
        return cls()

    @classmethod
    def parse(cls, data: str | bytes) -> Capabilities:
        """Return the capabilities that a capability file asks for.

        Raises:
            CapabilityFileError: the file is refused; `problems` lists every mistake with its path.
        """
        from wasmrt.capabilities.sections import read_sections  # the file format, which a stored grant alone needs

        return cls.of(read_sections(data).asked)

    @classmethod
    def of(cls, asked: Asked) -> Capabilities:
        """Return the capabilities that checked sections of a file ask for."""
        tools = None
        if asked.tools is not None:
            tools = tuple(ToolGrant(name, cls.of(part), effects) for name, part, effects in asked.tools)
        return cls(
            asked.http,
            asked.workspace_read,
            asked.secrets,
            asked.tool_invoke,
            asked.limits,
            tools,
            asked.workspace_write,
            asked.logins,
        )

    def section(self, name: str) -> Capability | None:
        """Return the capability of a section in `CAPABILITY_SECTIONS`; None where the tool does not have it."""
        found: Capability | None = getattr(self, CAPABILITY_SECTIONS[name])
        return found

    def with_http(self, http: HttpCapability | EndpointPattern | Iterable[EndpointPattern]) -> Capabilities:
        """Allow these requests; a list of entries comes with the default limits."""
        if isinstance(http, EndpointPattern):
            http = (http,)
        return replace(self, http=http if isinstance(http, HttpCapability) else HttpCapability(_listed(http)))

    def with_workspace_read(self, prefixes: WorkspaceCapability | Iterable[str]) -> Capabilities:
        """Allow reading below these prefixes; `""` is the whole workspace."""
        given = prefixes if isinstance(prefixes, WorkspaceCapability) else WorkspaceCapability(_listed(prefixes))
        return replace(self, workspace_read=given)

    def with_workspace_write(self, prefixes: WorkspaceWriteCapability | Iterable[str]) -> Capabilities:
        """Allow writing below these prefixes, within the default bounds and without removing; `""` is all of it."""
        given = prefixes
        if not isinstance(given, WorkspaceWriteCapability):
            given = WorkspaceWriteCapability(_listed(given))
        return replace(self, workspace_write=given)

    def with_secrets(self, names: SecretsCapability | Iterable[str]) -> Capabilities:
        """Allow asking whether these secrets are set; `*` at the end covers all that begin so."""
        given = names if isinstance(names, SecretsCapability) else SecretsCapability(_listed(names))
        return replace(self, secrets=given)

    def with_tool_invoke(self, aliases: ToolInvokeCapability | Mapping[str, str]) -> Capabilities:
        """Allow calling these tools, by alias."""
        given = aliases
        if not isinstance(given, ToolInvokeCapability):
            given = ToolInvokeCapability(tuple(given.items()) if isinstance(given, Mapping) else given)
        return replace(self, tool_invoke=given)

    def with_limits(self, limits: ToolLimits) -> Capabilities:
        """Set the limits that differ from the runtime's."""
        return replace(self, limits=limits)

    def with_logins(self, logins: Iterable[LoginCapability]) -> Capabilities:
        """Allow asking a person for these logins."""
        return replace(self, logins=_listed(logins))

    def with_tools(self, tools: Iterable[ToolGrant]) -> Capabilities:
        """Narrow single tools: one that is not listed has nothing."""
        return replace(self, tools=_listed(tools))

    def with_addition(self, addition: Addition) -> Capabilities:
        """Add the entry that a denial suggested; everything else stays as it is.

        Raises:
            CapabilityFileError: it is not one entry that a capability file can have.
            ConfigurationError: the list is full.
        """
        added = Capabilities.parse(_file_of(addition))
        http, workspace, secrets, tools = self.http, self.workspace_read, self.secrets, self.tool_invoke
        if http is not None and added.http is not None:
            http = replace(http, allowlist=(*http.allowlist, *added.http.allowlist))
        if workspace is not None and added.workspace_read is not None:
            prefixes = (*workspace.allowed_prefixes, *added.workspace_read.allowed_prefixes)
            workspace = WorkspaceCapability(prefixes)
        if (writing := self.workspace_write) is not None and added.workspace_write is not None:
            prefixes = (*writing.allowed_prefixes, *added.workspace_write.allowed_prefixes)
            writing = replace(writing, allowed_prefixes=prefixes)
        if secrets is not None and added.secrets is not None:
            secrets = SecretsCapability((*secrets.allowed_names, *added.secrets.allowed_names))
        if tools is not None and added.tool_invoke is not None:
            tools = replace(tools, aliases=(*tools.aliases, *added.tool_invoke.aliases))
        return Capabilities(
            http or added.http,
            workspace or added.workspace_read,
            secrets or added.secrets,
            tools or added.tool_invoke,
            self.limits,
            self.tools,
            writing or added.workspace_write,
            self.logins,
        )

    def explain_http(
        self,
        method: str,
        url: str,
        resolves_to: Iterable[str] | None = None,
        *,
        unsafe_allowed_networks: Iterable[Network | str] = (),
    ) -> Decision:
        """Decide one request without the network: its URL, a literal address, and every address given."""
        return decide_http(self.http, method, url, resolves_to, unsafe_allowed_networks)

    def explain_workspace(self, path: str) -> Decision:
        """Decide whether a workspace path may be read; whether it exists is the reader's to find out."""
        return decide_workspace(self.workspace_read, path)

    def explain_workspace_write(self, path: str) -> Decision:
        """Decide whether a workspace path may be written; how much is the writer's to count."""
        return decide_workspace_write(self.workspace_write, path)

    def explain_secret(self, name: str) -> Decision:
        """Decide whether a guest may ask if a secret exists."""
        return decide_secret(self.secrets, name)

    def explain_tool(self, alias: str) -> Decision:
        """Decide whether a guest may call a tool by this alias."""
        return decide_tool(self.tool_invoke, alias)


@dataclass(frozen=True, slots=True)
class ToolGrant:
    """The section of one tool: the part that it has of its component's capabilities.

    Raises:
        ConfigurationError: it has a section of its own, or limits, which are the component's.
    """

    name: str
    """As the component or its package calls the tool."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    effects: tuple[Effect, ...] | None = None
    """Kinds of things that it does, as declared; None where nobody said."""

    def __post_init__(self) -> None:
        own = self.capabilities
        if own.tools is not None or own.limits != ToolLimits() or own.logins:
            raise ConfigurationError(f"the section of tool {self.name!r} may hold neither tools, limits nor logins")
        if self.effects is not None:
            object.__setattr__(self, "effects", tuple(sorted({Effect(effect) for effect in self.effects})))


class Asked(Protocol):
    """Checked sections of a capability file."""

    @property
    def http(self) -> HttpCapability | None: ...
    @property
    def workspace_read(self) -> WorkspaceCapability | None: ...
    @property
    def workspace_write(self) -> WorkspaceWriteCapability | None: ...
    @property
    def secrets(self) -> SecretsCapability | None: ...
    @property
    def tool_invoke(self) -> ToolInvokeCapability | None: ...
    @property
    def limits(self) -> ToolLimits: ...
    @property
    def logins(self) -> tuple[LoginCapability, ...]: ...
    @property
    def tools(self) -> tuple[tuple[str, Asked, tuple[Effect, ...] | None], ...] | None:
        """The sections of single tools: the name, its sections, its effects."""


def _file_of(addition: Addition) -> str:
    """Return a capability file that asks for this entry and nothing else."""
    try:
        # SECURITY: read as one value and written anew, so that an entry cannot close its list and open another section.
        entry, to = json.loads(addition.entry), GrantList(addition.to)
    except (ValueError, RecursionError):
        raise CapabilityFileError("the suggested entry is not JSON, or for no list of a capability file") from None
    section, _, name = to.partition(".")
    if to in (GrantList.WORKSPACE, GrantList.WORKSPACE_WRITE) and entry == "":
        return json.dumps({section: True})
    return json.dumps({section: {name: entry if to is GrantList.TOOLS else [entry]}})


def _listed(items: Iterable[T]) -> tuple[T, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    return tuple(items)
