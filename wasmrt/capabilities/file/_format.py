"""Writes a capability file in its one spelling: known order, defaults left out, a line for each allowlist entry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities.file._auth import AuthSection
from wasmrt.capabilities.file._model import CapabilityFile
from wasmrt.capabilities.model import (
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    LoginCapability,
    RateLimitConfig,
    WorkspaceCapability,
    WorkspaceWriteCapability,
    usual_ports,
)
from wasmrt.capabilities.sections import HTTP_NUMBERS, WRITE_NUMBERS

_WIDTH = 110
_RATE_NUMBERS = ("requests_per_minute", "requests_per_hour")


def format_file(file: CapabilityFile | Capabilities) -> str:
    """Return the text that `parse` reads back as the same value, with a newline at its end."""
    return f"{_write(as_tree(file), 0)}\n"


def as_tree(file: CapabilityFile | Capabilities) -> dict[str, Any]:
    """Return the file as JSON-ready data, in the order written."""
    if isinstance(file, Capabilities):
        tree = _capabilities(file)
        return tree | ({"logins": {login.vendor: _login(login) for login in file.logins}} if file.logins else {})
    tree = {}
    if "$schema" in file.sections:
        tree["$schema"] = file.sections["$schema"]
    for key in ("description", "version", "wit_version"):
        if (value := getattr(file, key)) is not None:
            tree[key] = value
    tree |= _capabilities(file.capabilities)
    if file.auth is not None:
        tree["auth"] = _auth(file.auth)
    if file.logins:
        tree["logins"] = {login.vendor: _auth(replace(login, provider=None)) for login in file.logins}
    return tree | {key: value for key, value in file.sections.items() if key != "$schema"}


def _capabilities(capabilities: Capabilities) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    if capabilities.http is not None:
        tree["http"] = _http(capabilities.http)
    if capabilities.workspace_read is not None:
        tree["workspace"] = _workspace(capabilities.workspace_read)
    if capabilities.workspace_write is not None:
        tree["workspace_write"] = _writing(capabilities.workspace_write, WorkspaceWriteCapability())
    if capabilities.secrets is not None:
        tree["secrets"] = {"allowed_names": list(capabilities.secrets.allowed_names)}
    if (invoke := capabilities.tool_invoke) is not None:
        tree["tool_invoke"] = {"aliases": dict(invoke.aliases)} | _rate(invoke.rate_limit)
    if overrides := capabilities.limits.overrides():
        tree["limits"] = {name: _as_json(name, value) for name, value in overrides.items()}
    if capabilities.tools is not None:
        tree["tools"] = {tool.name: _tool(tool, capabilities) for tool in capabilities.tools}
    return tree


def _tool(tool: ToolGrant, component: Capabilities) -> dict[str, Any]:
    """A tool's section: numbers that are the component's are left out, and its credentials are named."""
    asked, http = _capabilities(replace(tool.capabilities, http=None)), tool.capabilities.http
    if http is not None:
        outer = component.http or HttpCapability()
        known = [mapping.name for mapping in http.credentials if mapping in outer.credentials]
        own = _credentials((m for m in http.credentials if m not in outer.credentials), outer.allowlist)
        tree: dict[str, Any] = {"allowlist": [entry.as_dict() for entry in http.allowlist]}
        if own:
            tree["credentials"] = own
        if http.rate_limit != outer.rate_limit:
            tree["rate_limit"] = {name: getattr(http.rate_limit, name) for name in _RATE_NUMBERS}
        tree |= {n: _as_json(n, getattr(http, n)) for n in HTTP_NUMBERS if getattr(http, n) != getattr(outer, n)}
        asked = {"http": tree} | ({"credentials": known} if known else {}) | asked
    if (writing := tool.capabilities.workspace_write) is not None:
        asked["workspace_write"] = _writing(writing, component.workspace_write or WorkspaceWriteCapability())
    return asked | ({} if tool.effects is None else {"effects": [str(effect) for effect in tool.effects]})


def _http(http: HttpCapability) -> dict[str, Any]:
    tree: dict[str, Any] = {"allowlist": [entry.as_dict() for entry in http.allowlist]}
    if http.credentials:
        tree["credentials"] = _credentials(http.credentials, http.allowlist)
    return tree | _rate(http.rate_limit) | _changed(http, *HTTP_NUMBERS)


def _credentials(mappings: Iterable[CredentialMapping], allowlist: Sequence[EndpointPattern]) -> dict[str, Any]:
    """Ports are left out where the allowlist that they are read with says the same."""
    tree = {mapping.name: mapping.as_dict() for mapping in mappings}
    for each in tree.values():
        if each["ports"] == list(usual_ports(each["host_patterns"], allowlist)):
            del each["ports"]
    return tree


def _workspace(workspace: WorkspaceCapability) -> Any:
    return True if "" in workspace.allowed_prefixes else {"allowed_prefixes": list(workspace.allowed_prefixes)}


def _writing(writing: WorkspaceWriteCapability, outer: WorkspaceWriteCapability) -> Any:
    numbers = {name: getattr(writing, name) for name in WRITE_NUMBERS if getattr(writing, name) != getattr(outer, name)}
    more = numbers | ({"remove": True} if writing.remove else {})
    if "" not in writing.allowed_prefixes:
        return {"allowed_prefixes": list(writing.allowed_prefixes)} | more
    return {"allowed_prefixes": True} | more if more else True


def _rate(rate: RateLimitConfig) -> dict[str, Any]:
    changed = _changed(rate, *_RATE_NUMBERS)
    return {"rate_limit": changed} if changed else {}


def _login(login: LoginCapability) -> dict[str, Any]:
    return _auth(AuthSection(secret_name=login.secret_name, oauth=login.oauth))


def _auth(auth: AuthSection) -> dict[str, Any]:
    names = [f.name for f in fields(auth) if f.name not in ("oauth", "validation_endpoint")]
    tree = _changed(auth, *names)
    for key in ("oauth", "validation_endpoint"):
        if (part := getattr(auth, key)) is not None:
            tree[key] = _changed(part, *(f.name for f in fields(part)))
    return tree


def _changed(owner: Any, *names: str) -> dict[str, Any]:
    """The fields that differ from their defaults, tuples as lists."""
    defaults = {f.name: f.default for f in fields(owner)}
    values = {name: getattr(owner, name) for name in names if getattr(owner, name) != defaults[name]}
    return {name: _as_json(name, value) for name, value in values.items()}


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value) if name in ("extra_params", "headers") else list(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _depth(value: Any) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(member) for member in members), default=0)


def _write(value: Any, indent: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value:
        return flat
    if indent > 2 and _depth(value) <= 2 and indent + len(flat) < _WIDTH:
        return flat
    inner, pad = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        lines = [f"{inner}{_write(item, indent + 2)}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{pad}]"
    lines = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_write(item, indent + 2)}" for key, item in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{pad}}}"
