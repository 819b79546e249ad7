"""Changes of a grant, one entry at a time: what is added lies within the request, what is revoked is gone whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities.lattice._merge import for_tool, merge, widest
from wasmrt.capabilities.model import (
    ANY_HOST,
    EndpointPattern,
    HttpCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    common_endpoints,
    endpoint_within,
    name_within,
    prefix_within,
)
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition, GrantList
from wasmrt.core.names import did_you_mean
from wasmrt.core.url import InvalidUrlError, parse_url

T = TypeVar("T")
SECTIONS = ("http", "credentials", "workspace", "workspace_write", "secrets", "tool_invoke", "logins", "tools")
"""The sections that an amendment names."""
_EXAMPLE = "write it like 'http=GET https://api.example.com/v1/', 'workspace=notes/' or 'credentials=NAME'"


class Amendment(NamedTuple):
    """One entry of a grant, as a person names it."""

    section: str
    value: str | None
    """None for the whole section."""

    def __str__(self) -> str:
        return self.section if self.value is None else f"{self.section}={self.value}"

    @classmethod
    def read(cls, text: str) -> Amendment:
        """Read `SECTION` or `SECTION=VALUE`.

        Raises:
            ConfigurationError: there is no such section.
        """
        section, mark, value = text.partition("=")
        section = section.strip()
        if section not in SECTIONS:
            near = did_you_mean(section, SECTIONS)
            hint = f"did you mean {near}?" if near else f"sections are {', '.join(SECTIONS)}; {_EXAMPLE}"
            raise ConfigurationError(f"a grant has no section {section!r:.60}", hint=hint)
        if mark and not value.strip():
            raise ConfigurationError(f"{text!r:.80} names nothing", hint=_EXAMPLE)
        return cls(section, value.strip() if mark else None)


def add_to_grant(grant: Capabilities, request: Capabilities, amendment: Amendment) -> Capabilities:
    """Return the grant with that part of the request which an amendment names; never wider than the request.

    Raises:
        ConfigurationError: the request has no such part.
    """
    wanted = _part(request, amendment)
    if wanted is None:
        raise ConfigurationError(
            f"its capability file does not ask for {amendment!s:.120}",
            hint="nothing is granted that a tool does not ask for; install it with a file that asks",
        )
    return merge(request, _union(grant, wanted, request))


def asks_for_all(request: Capabilities, amendment: Amendment) -> bool:
    """Tell whether a request has all that an amendment names, and not only a part of it."""
    section, value = amendment
    if value is None:
        return True
    if section == "http":
        allowed = () if request.http is None else request.http.allowlist
        return _covered((read_endpoint(value),), allowed, endpoint_within)
    if section == "secrets":
        return request.secrets is None or _covered((value,), request.secrets.allowed_names, name_within)
    named = {"workspace": request.workspace_read, "workspace_write": request.workspace_write}.get(section)
    return named is None or _covered((value,), named.allowed_prefixes, prefix_within)


def revoke_from_grant(grant: Capabilities, amendment: Amendment) -> Capabilities:
    """Return the grant without the entries that an amendment covers; never wider than the grant.

    Raises:
        ConfigurationError: the grant has no such entry, or only as a part of a wider one.
    """
    section = amendment.section
    if amendment.value is None:
        left = _without_section(grant, section)
    elif section == "tools":
        left = _without_tools(grant, amendment.value)
    else:
        left = _without(grant, amendment)
    if left == grant:
        overlaps = amendment.value is not None and section != "tools" and _part(grant, amendment) is not None
        raise ConfigurationError(
            f"{amendment!s:.120} is only a part of a wider entry"
            if overlaps
            else f"it has not been granted {amendment!s:.120}",
            hint="revoke the whole entry and add what is left, or use --edit"
            if overlaps
            else "wasmrt inspect shows it",
        )
    return _consistent(left)


def asks_for(request: Capabilities, addition: Addition) -> bool:
    """Tell whether a request has an entry that covers what was suggested to be added to a grant."""
    alone = Capabilities.none().with_addition(addition)
    if addition.to is GrantList.HTTP:
        theirs, outer = alone.http, request.http
        return bool(theirs and outer) and _covered(theirs.allowlist, outer.allowlist, endpoint_within)  # type: ignore[union-attr]
    one, other, within = {
        GrantList.WORKSPACE: (alone.workspace_read, request.workspace_read, prefix_within),
        GrantList.WORKSPACE_WRITE: (alone.workspace_write, request.workspace_write, prefix_within),
    }.get(addition.to, (None, None, prefix_within))
    if one is not None:
        return other is not None and _covered(one.allowed_prefixes, other.allowed_prefixes, within)
    if addition.to is GrantList.SECRETS:
        names, known = alone.secrets, request.secrets
        return bool(names and known) and _covered(names.allowed_names, known.allowed_names, name_within)  # type: ignore[union-attr]
    aliases = alone.tool_invoke.aliases if alone.tool_invoke else ()
    return request.tool_invoke is not None and all(request.tool_invoke.resolve(alias) for alias, _ in aliases)


def amendment_of(addition: Addition) -> Amendment:
    """Return what a suggested entry is called in an amendment."""
    entry = json.loads(addition.entry)
    if addition.to is GrantList.HTTP:
        return Amendment("http", addition.entry)
    if addition.to is GrantList.TOOLS:
        return Amendment("tool_invoke", next(iter(entry)))
    return Amendment(str(addition.to).partition(".")[0], str(entry) if entry else None)


def _covered(mine: Iterable[T], theirs: Sequence[T], within: Callable[[T, T], bool]) -> bool:
    return all(any(within(one, other) for other in theirs) for one in mine)


def _part(of: Capabilities, amendment: Amendment) -> Capabilities | None:
    """Return the part of capabilities that an amendment names, and nothing else of them; None where there is none."""
    section, value = amendment
    none = Capabilities.none()
    if section == "tools":
        return _tools_part(of, value)
    if section in ("http", "credentials"):
        http = None if of.http is None else _http_part(of.http, section, value)
        return None if http is None else none.with_http(http)
    if section == "logins":
        logins = [login for login in of.logins if value in (None, login.vendor, login.secret_name)]
        return none.with_logins(logins) if logins else None
    if section == "tool_invoke":
        invoke = of.tool_invoke
        pairs = () if invoke is None else tuple(p for p in invoke.aliases if value in (None, *p))
        return none.with_tool_invoke(replace(invoke, aliases=pairs)) if invoke and pairs else None
    if section == "secrets":
        names = () if of.secrets is None else _narrower(of.secrets.allowed_names, value, name_within)
        return none.with_secrets(names) if names else None
    if section == "workspace":
        read = of.workspace_read
        prefixes = () if read is None else _narrower(read.allowed_prefixes, value, prefix_within)
        return none.with_workspace_read(WorkspaceCapability(prefixes)) if prefixes else None
    writing = of.workspace_write
    prefixes = () if writing is None else _narrower(writing.allowed_prefixes, value, prefix_within)
    return none.with_workspace_write(replace(writing, allowed_prefixes=prefixes)) if writing and prefixes else None


def _narrower(entries: Sequence[str], value: str | None, within: Callable[[str, str], bool]) -> tuple[str, ...]:
    if value is None:
        return tuple(entries)
    return tuple(
        dict.fromkeys(e if within(e, value) else value for e in entries if within(e, value) or within(value, e))
    )


def _http_part(http: HttpCapability, section: str, value: str | None) -> HttpCapability | None:
    if section == "credentials":
        named = tuple(m for m in http.credentials if value in (None, m.name, m.secret_name))
        return replace(http, allowlist=(), credentials=named) if named else None
    if value is None:
        return replace(http, credentials=())
    wanted = read_endpoint(value)
    entries = widest((e for entry in http.allowlist for e in common_endpoints(wanted, entry)), endpoint_within)
    return replace(http, allowlist=tuple(entries), credentials=()) if entries else None


def read_endpoint(text: str) -> EndpointPattern:
    """Read an entry of an allowlist: `HOST`, `URL`, `GET,POST URL`, or the entry of a capability file.

    Raises:
        ConfigurationError: it is none of these.
    """
    if text.startswith("{"):
        # SECURITY: read as one value and written anew, so that it cannot open another section.
        found = Capabilities.none().with_addition(Addition(GrantList.HTTP, text)).http
        return found.allowlist[0]  # type: ignore[union-attr]  # an entry was read
    methods, _, place = text.rpartition(" ")
    chosen = tuple(part for part in methods.replace(",", " ").split() if part)
    if "/" not in place:
        return EndpointPattern(place, methods=chosen)
    try:
        url = parse_url(place if "://" in place else f"https://{place}")
    except InvalidUrlError as error:
        raise ConfigurationError(f"{place!r:.80} is no URL: {error.message}", hint=_EXAMPLE) from None
    usual = EndpointPattern(url.host, schemes=(url.scheme,)).ports_for(url.scheme)
    return EndpointPattern(url.host, url.path, chosen, () if (url.port,) == usual else (url.port,), (url.scheme,))


def _tools_part(of: Capabilities, value: str | None) -> Capabilities | None:
    tools = [tool for tool in of.tools or () if value is None or fnmatchcase(tool.name, value)]
    return Capabilities.none().with_tools(tools) if tools else None


def _union(one: Capabilities, other: Capabilities, request: Capabilities) -> Capabilities:
    """Return all of both, in the numbers of the request, which the merge makes no wider than what was granted."""
    logins = {login.secret_name: login for login in (*other.logins, *one.logins)}
    tools = None
    if one.tools is not None or other.tools is not None:
        nothing = one == Capabilities(limits=one.limits)  # then no tool has what another could keep
        held = request.tools if one.tools is None and not nothing else one.tools
        named = {tool.name: tool for tool in (*(other.tools or ()), *(held or ()))}
        tools = tuple(named.values())
    return Capabilities(
        http=_union_http(one.http, other.http),
        workspace_read=_either(
            one.workspace_read,
            other.workspace_read,
            lambda a, b: WorkspaceCapability((*a.allowed_prefixes, *b.allowed_prefixes)),
        ),
        secrets=_either(
            one.secrets, other.secrets, lambda a, b: replace(a, allowed_names=(*a.allowed_names, *b.allowed_names))
        ),
        tool_invoke=_either(
            one.tool_invoke,
            other.tool_invoke,
            lambda a, b: replace(a, aliases=tuple({**dict(b.aliases), **dict(a.aliases)}.items())),
        ),
        limits=one.limits,
        tools=tools,
        workspace_write=_either(
            one.workspace_write,
            other.workspace_write,
            lambda a, b: replace(a, allowed_prefixes=(*a.allowed_prefixes, *b.allowed_prefixes)),
        ),
        logins=tuple(logins.values()),
    )


def _union_http(one: HttpCapability | None, other: HttpCapability | None) -> HttpCapability | None:
    if one is None or other is None:
        return one or other
    entries = widest((*one.allowlist, *other.allowlist), endpoint_within)
    known = {mapping.name: mapping for mapping in (*other.credentials, *one.credentials)}
    return replace(one, allowlist=tuple(entries), credentials=tuple(known.values()))


def _either(one: T | None, other: T | None, both: Callable[[T, T], T]) -> T | None:
    return (one or other) if one is None or other is None else both(one, other)


def _without_section(grant: Capabilities, section: str) -> Capabilities:
    if section == "credentials":
        return grant if grant.http is None else replace(grant, http=replace(grant.http, credentials=()))
    if section == "logins":
        return replace(grant, logins=())
    if section == "tools":
        return (
            replace(grant, tools=()) if grant.tools is not None else replace(Capabilities.none(), limits=grant.limits)
        )
    gone: dict[str, Any] = {"workspace_read" if section == "workspace" else section: None}
    return replace(grant, **gone)


def _without_tools(grant: Capabilities, pattern: str) -> Capabilities:
    if grant.tools is None:
        raise ConfigurationError("what it was granted is not told apart by tools", hint="revoke it by its sections")
    return replace(grant, tools=tuple(tool for tool in grant.tools if not fnmatchcase(tool.name, pattern)))


def _without(grant: Capabilities, amendment: Amendment) -> Capabilities:
    section, value = amendment.section, amendment.value or ""
    if section in ("http", "credentials"):
        return grant if grant.http is None else replace(grant, http=_http_without(grant.http, section, value))
    if section == "logins":
        return replace(grant, logins=tuple(g for g in grant.logins if value not in (g.vendor, g.secret_name)))
    if section == "tool_invoke" and (invoke := grant.tool_invoke) is not None:
        kept = tuple(pair for pair in invoke.aliases if value not in pair)
        return replace(grant, tool_invoke=replace(invoke, aliases=kept) if kept else None)
    if section == "secrets" and (secrets := grant.secrets) is not None:
        left = tuple(name for name in secrets.allowed_names if not name_within(name, value.lower()))
        return replace(grant, secrets=replace(secrets, allowed_names=left) if left else None)
    field = "workspace_read" if section == "workspace" else section
    owner: WorkspaceCapability | WorkspaceWriteCapability | None = getattr(grant, field)
    if owner is None:
        return grant
    left = tuple(prefix for prefix in owner.allowed_prefixes if not prefix_within(prefix, value))
    changed: dict[str, Any] = {field: replace(owner, allowed_prefixes=left) if left else None}
    return replace(grant, **changed)


def _http_without(http: HttpCapability, section: str, value: str) -> HttpCapability | None:
    if section == "credentials":
        return replace(http, credentials=tuple(m for m in http.credentials if value not in (m.name, m.secret_name)))
    gone = read_endpoint(value)
    # Whatever scheme and port an entry has, public or not: a person who names a host means all of it.
    everywhere = gone if gone.host_pattern == ANY_HOST else replace(gone, public_only=False)
    kept = tuple(
        entry
        for entry in http.allowlist
        if not endpoint_within(replace(entry, ports=gone.ports, schemes=gone.schemes), everywhere)
    )
    return replace(http, allowlist=kept) if kept else None


def _consistent(grant: Capabilities) -> Capabilities:
    """Narrow the sections of tools to what the component still has, so that the whole can be written."""
    if grant.tools is None:
        return grant
    tools = (
        ToolGrant(tool.name, replace(for_tool(grant, tool.name), limits=ToolLimits(), logins=()), tool.effects)
        for tool in grant.tools
    )
    return replace(grant, tools=tuple(tools))
