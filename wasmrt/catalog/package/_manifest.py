"""Reads IronClaw's extension manifest, version 3 or 2: every mistake at once, and other kinds than tools by name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple

from wasmrt.capabilities.file import INVALID, Problems, child, nearest
from wasmrt.catalog.package._fields import HEAD, TOOL, V2, V3
from wasmrt.catalog.package._standard import reserved_operations, standard_operations
from wasmrt.core.errors import InvalidNameError, ManifestError, PackageError
from wasmrt.core.limits import MAX_MANIFEST_BYTES, MAX_TOOLS_PER_COMPONENT
from wasmrt.core.names import check_installed_name, is_alias

_KINDS = {
    "mcp": "an MCP server: connect to it as a client",
    "script": "a script, which nothing here confines",
    "first_party": "a part of another host",
    "system": "a part of another host",
}
_OTHER = {
    "channel": "a channel (messages in and out of a chat), which no tool is",
    "hooks": "hooks into another host's loop",
    "mcp": "an MCP server",
    "memory": "a memory of another host",
}
"""Surfaces of a package that are no tools, in words."""
_PROVIDER = "capability_provider"


class Manifest(NamedTuple):
    """A manifest without a mistake; `tools`, `logins` and `settings` as JSON data, in version 3's keys."""

    schema: str
    id: str
    name: str
    version: str
    description: str
    module: str
    tools: tuple[dict[str, Any], ...]
    logins: Mapping[str, dict[str, Any]]
    settings: tuple[dict[str, Any], ...]
    left: tuple[str, ...]
    """Sentences on what the package holds besides tools."""


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestError: with every mistake, each at its key.
        PackageError: it is of another kind than tools; the message says which.
    """
    tree = read_toml(data)
    problems = Problems()
    schema = tree.pop("schema_version", None)
    if schema not in (V3, V2):
        problems.add("schema_version", f"must be {V3!r} or {V2!r}{nearest(str(schema), (V3, V2))}")
        raise refused(problems)
    _check_kind(tree)
    place, tools = _listed_tools(tree, problems)
    head, left = _head(tree, problems)
    read = [_read_tool(schema, tool, f"{place}[{index}]", problems) for index, tool in enumerate(tools)]
    if head is not INVALID:
        _check(head, {f"{place}[{index}]": tool for index, tool in enumerate(read) if tool is not INVALID}, problems)
    if problems:
        raise refused(problems)
    return Manifest(
        schema=schema,
        id=head["id"],
        name=head.get("name", head["id"]),
        version=head.get("version", ""),
        description=head.get("description", ""),
        module=head["runtime"]["module"],
        tools=tuple(read),
        logins=head.get("auth", {}),
        settings=tuple(head.get("admin_configuration", {}).get("fields", ())),
        left=tuple(left),
    )


def read_toml(data: bytes) -> dict[str, Any]:
    """Read TOML within bounds.

    Raises:
        ManifestError: it is no TOML, or over the bound.
    """
    try:
        if len(data) > MAX_MANIFEST_BYTES:
            raise ValueError(f"it is over {MAX_MANIFEST_BYTES:,} bytes")
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        problems = Problems()
        problems.add("$", f"not TOML: {str(error)[:200]}")
        raise refused(problems) from None


def refused(problems: Problems) -> ManifestError:
    """Return the error for a manifest with mistakes."""
    place, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ManifestError(
        f"the manifest cannot be used: {place}: {first}{more}",
        problems=tuple(problems.found),
        hint="the package's author has to mend it",
    )


def _check_kind(tree: Mapping[str, Any]) -> None:
    runtime = tree.get("runtime")
    kind = runtime.get("kind") if isinstance(runtime, dict) else None
    if isinstance(kind, str) and kind in _KINDS and kind != "wasm":
        raise PackageError(
            f"the package is {_KINDS[kind]}; it has no tools that run in a sandbox",
            code="package-kind", hint="packages whose runtime is wasm can be installed",
        )  # fmt: skip
    if "tools" not in tree and "capabilities" not in tree and _PROVIDER not in tree:
        found = [words for key, words in _OTHER.items() if key in tree]
        if found:
            raise PackageError(
                f"the package is {found[0]}; it has no tools",
                code="package-kind", hint="packages with tools can be installed",
            )  # fmt: skip


def _listed_tools(tree: dict[str, Any], problems: Problems) -> tuple[str, list[Any]]:
    """Take the tools out of the tree, wherever its version has them, with the place they stood at."""
    place, tools = "tools", tree.pop("tools", None)
    for key in ("capabilities", _PROVIDER):
        at, section = key, tree.pop(key, None)
        for inner in ("tools", "capabilities"):
            if isinstance(section, dict):
                at, section = f"{at}.{inner}", section.get(inner)
        if tools is None and section is not None:
            place, tools = at, section
    tree.pop("host_api", None)
    if not isinstance(tools, list) or not tools:
        problems.add(place, "must be a list of at least one tool")
        return place, []
    if len(tools) > MAX_TOOLS_PER_COMPONENT:
        problems.add(place, f"holds over {MAX_TOOLS_PER_COMPONENT} tools")
        return place, []
    return place, tools


def _head(tree: Mapping[str, Any], problems: Problems) -> tuple[Any, list[str]]:
    """Read what is not about single tools; say of every other section that it was left out."""
    before = len(problems)
    head = {}
    for key, prop in HEAD.items():
        if key in tree:
            head[key] = prop.field.read(tree[key], key, problems)
        elif prop.required:
            problems.add(key, "is missing")
    left = [
        f"[{key}] was left out: {_OTHER.get(key, 'it is about no tool')}" for key in sorted(tree.keys() - HEAD.keys())
    ]
    return (INVALID if len(problems) > before else head), left


def _read_tool(schema: str, tool: Any, at: str, problems: Problems) -> Any:
    """Read one tool; version 2's credentials say their vendor and scopes in `source`."""
    read = TOOL[schema].read(tool, at, problems)
    if read is INVALID:
        return INVALID
    for credential in read.get("credentials", ()):
        source = credential.pop("source", {})
        credential.setdefault("vendor", str(source.get("provider", ""))[:256])
    return read


def _check(head: Mapping[str, Any], tools: Mapping[str, dict[str, Any]], problems: Problems) -> None:
    """Check what is about several keys; `tools` by the place where each stands."""
    try:
        check_installed_name(head["id"])
    except InvalidNameError as error:
        problems.add("id", error.message)
    if head["runtime"]["kind"] != "wasm":
        problems.add("runtime.kind", f"is {head['runtime']['kind']!r}, and only wasm runs here")
    if "module" not in head["runtime"]:
        problems.add("runtime.module", "is missing")
    seen: set[str] = set()
    for at, tool in tools.items():
        package, _, name = tool["id"].partition(".")
        if package != head["id"] or not is_alias(name):
            problems.add(f"{at}.id", f"must be {head['id']}.NAME, with a name of letters, digits, '_', '-' and '.'")
        if tool["id"] in seen:
            problems.add(f"{at}.id", "stands twice")
        seen.add(tool["id"])
        _check_schema(head["id"], tool, at, problems)
        for number, credential in enumerate(tool.get("credentials", ())):
            _check_credential(credential, child(f"{at}.credentials", number), problems)
    _check_vendors(head.get("auth", {}), tools, problems)


def _check_schema(package: str, tool: Mapping[str, Any], at: str, problems: Problems) -> None:
    operation = tool.get("standard_op")
    if operation is None:
        if "input_schema_ref" not in tool:
            problems.add(f"{at}.input_schema_ref", "is missing")
        return
    known = standard_operations()
    if operation in reserved_operations():
        problems.add(f"{at}.standard_op", f"{operation!r} is a name that the standard keeps for later")
    elif operation not in known:
        problems.add(f"{at}.standard_op", f"is no operation of the standard{nearest(operation, (*known,))}")
    elif known[operation].writes and "external_write" not in tool.get("effects", ()):
        problems.add(f"{at}.effects", f"{operation} writes, so external_write is one of its effects")
    if tool["id"] != f"{package}.{operation}":
        problems.add(f"{at}.id", f"must be {package}.{operation}, as the operation")
    for key in ("input_schema_ref", "output_schema_ref"):
        if key in tool:
            problems.add(f"{at}.{key}", "the standard's schema counts; leave it out")


def _check_credential(credential: Mapping[str, Any], at: str, problems: Problems) -> None:
    if credential["audience"].get("scheme", "https") != "https":
        problems.add(f"{at}.audience.scheme", "must be https: a secret goes over nothing else")
    injection = credential["injection"]
    needed = {"header": "name", "query_param": "name", "basic": "username", "path_placeholder": "placeholder"}
    if injection["type"] not in needed:
        problems.add(f"{at}.injection.type", "a secret cannot be put into a body here")
    elif needed[injection["type"]] not in injection:
        problems.add(f"{at}.injection.{needed[injection['type']]}", "is missing")


def _check_vendors(logins: Mapping[str, Any], tools: Mapping[str, dict[str, Any]], problems: Problems) -> None:
    """Find secrets of two vendors, one of which has a login: its token would go to where the other's belongs."""
    owners: dict[str, str] = {}
    for at, tool in tools.items():
        for number, credential in enumerate(tool.get("credentials", ())):
            vendor, handle = credential["vendor"], credential["handle"]
            owner = owners.setdefault(handle, vendor)
            if owner != vendor and not {owner, vendor}.isdisjoint(logins):
                problems.add(
                    f"{at}.credentials[{number}].handle",
                    f"{handle!r} is the secret of {owner or 'no vendor'!r}; a login sets its own vendor's secret only",
                )
