"""Convert permission files of other tool runtimes to capability files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from wasmrt.capabilities import ToolLimits
from wasmrt.capabilities._capabilities import Capabilities
from wasmrt.capabilities.file import CapabilityFile, parse
from wasmrt.capabilities.model import EndpointPattern, read_prefix
from wasmrt.core.errors import CapabilityFileError, WasmrtError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_CAPABILITY_FILE_DEPTH
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.core.strict_yaml import read_yaml

__all__ = ["Imported", "import_policy", "import_sidecar"]

_ROUNDS = 200
_PATH_PART = re.compile(r"\[(\d+)\]|\[\"((?:[^\"\\]|\\.)*)\"\]|([^.\[\]]+)")
_COLLECTIONS = ("allowlist", "allowed_endpoints", "credentials", "aliases", "tools")
"""Lists and maps with independent entries, so that an invalid entry can be omitted without changing the others."""
_UNITS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_HOST = re.compile(r"(?:(https?)://)?([^/:]+)(?::([0-9]{1,5}))?(/.*)?$")


class Imported(NamedTuple):
    """A capability file that was converted from another runtime's file. It never allows more than that file."""

    file: CapabilityFile
    left: tuple[str, ...]
    """One line for each part that was not converted: its path and the reason."""


def import_sidecar(text: str | bytes) -> Imported:
    """Convert a sidecar of an older IronClaw release, and omit entries that a capability file cannot express.

    SECURITY: an entry with an unknown key is omitted completely, because the unknown key may narrow the entry.

    Raises:
        CapabilityFileError: the text is not a JSON object, describes a channel or hook, or has too many errors.
    """
    try:
        tree = read_json(text, max_bytes=MAX_CAPABILITY_FILE_BYTES, max_depth=MAX_CAPABILITY_FILE_DEPTH)
    except JsonError:
        return Imported(parse(text), ())  # raises the error that describes the problem
    left: list[str] = []
    for _ in range(_ROUNDS):
        try:
            return Imported(parse(json.dumps(tree)), tuple(left))
        except CapabilityFileError as error:
            path, message = error.problems[0]
            if not _delete(tree, _find_entry_path(path)):
                raise
            left.append(f"{path}: {message}")
    raise CapabilityFileError(
        f"cannot import a file with {_ROUNDS} errors or more", hint="list the errors: wasmrt caps check FILE"
    )


def _find_entry_path(path: str) -> list[str | int]:
    """Return the path of the part to omit because of an error at `path`: one entry if possible, else the section."""
    parts: list[str | int] = [
        int(number) if number else json.loads(f'"{quoted}"') if quoted else plain
        for number, quoted, plain in _PATH_PART.findall(path)
    ]
    start = 1 if parts[:1] == ["capabilities"] else 0
    for at, part in enumerate(parts):
        if part in _COLLECTIONS and at + 1 < len(parts):
            return parts[: at + 2]
    return parts[: start + 1]


def _delete(tree: Any, path: list[str | int]) -> bool:
    """Delete the value at a path. Return False if the path has no value."""
    *parents, last = path or ["$"]
    try:
        for part in parents:
            tree = tree[part]
        del tree[last]
    except (KeyError, IndexError, TypeError):
        return False
    return True


def import_policy(text: str) -> Imported:
    """Convert a policy.yaml of Wassette. Only its hosts, folders and memory limit are converted.

    Raises:
        CapabilityFileError: the text is not strict YAML, or `permissions` is not a mapping.
    """
    tree, mistakes = read_yaml(
        text, max_bytes=MAX_CAPABILITY_FILE_BYTES, max_depth=MAX_CAPABILITY_FILE_DEPTH, nulls=True
    )
    if mistakes:
        problems = tuple((f"line {line}", problem) for line, problem in mistakes)
        listed = "; ".join(f"{place}: {problem}" for place, problem in problems)
        raise CapabilityFileError(
            f"cannot read the policy: {listed}", problems=problems, hint="fix these lines, then import it again"
        )
    permissions = tree.get("permissions") if isinstance(tree, dict) else None
    if not isinstance(tree, dict) or not isinstance(permissions, dict):
        raise CapabilityFileError(
            'the file is not a policy: "permissions" must be a mapping',
            problems=(("permissions", "must be a mapping"),),
            hint="check that the file is Wassette's policy.yaml",
        )
    left = [f"{key}: unknown key" for key in tree if key not in ("version", "description", "permissions")]
    hosts, folders, limits = [], [], ToolLimits()
    for section, value in permissions.items():
        match section:
            case "network":
                found = [_read_endpoint(*item, left) for item in _iter_allowed(section, value, left)]
                hosts += [entry for entry in found if entry is not None]
            case "storage":
                read = [_read_folder_prefix(*item, left) for item in _iter_allowed(section, value, left)]
                folders += [path for path in read if path is not None]
            case "resources" | "memory":
                limits = _read_limits(section, value, left)
            case "environment":
                instead = "tools have no environment variables; the host adds credentials through http.credentials"
                left += [f"{at}: {instead}" for at, _ in _iter_allowed(section, value, left)]
            case _:
                left.append(f"permissions.{section}: has no equivalent in a capability file")
    requested = Capabilities.none().with_limits(limits)
    requested = requested.with_http(hosts) if hosts else requested
    requested = requested.with_workspace_read(folders) if folders else requested
    description = tree.get("description")
    return Imported(
        CapabilityFile(capabilities=requested, description=description if isinstance(description, str) else None),
        tuple(left),
    )


def _iter_allowed(section: str, value: Any, left: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of each allowed entry of a section, but nothing if the section denies anything."""
    at = f"permissions.{section}"
    if not isinstance(value, dict):
        left.append(f'{at}: must be a mapping with "allow" and "deny"')
        return
    left += [f"{at}.{key}: unknown key" for key in value if key not in ("allow", "deny")]
    if value.get("deny"):
        # SECURITY: a capability file cannot deny part of an allowed entry, so importing the entries would widen access.
        left.append(f'{at}: omitted, because a capability file cannot express "deny"; list only the allowed entries')
        return
    entries = value.get("allow") or []
    if not isinstance(entries, list):
        left.append(f"{at}.allow: must be a list")
        return
    yield from ((f"{at}.allow[{index}]", entry) for index, entry in enumerate(entries))


def _read_endpoint(at: str, entry: Any, left: list[str]) -> EndpointPattern | None:
    host = entry.get("host") if isinstance(entry, dict) and entry.keys() == {"host"} else None
    match = _HOST.match(host) if isinstance(host, str) else None
    if match is None:
        is_range = isinstance(entry, dict) and "cidr" in entry
        left.append(
            f'{at}: only the operator can allow a range of addresses, with the setting "unsafe_allowed_networks"'
            if is_range
            else f"{at}: must be a single host"
        )
        return None
    scheme, name, port, path = match.groups()
    try:
        return EndpointPattern(name, path, ports=(int(port),) if port else (), schemes=(scheme or "https",))
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return None


def _read_folder_prefix(at: str, entry: Any, left: list[str]) -> str | None:
    uri = entry.get("uri") if isinstance(entry, dict) else None
    access = entry.get("access") if isinstance(entry, dict) else None
    if not isinstance(uri, str) or not uri.startswith("fs://") or not isinstance(access, list) or "read" not in access:
        left.append(f"{at}: must be an fs:// folder with read access")
        return None
    if "write" in access:
        left.append(f"{at}: write access was not imported")
    path = uri.removeprefix("fs://")
    folder = path.removesuffix("**").removesuffix("*")
    if path.endswith("/*"):
        left.append(f"{at}: omitted, because a capability file grants a folder only with all its subfolders")
        return None
    try:
        if folder.startswith("/") or not folder.strip("/"):
            raise CapabilityFileError(
                "only folders in the workspace can be read", hint="write a path that is relative to the workspace"
            )
        return read_prefix(folder)
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return None


def _read_limits(section: str, value: Any, left: list[str]) -> ToolLimits:
    at, memory = f"permissions.{section}", None
    tree = value.get("limits", value) if isinstance(value, dict) else {}
    for key, amount in tree.items() if isinstance(tree, dict) else ():
        match = re.fullmatch(r"([0-9]{1,12})\s*([kmgKMG]i?)?b?", str(amount), re.IGNORECASE)
        if key in ("memory", "limit") and match:
            memory = int(match[1]) * _UNITS[(match[2] or "").lower()]
        else:
            left.append(f"{at}.{key}: has no equivalent limit in a capability file")
    try:
        return ToolLimits(memory_bytes=memory)
    except WasmrtError as error:
        left.append(f"{at}: {error.message}")
        return ToolLimits()
