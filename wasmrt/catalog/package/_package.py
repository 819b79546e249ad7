"""A complete package, and how IronClaw's packages are read: component, tools, requests and omitted parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wasmrt.capabilities.file import CapabilityFile
from wasmrt.catalog.package._fields import ORIGINS
from wasmrt.catalog.package._files import PackageFiles
from wasmrt.catalog.package._logins import read_logins, settings_of
from wasmrt.catalog.package._manifest import Manifest, read_manifest
from wasmrt.catalog.package._request import effects_of, request_of_tools
from wasmrt.catalog.package._standard import standard_operations
from wasmrt.core.effects import READING, Effect
from wasmrt.core.errors import ConfigurationError, PackageError
from wasmrt.core.limits import (
    COMPONENT_MAX_BYTES,
    MAX_DESCRIPTION_BYTES,
    MAX_PROMPT_BYTES,
    MAX_SCHEMA_BYTES,
    MAX_TOML_BYTES,
)
from wasmrt.core.strict_json import JsonError, read_json
from wasmrt.sandbox.component import ANY_OBJECT, ToolSpec
from wasmrt.sandbox.schema import schema_gaps, schema_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """The contents of a package. Reading a package runs no code of it."""

    id: str
    version: str
    description: str
    component: bytes = field(repr=False)
    request: CapabilityFile
    """The capabilities that the tools request, with logins and settings."""
    tools: tuple[ToolSpec, ...] | None
    """The tools, or None if the component describes its tools itself."""
    left: tuple[str, ...] = ()
    """Sentences about parts of the package that were omitted."""


def read_ironclaw_package(files: PackageFiles, *, max_bytes: int = COMPONENT_MAX_BYTES) -> Package:
    """Read a package with a `manifest.toml`.

    Raises:
        ManifestError: the manifest is invalid.
        PackageError: a file is missing or too large, or the package does not contain tools.
    """
    manifest = read_manifest(files.read("manifest.toml", max_bytes=MAX_TOML_BYTES))
    logins = read_logins(manifest)
    try:
        asked = request_of_tools(manifest.tools, logins.instead)
    except ConfigurationError as error:
        raise PackageError(f"the manifest requests invalid capabilities: {error.message}", hint=error.hint) from None
    return Package(
        id=manifest.id,
        version=manifest.version,
        description=manifest.description,
        component=files.read(manifest.module, max_bytes=max_bytes),
        request=CapabilityFile(
            capabilities=asked,
            description=manifest.description or None,
            version=manifest.version or None,
            auth=logins.sections[0] if logins.sections else None,
            logins=logins.sections[1:],
            sections=settings_of(manifest),
        ),
        tools=tuple(_make_spec(tool, files) for tool in manifest.tools),
        left=(*manifest.left, *logins.left, *_warn_about_wildcards(manifest)),
    )


def _warn_about_wildcards(manifest: Manifest) -> list[str]:
    """Return a warning for each wildcard. It covers one label in a manifest, but any number in a capability file."""
    places = [place for tool in manifest.tools for place in tool.get("network_targets", ())]
    places += [item["audience"] for tool in manifest.tools for item in tool.get("credentials", ())]
    hosts = dict.fromkeys(place["host"] for place in places if place["host"].startswith("*."))
    return [f"{host} covers subdomains at any depth; to allow fewer hosts, pass --grant FILE" for host in hosts]


def _make_spec(tool: dict[str, Any], files: PackageFiles) -> ToolSpec:
    problems: list[str] = []
    broken = ""
    operation = standard_operations().get(tool.get("standard_op", ""))
    output: dict[str, Any] | None
    if operation is not None:
        schema, output = operation.input_schema, operation.output_schema
        description = " ".join(filter(None, (operation.description, tool.get("description", ""))))
    else:
        read = read_tool_schema(tool["input_schema_ref"], files, problems)
        schema, broken = read or dict(ANY_OBJECT), "" if read is not None else problems[-1]
        output = read_tool_schema(tool["output_schema_ref"], files, problems) if "output_schema_ref" in tool else None
        description = tool.get("description", "")
    gates, effects = tool.get("origin_gate_matrix"), effects_of(tool)
    return ToolSpec(
        tool["id"].partition(".")[2],
        _cut(description, MAX_DESCRIPTION_BYTES),
        schema,
        read_only=effects <= READING,
        destructive=not effects <= READING,
        network=Effect.NETWORK in effects,
        problems=tuple(problems),
        schema_problem=broken,
        capability_id=tool["id"],
        output_schema=output,
        prompt=read_prompt(tool["prompt_doc_ref"], files) if "prompt_doc_ref" in tool else "",
        permission=tool.get("default_permission", "ask"),
        hidden=tool.get("visibility", "model") != "model",
        origins=() if gates is None else tuple((origin, gates.get(origin, "forbidden")) for origin in ORIGINS),
    )


def read_tool_schema(name: str, files: PackageFiles, problems: list[str]) -> dict[str, Any] | None:
    """Return the JSON Schema in a file of the package, or add a sentence to `problems` and return None."""
    data = files.read(name, max_bytes=MAX_SCHEMA_BYTES)
    try:
        schema = read_json(data, max_bytes=MAX_SCHEMA_BYTES, max_depth=64)
    except JsonError as error:
        problems.append(f"{name} is {error}")
        return None
    problem = "the schema is not a JSON object" if not isinstance(schema, dict) else schema_problem(schema)
    if problem is None:
        problems.extend(f"{name}: {gap}" for gap in schema_gaps(schema))
        return dict(schema)
    problems.append(f"{name}: {problem}")
    return None


def read_prompt(name: str, files: PackageFiles) -> str:
    text = files.read(name, max_bytes=MAX_PROMPT_BYTES).decode("utf-8", "replace")
    return "".join(char for char in text if char.isprintable() or char in "\n\t").strip()


def _cut(text: str, max_bytes: int) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore")
