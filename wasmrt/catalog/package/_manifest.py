"""Read IronClaw's extension manifest, version 3 or 2. All errors in a manifest are reported together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from wasmrt.capabilities.file import INVALID, Problems, join_path, suggest_nearest
from wasmrt.catalog.package._fields import HEAD, TOOL, V2, V3
from wasmrt.catalog.package._standard import reserved_operations, standard_operations
from wasmrt.core import strict_toml
from wasmrt.core.errors import InvalidNameError, ManifestError, PackageError
from wasmrt.core.limits import MAX_TOOLS_PER_COMPONENT
from wasmrt.core.names import check_installed_name, is_alias

_KINDS = {
    "mcp": "an MCP server, which needs an MCP client",
    "script": "a script, which wasmrt does not run",
    "first_party": "a part of another tool runtime",
    "system": "a part of another tool runtime",
}
_OTHER = {
    "channel": "a channel (chat messages), not a tool",
    "hooks": "a set of hooks for another tool runtime",
    "mcp": "an MCP server",
    "memory": "a memory for another tool runtime",
}
"""Descriptions of the parts of a package that are not tools."""
_PROVIDER = "capability_provider"


class Manifest(NamedTuple):
    """A valid manifest. `tools`, `logins` and `settings` are JSON data with the keys of manifest version 3."""

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
    """Sentences about the package's parts that are not tools."""


def read_manifest(data: bytes) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestError: the manifest is invalid; `problems` lists every error with its key.
        PackageError: the package does not contain tools; the message says what it contains.
    """
    tree = read_toml(data)
    problems = Problems()
    schema = tree.pop("schema_version", None)
    if schema not in (V3, V2):
        problems.add("schema_version", f"must be {V3!r} or {V2!r}{suggest_nearest(str(schema), (V3, V2))}")
        raise make_refused_error(problems)
    _check_kind(tree)
    place, tools = _take_tools(tree, problems)
    head, left = _read_head(tree, problems)
    read = [_read_tool(schema, tool, f"{place}[{index}]", problems) for index, tool in enumerate(tools)]
    if head is not INVALID:
        _check(head, {f"{place}[{index}]": tool for index, tool in enumerate(read) if tool is not INVALID}, problems)
    if problems:
        raise make_refused_error(problems)
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
    """Parse the TOML of a manifest.

    Raises:
        ManifestError: the data is not valid TOML, or is larger than a manifest may be.
    """
    try:
        return strict_toml.read_toml(data)
    except strict_toml.TomlError as error:
        problems = Problems()
        problems.add("$", f"not valid TOML: {str(error)[:200]}")
        raise make_refused_error(problems) from None


def make_refused_error(problems: Problems) -> ManifestError:
    """Return the error for a manifest with problems."""
    place, first = problems.found[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ManifestError(
        f"invalid manifest: {place}: {first}{more}",
        problems=tuple(problems.found),
        hint="ask the package's author to fix it",
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


def _take_tools(tree: dict[str, Any], problems: Problems) -> tuple[str, list[Any]]:
    """Remove the tools from `tree`. Return their path, which depends on the manifest version, and the list of tools."""
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
        problems.add(place, f"has more than {MAX_TOOLS_PER_COMPONENT} tools")
        return place, []
    return place, tools


def _read_head(tree: Mapping[str, Any], problems: Problems) -> tuple[Any, list[str]]:
    """Return the sections that do not belong to single tools (or INVALID), and a sentence for each ignored section."""
    before = len(problems)
    head = {}
    for key, prop in HEAD.items():
        if key in tree:
            head[key] = prop.field.read(tree[key], key, problems)
        elif prop.required:
            problems.add(key, "is missing")
    left = [
        f"[{key}] was omitted: {_OTHER.get(key, 'the section is not about tools')}"
        for key in sorted(tree.keys() - HEAD.keys())
    ]
    return (INVALID if len(problems) > before else head), left


def _read_tool(schema: str, tool: Any, at: str, problems: Problems) -> Any:
    """Return the JSON data of one tool with the keys of version 3, or INVALID after adding problems.

    In version 2, the vendor of a credential is in its `source`.
    """
    read = TOOL[schema].read(tool, at, problems)
    if read is INVALID:
        return INVALID
    for credential in read.get("credentials", ()):
        source = credential.pop("source", {})
        credential.setdefault("vendor", str(source.get("provider", ""))[:256])
    return read


def _check(head: Mapping[str, Any], tools: Mapping[str, dict[str, Any]], problems: Problems) -> None:
    """Check the rules that involve several keys of a manifest. `tools` maps the path of each tool to its JSON data."""
    try:
        check_installed_name(head["id"])
    except InvalidNameError as error:
        problems.add("id", error.message)
    if head["runtime"]["kind"] != "wasm":
        problems.add("runtime.kind", f"must be 'wasm', not {head['runtime']['kind']!r}")
    if "module" not in head["runtime"]:
        problems.add("runtime.module", "is missing")
    seen: set[str] = set()
    for at, tool in tools.items():
        package, _, name = tool["id"].partition(".")
        if package != head["id"] or not is_alias(name):
            problems.add(f"{at}.id", f"must be {head['id']}.NAME, with a name of letters, digits, '_', '-' and '.'")
        if tool["id"] in seen:
            problems.add(f"{at}.id", "is also the ID of another tool")
        seen.add(tool["id"])
        _check_schema(head["id"], tool, at, problems)
        for number, credential in enumerate(tool.get("credentials", ())):
            _check_credential(credential, join_path(f"{at}.credentials", number), problems)
    _check_vendors(head.get("auth", {}), tools, problems)


def _check_schema(package: str, tool: Mapping[str, Any], at: str, problems: Problems) -> None:
    operation = tool.get("standard_op")
    if operation is None:
        if "input_schema_ref" not in tool:
            problems.add(f"{at}.input_schema_ref", "is missing")
        return
    known = standard_operations()
    if operation in reserved_operations():
        problems.add(f"{at}.standard_op", f"{operation!r} is reserved by the standard")
    elif operation not in known:
        problems.add(f"{at}.standard_op", f"is not a standard operation{suggest_nearest(operation, (*known,))}")
    elif known[operation].writes and "external_write" not in tool.get("effects", ()):
        problems.add(f"{at}.effects", f'must contain "external_write", because the operation {operation} changes data')
    if tool["id"] != f"{package}.{operation}":
        problems.add(f"{at}.id", f'must be "{package}.{operation}", like the standard operation')
    for key in ("input_schema_ref", "output_schema_ref"):
        if key in tool:
            problems.add(f"{at}.{key}", "must be omitted, because the standard defines the schema")


def _check_credential(credential: Mapping[str, Any], at: str, problems: Problems) -> None:
    if credential["audience"].get("scheme", "https") != "https":
        problems.add(f"{at}.audience.scheme", 'must be "https", because secrets are only sent over https')
    injection = credential["injection"]
    needed = {"header": "name", "query_param": "name", "basic": "username", "path_placeholder": "placeholder"}
    if injection["type"] not in needed:
        problems.add(f"{at}.injection.type", "secrets in request bodies are not supported")
    elif needed[injection["type"]] not in injection:
        problems.add(f"{at}.injection.{needed[injection['type']]}", "is missing")


def _check_vendors(logins: Mapping[str, Any], tools: Mapping[str, dict[str, Any]], problems: Problems) -> None:
    """Report each secret that two vendors share if one of them has a login: its token would be sent to both vendors."""
    owners: dict[str, str] = {}
    for at, tool in tools.items():
        for number, credential in enumerate(tool.get("credentials", ())):
            vendor, handle = credential["vendor"], credential["handle"]
            owner = owners.setdefault(handle, vendor)
            if owner != vendor and not {owner, vendor}.isdisjoint(logins):
                problems.add(
                    f"{at}.credentials[{number}].handle",
                    f"{handle!r} is already the secret of {owner or 'no vendor'!r}; use another secret for each vendor",
                )
