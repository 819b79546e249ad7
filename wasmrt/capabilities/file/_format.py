"""Write a capability file in canonical form: fixed order, no defaults, and each allowlist entry on one line."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from wasmrt.capabilities._capabilities import Capabilities, ToolGrant
from wasmrt.capabilities._fields import whole
from wasmrt.capabilities.file._model import AuthSection, CapabilityFile
from wasmrt.capabilities.kinds._login import LoginCapability

_WIDTH = 110


def format_file(file: CapabilityFile | Capabilities) -> str:
    """Return the text of a capability file, with a newline at the end. `parse` reads the text as an equal value."""
    return f"{_format(as_tree(file), 0)}\n"


def as_tree(file: CapabilityFile | Capabilities) -> dict[str, Any]:
    """Return the file as JSON data, in canonical order."""
    if isinstance(file, Capabilities):
        tree = _capabilities_tree(file)
        return tree | ({"logins": {login.vendor: _login_tree(login) for login in file.logins}} if file.logins else {})
    tree = {}
    if "$schema" in file.sections:
        tree["$schema"] = file.sections["$schema"]
    for key in ("description", "version", "wit_version"):
        if (value := getattr(file, key)) is not None:
            tree[key] = value
    tree |= _capabilities_tree(file.capabilities)
    if file.auth is not None:
        tree["auth"] = _auth_tree(file.auth)
    if file.logins:
        tree["logins"] = {login.vendor: _auth_tree(replace(login, provider=None)) for login in file.logins}
    return tree | {key: value for key, value in file.sections.items() if key != "$schema"}


def _capabilities_tree(capabilities: Capabilities) -> dict[str, Any]:
    tree = {part.section: part.as_json(None) for part in capabilities.parts}
    if overrides := capabilities.limits.overrides():
        tree["limits"] = {name: whole(value) for name, value in overrides.items()}
    if capabilities.tools is not None:
        tree["tools"] = {tool.name: _tool_tree(tool, capabilities) for tool in capabilities.tools}
    return tree


def _tool_tree(tool: ToolGrant, component: Capabilities) -> dict[str, Any]:
    """Return the section of a tool as JSON data. It lists credentials of the component by name."""
    tree = {part.section: part.as_json(component.get(type(part))) for part in tool.capabilities.parts}
    theirs = () if component.http is None else component.http.credentials
    http = tool.capabilities.http
    known = [] if http is None else [mapping.name for mapping in http.credentials if mapping in theirs]
    first = {"http": tree["http"], "credentials": known} if known else {}
    return first | tree | ({} if tool.effects is None else {"effects": [str(effect) for effect in tool.effects]})


def _login_tree(login: LoginCapability) -> dict[str, Any]:
    return _auth_tree(AuthSection(secret_name=login.secret_name, oauth=login.oauth))


def _auth_tree(auth: AuthSection) -> dict[str, Any]:
    names = [f.name for f in fields(auth) if f.name not in ("oauth", "validation_endpoint")]
    tree = _changed(auth, *names)
    for key in ("oauth", "validation_endpoint"):
        if (part := getattr(auth, key)) is not None:
            tree[key] = _changed(part, *(f.name for f in fields(part)))
    return tree


def _changed(owner: Any, *names: str) -> dict[str, Any]:
    """Return those of the named fields whose values differ from the defaults, as JSON data."""
    defaults = {f.name: f.default for f in fields(owner)}
    values = {name: getattr(owner, name) for name in names if getattr(owner, name) != defaults[name]}
    return {name: _as_json(name, value) for name, value in values.items()}


def _as_json(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        return dict(value) if name in ("extra_params", "headers") else list(value)
    return value


def _measure_depth(value: Any) -> int:
    if not isinstance(value, (dict, list)):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max((_measure_depth(member) for member in members), default=0)


def _format(value: Any, indent: int) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or not value:
        return flat
    if indent > 2 and _measure_depth(value) <= 2 and indent + len(flat) < _WIDTH:
        return flat
    inner, pad = " " * (indent + 2), " " * indent
    if isinstance(value, list):
        lines = [f"{inner}{_format(item, indent + 2)}" for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{pad}]"
    lines = [
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_format(item, indent + 2)}" for key, item in value.items()
    ]
    return "{\n" + ",\n".join(lines) + f"\n{pad}}}"
