"""Wassette's policy.yaml: hosts, folders and memory; what it allows and a capability file cannot is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wasmrt.capabilities import ToolLimits
from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.capabilities.foreign._imported import Imported
from wasmrt.capabilities.foreign._yaml import read_yaml
from wasmrt.capabilities.model import EndpointPattern, read_prefix
from wasmrt.core.errors import CapabilityFileError, WasmrtError

_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_HOST = re.compile(r"(?:(https?)://)?([^/:]+)(?::([0-9]{1,5}))?(/.*)?$")


def import_policy(text: str) -> Imported:
    """Read a policy.

    Raises:
        CapabilityFileError: it is no YAML that is read here, or no policy.
    """
    tree = read_yaml(text)
    permissions = tree.get("permissions") if isinstance(tree, dict) else None
    if not isinstance(permissions, dict):
        raise CapabilityFileError(
            "this is no policy: it has no permissions", problems=(("permissions", "is missing"),), hint="check the file"
        )
    left = [f"{key}: is not known" for key in tree if key not in ("version", "description", "permissions")]
    hosts, folders, limits = [], [], ToolLimits()
    for section, value in permissions.items():
        match section:
            case "network":
                found = [_endpoint(*item, left) for item in _allowed(section, value, left)]
                hosts += [entry for entry in found if entry is not None]
            case "storage":
                read = [_prefix(*item, left) for item in _allowed(section, value, left)]
                folders += [path for path in read if path is not None]
            case "resources" | "memory":
                limits = _limits(section, value, left)
            case "environment":
                instead = "a tool has no environment here; the host puts credentials on requests, by http.credentials"
                left += [f"{at}: {instead}" for at, _ in _allowed(section, value, left)]
            case _:
                left.append(f"permissions.{section}: nothing here is like it")
    asked = Capabilities.none().with_limits(limits)
    asked = asked.with_http(hosts) if hosts else asked
    asked = asked.with_workspace_read(folders) if folders else asked
    description = tree.get("description")
    told = description if isinstance(description, str) else None
    return Imported(CapabilityFile(capabilities=asked, description=told), tuple(left))


def _allowed(section: str, value: Any, left: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the entries that a section allows, with their places; none where it denies some of them again."""
    at = f"permissions.{section}"
    if not isinstance(value, dict):
        left.append(f"{at}: is no map of allow and deny")
        return
    left += [f"{at}.{key}: is not known" for key in value if key not in ("allow", "deny")]
    if value.get("deny"):
        # SECURITY: what is allowed here cannot be denied again, so that taking over the rest would be wider.
        left.append(f"{at}: none of it was taken over, since it denies a part of what it allows; list what is left")
        return
    entries = value.get("allow") or []
    if not isinstance(entries, list):
        left.append(f"{at}.allow: is no list")
        return
    yield from ((f"{at}.allow[{index}]", entry) for index, entry in enumerate(entries))


def _endpoint(at: str, entry: Any, left: list[str]) -> EndpointPattern | None:
    host = entry.get("host") if isinstance(entry, dict) and entry.keys() == {"host"} else None
    match = _HOST.match(host) if isinstance(host, str) else None
    if match is None:
        kind = "a range of addresses is the operator's to open, with unsafe_allowed_networks"
        left.append(f"{at}: {kind if isinstance(entry, dict) and 'cidr' in entry else 'is not a single host'}")
        return None
    scheme, name, port, path = match.groups()
    try:
        ports = (int(port),) if port else ()
        return EndpointPattern(name, path, ports=ports, schemes=(scheme or "https",))
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return None


def _prefix(at: str, entry: Any, left: list[str]) -> str | None:
    uri = entry.get("uri") if isinstance(entry, dict) else None
    access = entry.get("access", []) if isinstance(entry, dict) else []
    if not isinstance(uri, str) or not uri.startswith("fs://") or "read" not in access:
        left.append(f"{at}: is no folder that may be read")
        return None
    if "write" in access:
        left.append(f"{at}: writing is not taken over")
    path = uri.removeprefix("fs://")
    folder = path.removesuffix("**").removesuffix("*")
    if path.endswith("/*"):
        left.append(f"{at}: was left out, since a folder is always read with all below it")
        return None
    try:
        if folder.startswith("/") or not folder.strip("/"):
            raise CapabilityFileError("only folders inside the workspace can be read", hint="name one relative to it")
        return read_prefix(folder)
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return None


def _limits(section: str, value: Any, left: list[str]) -> ToolLimits:
    at, memory = f"permissions.{section}", None
    tree = value.get("limits", value) if isinstance(value, dict) else {}
    for key, amount in tree.items() if isinstance(tree, dict) else ():
        match = re.fullmatch(r"([0-9]{1,12})\s*([kmgKMG]i?)?b?", str(amount), re.IGNORECASE)
        if key in ("memory", "limit") and match:
            memory = int(match[1]) * _UNITS[(match[2] or "").lower()]
        else:
            left.append(f"{at}.{key}: no limit here is like it")
    try:
        return ToolLimits(memory_bytes=memory)
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return ToolLimits()
