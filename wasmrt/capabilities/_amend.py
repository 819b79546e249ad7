"""Add one entry to a grant, or revoke one. An added entry must be part of the request."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant, find_kind
from wasmrt.capabilities._merge import merge, section_of
from wasmrt.capabilities.kinds import KINDS
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Addition
from wasmrt.core.names import did_you_mean

_KINDS = {name: kind for kind in KINDS for name in kind.amendments}
SECTIONS = (*_KINDS, "logins", "tools")
"""The names that an amendment can begin with."""
_EXAMPLE = "write it like 'http=GET https://api.example.com/v1/', 'workspace=notes/' or 'credentials=NAME'"


class Amendment(NamedTuple):
    """One entry of a grant, as a user writes it for `wasmrt grant`."""

    section: str
    value: str | None
    """None means the whole section."""

    def __str__(self) -> str:
        return self.section if self.value is None else f"{self.section}={self.value}"

    @classmethod
    def read(cls, text: str) -> Amendment:
        """Parse `SECTION` or `SECTION=VALUE`.

        Raises:
            ConfigurationError: the section is unknown, or the value is empty.
        """
        section, mark, value = text.partition("=")
        section = section.strip()
        if section not in SECTIONS:
            near = did_you_mean(section, SECTIONS)
            hint = f"did you mean {near}?" if near else f"sections are {', '.join(SECTIONS)}; {_EXAMPLE}"
            raise ConfigurationError(f"a grant has no section {section!r:.60}", hint=hint)
        if mark and not value.strip():
            raise ConfigurationError(f"{text!r:.80} has no value after '='", hint=_EXAMPLE)
        return cls(section, value.strip() if mark else None)


def add_to_grant(grant: Capabilities, request: Capabilities, amendment: Amendment) -> Capabilities:
    """Add the part of the request that an amendment names to the grant. The result is never wider than the request.

    Raises:
        ConfigurationError: the request has no such part.
    """
    wanted = _select_part(request, amendment)
    if wanted is None:
        raise ConfigurationError(
            f"the tool's capability file does not request {amendment!s:.120}",
            hint="a grant cannot exceed the tool's request; install the tool with a file that requests it",
        )
    return merge(request, _unite_capabilities(grant, wanted, request))


def asks_for_all(request: Capabilities, amendment: Amendment) -> bool:
    """Return whether a request covers an amendment completely, not only in part."""
    section, value = amendment
    kind = _KINDS.get(section)
    if value is None or kind is None:
        return True
    part = request.get(kind)
    return part is not None and part.covers_value(section, value)


def revoke_from_grant(grant: Capabilities, amendment: Amendment) -> Capabilities:
    """Remove everything that an amendment covers from the grant; entries that allow more are split.

    The result never allows what is revoked, and is never wider than the grant.

    Raises:
        ConfigurationError: the grant has nothing that the amendment covers, or no entries can express the rest.
    """
    left = _without(grant, amendment)
    if left == grant:
        raise ConfigurationError(f"{amendment!s:.120} is not granted", hint="wasmrt inspect shows the grant")
    return _narrow_tool_sections(left)


def asks_for(request: Capabilities, addition: Addition) -> bool:
    """Return whether a request covers a suggested addition to a grant."""
    kind = find_kind(addition.to)
    entry, theirs = Capabilities.none().with_addition(addition).get(kind), request.get(kind)
    return entry is not None and theirs is not None and theirs.covers_entries(entry)


def make_amendment(addition: Addition) -> Amendment:
    """Return the amendment that names a suggested entry."""
    kind = find_kind(addition.to)
    return Amendment(kind.section, kind.amendment_value(addition.entry))


def _select_part(of: Capabilities, amendment: Amendment) -> Capabilities | None:
    """Return the part of the capabilities `of` that an amendment names, or None."""
    section, value = amendment
    if section == "tools":
        tools = [tool for tool in of.tools or () if value is None or fnmatchcase(tool.name, value)]
        return Capabilities.none().with_tools(tools) if tools else None
    if section == "logins":
        logins = [login for login in of.logins if value in (None, login.vendor, login.secret_name)]
        return Capabilities.none().with_logins(logins) if logins else None
    whole = of.get(_KINDS[section])
    part = None if whole is None else whole.part(section, value)
    return None if part is None else Capabilities.of([part])


def _unite_capabilities(one: Capabilities, other: Capabilities, request: Capabilities) -> Capabilities:
    """Return capabilities with the entries of `one` and `other`, and the numeric limits of `one`.

    If `one` is not empty and has no sections for tools, all tools may use everything in `one`. If only `other` has
    sections for tools, the tools get their sections in `request`, so that no tool loses a capability.
    """
    logins = {login.secret_name: login for login in (*other.logins, *one.logins)}
    tools = None
    if one.tools is not None or other.tools is not None:
        is_empty = one == Capabilities(limits=one.limits)  # an empty grant has nothing that a tool could lose
        held = request.tools if one.tools is None and not is_empty else one.tools
        named = {tool.name: tool for tool in (*(other.tools or ()), *(held or ()))}
        tools = tuple(named.values())
    return replace(one.with_all(other), tools=tools, logins=tuple(logins.values()))


def _without(grant: Capabilities, amendment: Amendment) -> Capabilities:
    section, value = amendment
    if section == "tools":
        return _without_tools(grant, value)
    if section == "logins":
        left = tuple(login for login in grant.logins if value not in (None, login.vendor, login.secret_name))
        return replace(grant, logins=left)
    kind = _KINDS[section]
    part = grant.get(kind)
    rest = None if part is None else part.without(section, value)
    return grant.without(kind) if rest is None else grant.with_part(rest)


def _without_tools(grant: Capabilities, pattern: str | None) -> Capabilities:
    if grant.tools is not None:
        left = [tool for tool in grant.tools if pattern is not None and not fnmatchcase(tool.name, pattern)]
        return replace(grant, tools=tuple(left))
    if pattern is None:
        return Capabilities(limits=grant.limits)
    raise ConfigurationError(
        "the grant has no sections for single tools", hint='revoke the capability itself, such as "http" or "workspace"'
    )


def _narrow_tool_sections(grant: Capabilities) -> Capabilities:
    """Narrow the section of each tool to the capabilities that the component still has: a valid grant requires this."""
    if grant.tools is None:
        return grant
    tools = (ToolGrant(tool.name, section_of(grant, tool.name), tool.effects) for tool in grant.tools)
    return replace(grant, tools=tuple(tools))
