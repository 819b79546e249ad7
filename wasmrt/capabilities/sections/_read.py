"""Reads a capability file's text into checked sections; any mistake refuses it, and all are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from wasmrt.capabilities.model import (
    ANY_HOST,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    OAuthConfig,
    RateLimitConfig,
    SecretsCapability,
    ToolInvokeCapability,
    ToolLimits,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    with_ports,
)
from wasmrt.capabilities.sections._beyond import HTTP_NUMBERS, beyond
from wasmrt.capabilities.sections._capabilities import NESTED, ROOT
from wasmrt.capabilities.sections._fields import INVALID, nearest
from wasmrt.capabilities.sections._json import Problems, child, read_json
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityFileError, ConfigurationError, WasmrtError

T = TypeVar("T")
_Attempt = Callable[[str, Callable[[], Any]], Any]


class Asked(NamedTuple):
    """The capabilities that a file asks for."""

    http: HttpCapability | None = None
    workspace_read: WorkspaceCapability | None = None
    secrets: SecretsCapability | None = None
    tool_invoke: ToolInvokeCapability | None = None
    limits: ToolLimits = ToolLimits()
    tools: tuple[AskedOfTool, ...] | None = None
    workspace_write: WorkspaceWriteCapability | None = None
    logins: tuple[LoginCapability, ...] = ()


class AskedOfTool(NamedTuple):
    """The section of one tool."""

    name: str
    asked: Asked
    effects: tuple[Effect, ...] | None


class Sections(NamedTuple):
    """A capability file without a mistake."""

    asked: Asked
    tree: dict[str, Any]
    """Every section as JSON data, under its own spelling of each key."""


def read_sections(data: str | bytes) -> Sections:
    """Read a capability file's text.

    Raises:
        CapabilityFileError: with every mistake, each at its JSON path.
    """
    problems = Problems()
    tree = read_json(data, problems)
    if (kind := _other_kind(tree)) is not None:
        problems.add(kind, f"this is the file of a {_OTHER_KINDS[kind]}, which is no tool")
        raise _error(problems)
    if tree is not None or not problems:
        tree, nested = _raise_nested(ROOT.read(tree, "", problems), problems)
    if tree is not INVALID and not problems:
        found = Problems()
        asked = _build(tree, found)
        _check_logins(tree, found)
        for path, sentence in found.found:
            problems.add(f"{NESTED}.{path}" if _top(path) in nested else path, sentence)
    if problems:
        raise _error(problems)
    return Sections(asked, tree)


_OTHER_KINDS = {
    "channel": "channel (messages in and out of a chat)",
    "hook": "hook (called in another host's own loop)",
}
"""Kinds of sidecars of IronClaw besides those of tools; their own keys would all be told as mistakes."""
_HOOK_KEYS = frozenset({"hook", "hooks", "hook_point", "hook_points"})


def _other_kind(tree: Any) -> str | None:
    """Return the kind of thing that a file is of, where that is no tool: by its `type` or `kind`, or by a section."""
    if not isinstance(tree, dict):
        return None
    for part in (tree, tree.get(NESTED)):
        if not isinstance(part, dict):
            continue
        said = (
            {part.get("type"), part.get("kind")}
            if all(isinstance(part.get(key, ""), str) for key in ("type", "kind"))
            else set()
        )
        if "channel" in said or "channel" in part:
            return "channel"
        if "hook" in said or not _HOOK_KEYS.isdisjoint(part):
            return "hook"
    return None


def _error(problems: Problems) -> CapabilityFileError:
    first_path, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return CapabilityFileError(
        f"the capability file cannot be used: {first_path}: {first}{more}",
        problems=tuple(problems.found),
        hint="wasmrt caps check FILE lists every mistake",
    )


def _raise_nested(tree: Any, problems: Problems) -> tuple[Any, frozenset[str]]:
    """Move the sections under `capabilities` to the top, and name them; one that is in both places is a mistake."""
    if tree is INVALID or NESTED not in tree:
        return tree, frozenset()
    nested = tree.pop(NESTED)
    for key in nested:
        if key in tree:
            problems.add(child(NESTED, key), f"{key!r} also stands at the top; keep one")
    return nested | tree, frozenset(nested)


def _top(path: str) -> str:
    """Return the section that a path lies in."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _check_logins(tree: dict[str, Any], problems: Problems) -> None:
    """Find logins that could be taken for each other: of one vendor, or for one secret."""
    auth = tree.get("auth", {})
    taken = {auth.get("secret_name"): "auth"}
    for vendor, login in tree.get("logins", {}).items():
        at = child("logins", vendor)
        if vendor in (auth.get("provider"), auth.get("secret_name")):
            problems.add(at, "auth is the login of this vendor already")
        if (other := taken.setdefault(login["secret_name"], at)) != at:
            problems.add(f"{at}.secret_name", f"{other} sets this secret already")


def _build(tree: dict[str, Any], problems: Problems) -> Asked:
    asked = _build_sections(tree, "", Asked(), problems)._replace(logins=tuple(_build_logins(tree, problems)))
    if "tools" not in tree or problems:
        return asked
    tools = tuple(_build_tool(name, section, asked, problems) for name, section in tree["tools"].items())
    return asked._replace(tools=tools)


def _build_logins(tree: dict[str, Any], problems: Problems) -> Iterator[LoginCapability]:
    auth = tree.get("auth", {})
    listed = [("auth", auth.get("provider") or auth.get("secret_name", ""), auth)]
    listed += [(child("logins", vendor), vendor, login) for vendor, login in tree.get("logins", {}).items()]
    for at, vendor, login in listed:
        if "oauth" in login:
            try:
                yield LoginCapability(vendor, login["secret_name"], read_oauth(login["oauth"]))
            except ConfigurationError as error:
                problems.add(at, error.message)


def read_oauth(tree: dict[str, Any]) -> OAuthConfig:
    """Make the request for a token of its checked JSON."""
    extra = tuple(sorted(tree.get("extra_params", {}).items()))
    return OAuthConfig(**tree | {"scopes": tuple(dict.fromkeys(tree.get("scopes", ()))), "extra_params": extra})


def _build_sections(tree: dict[str, Any], at: str, outer: Asked, problems: Problems) -> Asked:
    """Build the sections of a component, or of a tool whose component has `outer`, which numbers come from."""

    def attempt(path: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except WasmrtError as error:
            problems.add(f"{at}{path}", f"{error.message}{f' ({error.hint})' if error.hint else ''}")
            return None

    workspace, secrets, invoke = tree.get("workspace"), tree.get("secrets"), tree.get("tool_invoke")
    writing, over = tree.get("workspace_write"), outer.workspace_write or WorkspaceWriteCapability()
    return Asked(
        http=_build_http(tree["http"], outer.http, attempt) if "http" in tree else None,
        workspace_read=WorkspaceCapability(workspace["allowed_prefixes"]) if workspace else None,
        secrets=SecretsCapability(secrets["allowed_names"]) if secrets is not None else None,
        tool_invoke=attempt("tool_invoke", lambda: _build_invoke(invoke)) if invoke is not None else None,
        limits=ToolLimits(**tree.get("limits", {})),
        workspace_write=replace(over, **{"remove": False} | writing) if writing else None,
    )


def _build_http(tree: dict[str, Any], component: HttpCapability | None, attempt: _Attempt) -> HttpCapability | None:
    entries = [
        attempt(f"http.allowlist[{index}]", lambda entry=entry: build_endpoint(entry))  # type: ignore[misc]
        for index, entry in enumerate(tree.get("allowlist", []))
    ]
    credentials = [
        attempt(child("http.credentials", name), lambda name=name, item=item: _build_credential(name, item))  # type: ignore[misc]
        for name, item in tree.get("credentials", {}).items()
    ]
    if None in entries or None in credentials:
        return None
    if component is not None:  # the section of a tool; its own allowlist is narrower
        credentials = [with_ports(mapping, component.allowlist) for mapping in credentials]
    outer = component or HttpCapability()
    numbers = {name: tree.get(name, getattr(outer, name)) for name in HTTP_NUMBERS}
    rate = replace(outer.rate_limit, **tree.get("rate_limit", {}))
    made: HttpCapability | None = attempt(
        "http", lambda: HttpCapability(tuple(entries), tuple(credentials), rate, **numbers)
    )
    return made


def _build_tool(name: str, tree: dict[str, Any], component: Asked, problems: Problems) -> AskedOfTool:
    at = child("tools", name)
    outer = component.http
    asked = _build_sections(tree, f"{at}.", component, problems)
    http = asked.http
    if "credentials" in tree:
        known = {mapping.name: mapping for mapping in outer.credentials} if outer is not None else {}
        for wanted in tree["credentials"]:
            if wanted not in known:
                problems.add(f"{at}.credentials", f"http.credentials has no {wanted!r}{nearest(wanted, (*known,))}")
        named = [known[wanted] for wanted in dict.fromkeys(tree["credentials"]) if wanted in known]
        if http is None and "http" not in tree:
            problems.add(f"{at}.credentials", "the tool has no http section, so no request could carry them")
        elif http is not None:
            mine = {mapping.name for mapping in http.credentials}
            more = tuple(mapping for mapping in named if mapping.name not in mine)
            asked = asked._replace(http=replace(http, credentials=(*http.credentials, *more)))
    for place, sentence in beyond(asked, component):
        problems.add(f"{at}.{place}", sentence)
    effects = tuple(map(Effect, tree["effects"])) if "effects" in tree else None
    return AskedOfTool(name, asked, effects)


def build_endpoint(tree: dict[str, Any]) -> EndpointPattern:
    """Return the entry of an allowlist that was read.

    Raises:
        ConfigurationError: its parts do not fit together.
    """
    ports = tree.get("ports", [tree["port"]] if "port" in tree else [])
    schemes = tree.get("schemes", [tree.get("scheme", "https")])
    is_any, public = tree.get("any_public_host", False), tree.get("public_only", False)
    if is_any == ("host" in tree):
        raise ConfigurationError("an entry names a host, or says any_public_host: true, and not both", hint="keep one")
    return EndpointPattern(
        ANY_HOST if is_any else tree["host"],
        tree.get("path_prefix"),
        tuple(tree.get("methods", ())),
        ports,
        schemes,
        tree.get("path"),
        is_any or public,
    )


def _build_credential(name: str, tree: dict[str, Any]) -> CredentialMapping:
    return CredentialMapping(
        secret_name=tree["secret_name"],
        location=tree["location"],
        host_patterns=tree["host_patterns"],
        path_patterns=tree.get("path_patterns", ()),
        optional=tree.get("optional", False),
        ports=tree.get("ports", ()),
        name=name,
    )


def _build_invoke(tree: dict[str, Any]) -> ToolInvokeCapability:
    return ToolInvokeCapability(tuple(tree["aliases"].items()), RateLimitConfig(**tree.get("rate_limit", {})))
