"""The capabilities of one tool: frozen, hashable, and empty by default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from wasmrt.capabilities._fields import Problems, join_path, suggest_nearest
from wasmrt.capabilities.kinds import (
    KINDS,
    Capability,
    ConfigStoreCapability,
    HttpCapability,
    SecretsCapability,
    ToolInvokeCapability,
    WorkspaceCapability,
    WorkspaceWriteCapability,
)
from wasmrt.capabilities.kinds._capability import attempt
from wasmrt.capabilities.kinds._limits import ToolLimits
from wasmrt.capabilities.kinds._login import LoginCapability, read_oauth
from wasmrt.capabilities.kinds.http import decide_http
from wasmrt.capabilities.model import EndpointPattern
from wasmrt.capabilities.sections import file_error, nested_path, read_tree
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.model import Addition, Decision
from wasmrt.core.url import Network

C = TypeVar("C", bound=Capability)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Everything that one tool may do. Start with `Capabilities.none()`; each `with_...` method returns a new value.

    Examples:
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
    """Sections for single tools, sorted by name. If None, every tool has all capabilities of the component. Otherwise a
    tool without a section has no capabilities, and a tool with a section has the capabilities that both the section and
    the component allow (`wasmrt.capabilities.for_tool`)."""
    workspace_write: WorkspaceWriteCapability | None = None
    config_store: ConfigStoreCapability | None = None
    logins: tuple[LoginCapability, ...] = ()
    """Logins of the component that may be requested from the user, each for a different secret."""

    def __post_init__(self) -> None:
        if not all(isinstance(login, LoginCapability) for login in self.logins):
            raise ConfigurationError("logins must contain only LoginCapability values")
        if len({login.secret_name for login in self.logins}) < len(self.logins):
            raise ConfigurationError("two logins set the same secret", hint="keep one of them")
        object.__setattr__(self, "logins", tuple(self.logins))
        if self.tools is None:
            return
        if not all(isinstance(tool, ToolGrant) for tool in self.tools):
            raise ConfigurationError("tools must contain only ToolGrant values")
        names = [tool.name for tool in self.tools]
        if len(set(names)) < len(names):
            raise ConfigurationError("a tool has two sections", hint="write one section for each tool")
        object.__setattr__(self, "tools", tuple(sorted(self.tools, key=lambda tool: tool.name)))

    @classmethod
    def none(cls) -> Capabilities:
        """Return capabilities that allow nothing."""
        return cls()

    @classmethod
    def parse(cls, data: str | bytes) -> Capabilities:
        """Return the capabilities that a capability file requests.

        Raises:
            CapabilityFileError: the file is invalid; `problems` lists every error with its path.
        """
        return read_sections(data).capabilities

    @classmethod
    def of(
        cls,
        parts: Iterable[Capability],
        *,
        limits: ToolLimits | None = None,
        tools: tuple[ToolGrant, ...] | None = None,
        logins: tuple[LoginCapability, ...] = (),
    ) -> Capabilities:
        """Return the set of these capabilities, at most one of each kind."""
        found = cls(limits=limits or ToolLimits(), tools=tools, logins=logins)
        for part in parts:
            found = found.with_part(part)
        return found

    @property
    def parts(self) -> tuple[Capability, ...]:
        """The capabilities that are not None, in the order of a capability file; no limits, logins or tool sections."""
        http, store, invoke = self.http, self.config_store, self.tool_invoke
        found = (http, self.workspace_read, self.workspace_write, self.secrets, store, invoke)
        return tuple(part for part in found if part is not None)

    def get(self, kind: type[C]) -> C | None:
        """Return the capability of a kind, such as `HttpCapability`, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def section(self, name: str) -> Capability | None:
        """Return the capability whose section in a capability file is `name`, such as `http`, or None."""
        return next((part for part in self.parts if part.section == name), None)

    def with_part(self, part: Capability) -> Capabilities:
        """Set a capability, and replace the previous capability of the same kind."""
        changed: dict[str, Any] = {part.attribute: part}
        return replace(self, **changed)

    def without(self, kind: type[Capability]) -> Capabilities:
        """Remove the capability of a kind."""
        changed: dict[str, Any] = {kind.attribute: None}
        return replace(self, **changed)

    def with_http(self, http: HttpCapability | EndpointPattern | Iterable[EndpointPattern]) -> Capabilities:
        """Allow these HTTP requests, with the default limits unless `http` is a complete `HttpCapability`."""
        if isinstance(http, EndpointPattern):
            http = (http,)
        return replace(self, http=http if isinstance(http, HttpCapability) else HttpCapability(_to_tuple(http)))

    def with_workspace_read(self, prefixes: WorkspaceCapability | Iterable[str]) -> Capabilities:
        """Allow reading below these prefixes of the workspace; the prefix `""` covers the whole workspace."""
        given = prefixes if isinstance(prefixes, WorkspaceCapability) else WorkspaceCapability(_to_tuple(prefixes))
        return replace(self, workspace_read=given)

    def with_workspace_write(self, prefixes: WorkspaceWriteCapability | Iterable[str]) -> Capabilities:
        """Allow writing below these prefixes of the workspace, within the default bounds and without removing files.

        The prefix `""` covers the whole workspace.
        """
        given = prefixes
        if not isinstance(given, WorkspaceWriteCapability):
            given = WorkspaceWriteCapability(_to_tuple(given))
        return replace(self, workspace_write=given)

    def with_secrets(self, names: SecretsCapability | Iterable[str]) -> Capabilities:
        """Allow checking whether these secrets are set. A name that ends in `*` matches every name with that prefix."""
        given = names if isinstance(names, SecretsCapability) else SecretsCapability(_to_tuple(names))
        return replace(self, secrets=given)

    def with_tool_invoke(self, aliases: ToolInvokeCapability | Mapping[str, str]) -> Capabilities:
        """Allow calling other tools; `aliases` maps each alias to the name of a tool."""
        given = aliases
        if not isinstance(given, ToolInvokeCapability):
            given = ToolInvokeCapability(tuple(given.items()) if isinstance(given, Mapping) else given)
        return replace(self, tool_invoke=given)

    def with_config_store(self, values: ConfigStoreCapability | Iterable[str]) -> Capabilities:
        """Allow reading these configuration values, each `KEY=VALUE`."""
        given = values if isinstance(values, ConfigStoreCapability) else ConfigStoreCapability(_to_tuple(values))
        return replace(self, config_store=given)

    def with_limits(self, limits: ToolLimits) -> Capabilities:
        """Set limits that replace the limits of the runtime."""
        return replace(self, limits=limits)

    def with_logins(self, logins: Iterable[LoginCapability]) -> Capabilities:
        """Allow requesting these logins from the user."""
        return replace(self, logins=_to_tuple(logins))

    def with_tools(self, tools: Iterable[ToolGrant]) -> Capabilities:
        """Set the sections of single tools. A tool without a section has no capability."""
        return replace(self, tools=_to_tuple(tools))

    def with_addition(self, addition: Addition) -> Capabilities:
        """Add the entry that a denial suggested; everything else stays unchanged.

        Raises:
            CapabilityFileError: the addition is not one valid entry of a capability file.
            ConfigurationError: the list is full.
        """
        return self.with_all(Capabilities.parse(_write_file(addition)), each_once=False)

    def with_all(self, other: Capabilities, *, each_once: bool = True) -> Capabilities:
        """Add all entries of `other`. Numeric limits, sections of tools and logins of `self` stay unchanged.

        Args:
            other: The capabilities whose entries are added.
            each_once: Omit entries that another entry already covers.
        """
        found = self
        for part in other.parts:
            old = self.get(type(part))
            both = part if old is None else old.unite(part) if each_once else old.extend(part)
            found = found.with_part(both)
        return found

    def with_numbers_of(self, grant: Capabilities) -> Capabilities:
        """Return these entries, with the numeric limits of `grant` for each capability that `grant` contains."""
        parts = ((part, grant.get(type(part))) for part in self.parts)
        return Capabilities.of(part if theirs is None else theirs.replace_entries(part) for part, theirs in parts)

    def explain(self, kind: type[Capability], use: str) -> Decision:
        """Decide about one use of a capability: a path, the name of a secret, an alias, or a URL for a GET request."""
        return kind.decide(self.get(kind), use)

    def explain_http(
        self,
        method: str,
        url: str,
        resolves_to: Iterable[str] | None = None,
        *,
        unsafe_allowed_networks: Iterable[Network | str] = (),
    ) -> Decision:
        """Decide about one HTTP request without network access.

        The decision depends on the method, the URL, and the addresses in `resolves_to`, if given.
        """
        return decide_http(self.http, method, url, resolves_to, unsafe_allowed_networks)

    def explain_workspace(self, path: str) -> Decision:
        """Decide whether a workspace path may be read. The file need not exist."""
        return WorkspaceCapability.decide(self.workspace_read, path)

    def explain_workspace_write(self, path: str) -> Decision:
        """Decide whether a workspace path may be written. The size bounds are checked later, during the write."""
        return WorkspaceWriteCapability.decide(self.workspace_write, path)

    def explain_secret(self, name: str) -> Decision:
        """Decide whether a guest may check if a secret exists."""
        return SecretsCapability.decide(self.secrets, name)

    def explain_config(self, key: str) -> Decision:
        """Decide whether a guest may read the configuration value with this key."""
        return ConfigStoreCapability.decide(self.config_store, key)

    def explain_tool(self, alias: str) -> Decision:
        """Decide whether a guest may call a tool by this alias."""
        return ToolInvokeCapability.decide(self.tool_invoke, alias)


@dataclass(frozen=True, slots=True)
class ToolGrant:
    """The section for one tool of a component: the part of the component's capabilities that this tool gets.

    Raises:
        ConfigurationError: the section contains tool sections, limits or logins, which only a component can have.
    """

    name: str
    """The tool's name in its component or package."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    effects: tuple[Effect, ...] | None = None
    """The effects that the section declares, or None without a declaration."""

    def __post_init__(self) -> None:
        own = self.capabilities
        if own.tools is not None or own.limits != ToolLimits() or own.logins:
            raise ConfigurationError(
                f"the section of tool {self.name!r} must not contain tools, limits or logins",
                hint="write them for the whole component",
            )
        if self.effects is not None:
            object.__setattr__(self, "effects", tuple(sorted({Effect(effect) for effect in self.effects})))


class Sections(NamedTuple):
    """The contents of a valid capability file."""

    capabilities: Capabilities
    tree: dict[str, Any]
    """Every section as JSON data, each key in its canonical spelling."""


def read_sections(data: str | bytes) -> Sections:
    """Read a capability file.

    Raises:
        CapabilityFileError: the file is invalid; `problems` lists every error with its JSON path.
    """
    tree, nested = read_tree(data)
    problems = Problems()
    capabilities = _build(tree, problems)
    if problems:
        problems.found = [(nested_path(path, nested), sentence) for path, sentence in problems.found]
        raise file_error(problems)
    return Sections(capabilities, tree)


def _build(tree: dict[str, Any], problems: Problems) -> Capabilities:
    limits = ToolLimits(**tree.get("limits", {}))
    asked = replace(_build_parts(tree, "", Capabilities.none(), problems), limits=limits)
    logins = tuple(_build_logins(tree, problems))
    tools = None
    if "tools" in tree and not problems:
        built = [_build_tool(name, section, asked, problems) for name, section in tree["tools"].items()]
        tools = tuple(built)
    _check_logins(tree, problems)
    return asked if problems else replace(asked, tools=tools, logins=logins)


def _build_logins(tree: dict[str, Any], problems: Problems) -> Iterator[LoginCapability]:
    auth = tree.get("auth", {})
    listed = [("auth", auth.get("provider") or auth.get("secret_name", ""), auth)]
    listed += [(join_path("logins", vendor), vendor, login) for vendor, login in tree.get("logins", {}).items()]
    for at, vendor, login in listed:
        if "oauth" in login:
            made = partial(LoginCapability, vendor, login["secret_name"], read_oauth(login["oauth"]))
            if (built := attempt(at, problems, made)) is not None:
                yield built


def _build_parts(tree: dict[str, Any], at: str, outer: Capabilities, problems: Problems) -> Capabilities:
    """Return the capabilities in `tree`, the JSON data of a component or of one of its tools.

    `outer` is the component of the tool. A number that is missing in `tree` gets its value from `outer`.
    """
    asked = Capabilities.none()
    for kind in KINDS:
        if tree.get(kind.section) is not None:
            built = kind.build(tree[kind.section], outer.get(kind), f"{at}{kind.section}", problems)
            asked = asked if built is None else asked.with_part(built)
    return asked


def _build_tool(name: str, tree: dict[str, Any], component: Capabilities, problems: Problems) -> ToolGrant:
    at = join_path("tools", name)
    asked = _build_parts(tree, f"{at}.", component, problems)
    if "credentials" in tree:
        asked = _with_known_credentials(tree, asked, component, f"{at}.credentials", problems)
    for part in asked.parts:
        for place, sentence in part.beyond(component.get(type(part))):
            problems.add(f"{at}.{place}", sentence)
    return ToolGrant(name, asked, tuple(map(Effect, tree["effects"])) if "effects" in tree else None)


def _with_known_credentials(
    tree: dict[str, Any], asked: Capabilities, component: Capabilities, place: str, problems: Problems
) -> Capabilities:
    """Add credentials of the component to a tool's capabilities `asked`: those that the tool's section names."""
    names, outer, http = tree["credentials"], component.http, asked.http
    known = () if outer is None else tuple(mapping.name for mapping in outer.credentials)
    for name in names:
        if name not in known:
            problems.add(
                place, f"the component has no credential {name!r} in http.credentials{suggest_nearest(name, known)}"
            )
    if http is None and "http" not in tree:
        problems.add(place, 'the credentials would be unused, because the tool has no "http" section')
    if http is None or outer is None:
        return asked
    built = attempt(place, problems, partial(http.with_known_credentials, names, outer))
    return asked if built is None else asked.with_part(built)


def _check_logins(tree: dict[str, Any], problems: Problems) -> None:
    """Report logins that users could confuse: two for the same vendor, or two for the same secret."""
    auth = tree.get("auth", {})
    taken = {auth.get("secret_name"): "auth"}
    for vendor, login in tree.get("logins", {}).items():
        at = join_path("logins", vendor)
        if vendor in (auth.get("provider"), auth.get("secret_name")):
            problems.add(at, 'the section "auth" already is the login of this vendor')
        if (other := taken.setdefault(login["secret_name"], at)) != at:
            problems.add(f"{at}.secret_name", f"{other} already sets this secret")


def find_kind(grant_list: str) -> type[Capability]:
    """Return the kind of capability whose section contains the list `grant_list`, such as `http.allowlist`.

    Raises:
        ValueError: no kind has this list.
    """
    for kind in KINDS:
        if kind.grant_list == grant_list:
            return kind
    raise ValueError(f"unknown list {grant_list!r:.60}")


def _write_file(addition: Addition) -> str:
    """Return a capability file that requests only this entry."""
    try:
        # SECURITY: the entry is parsed and written again, so that it cannot close its list and open another section.
        entry, kind = json.loads(addition.entry), find_kind(addition.to)
    except (ValueError, RecursionError):
        raise CapabilityFileError("the suggested entry is not valid JSON, or its list is unknown") from None
    return json.dumps({kind.section: kind.addition_tree(entry)})


def _to_tuple(items: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    return tuple(items)
