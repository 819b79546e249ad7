"""`wasmrt inspect`: show everything about a tool that can be known without calling it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.builtin.extensions.installing import exports_of, imports_of
from wasmrt.authoring.project import find_starting_limits, find_wasm_tools, measure
from wasmrt.capabilities import (
    BY_SECTION,
    Capabilities,
    Capability,
    LoginCapability,
    asks_for,
    find_capabilities,
    uses_section,
)
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain, explain_logins
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.trust import describe_signer
from wasmrt.cli.author.progress import showing_output
from wasmrt.cli.shared.consent import explain_grant, explain_groups, missing_secrets
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import show, show_json
from wasmrt.cli.shared.progress import status
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named
from wasmrt.cli.use.inspect_report import show_report, show_tool
from wasmrt.core.errors import InstantiationError, MemoryLimitError, NotInstalledError
from wasmrt.core.names import did_you_mean
from wasmrt.core.places import find_places
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.runtime.stores import open_catalog
from wasmrt.sandbox.component import producers, qualified_names, worlds
from wasmrt.sandbox.schema.wit import exported_functions


@click.command("inspect")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.option("--tool", "part", metavar="NAME", help="Show one tool of a package, with its schemas and document.")
@click.option("--version", "number", type=int, metavar="VERSION", help="Show this version, not the active one.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a component file: report as if FILE were its grant.",
)
@click.option(
    "--wit", "with_wit", is_flag=True, help="Only print the imports and exports as WIT. Needs wasmrt[author]."
)
@click.option("--measure", "measuring", is_flag=True, help="Also measure the smallest limits with which it starts.")
@json_option
def inspect(
    tool: str,
    part: str | None,
    number: int | None,
    capabilities: Path | None,
    with_wit: bool,
    measuring: bool,
    as_json: bool,
) -> None:
    """Show a tool's description, imports and permissions.

    The command also shows which imports would be denied.

    --json adds its schemas and all functions that it imports and exports; --wit --json adds its WIT.

    \b
    Examples:
      wasmrt inspect echo
      wasmrt inspect ./search.wasm --json
      wasmrt inspect ./search.wasm --wit
      wasmrt inspect ./search.wasm --measure
      wasmrt inspect ./github.zip --tool get_issue
    """
    found = find_named(tool, capabilities=capabilities, number=number)
    if with_wit and not as_json:
        show(_format_wit(found, as_json))
        return
    with open_runtime() as runtime:
        report = _report(found, _prepare(found, runtime, measuring))
        if measuring:
            with status("measuring the limits that it needs to start"):
                report["limits"] = _measure(found, runtime)
    if part is not None:
        tool_report = _report_tool(report, part)
        show_json(tool_report) if as_json else show_tool(tool_report)
        return
    if not as_json:
        show_report(report)
        return
    if with_wit:
        report["wit"] = _format_wit(found, as_json)
    show_json(report)


def _format_wit(found: FoundTool, as_json: bool) -> str:
    with showing_output(quiet=as_json):
        return find_wasm_tools().print_wit(found.component.data).rstrip()


def _prepare(found: FoundTool, runtime: WasmToolRuntime, measuring: bool) -> PreparedTool:
    try:
        return prepare(runtime, found.name, found.component, tools=found.tools)
    except (MemoryLimitError, InstantiationError):
        if not measuring:
            raise

    limits = find_starting_limits(runtime, found.name, found.component)
    return runtime.prepare(found.name, found.component, limits=limits)


def _report(found: FoundTool, prepared: PreparedTool) -> dict[str, Any]:
    imports = imports_of(prepared)
    file = None if found.sidecar is None else parse(found.sidecar)
    request = None if file is None else file.capabilities
    listed = list_capabilities(imports, request, found.grant)
    version = found.version
    return {
        "name": found.name,
        "origin": found.origin,
        "warnings": list(found.warnings),
        "world": prepared.world,
        "digest": prepared.digest,
        "size_bytes": len(found.component.data),
        "imports": imports,
        "exports": exports_of(prepared),
        "built_with": producers(found.component.data),
        "tools": [spec.as_dict() for spec in prepared.tools],
        "groups": _group_tools(prepared, request if found.origin == "file" else found.grant),
        "not_callable": _not_callable(prepared),
        "sidecar": None if found.sidecar is None else json.loads(found.sidecar),
        "capabilities": listed,
        "asks": [] if request is None else list(explain_grant(request)),
        "granted": list(explain_grant(found.grant)),
        "kept": [kept.as_dict() for kept in (version.kept if version else ()) if asks_for(found.grant, kept.addition)],
        "logins": list(explain_logins(_list_logins(found, request))),
        "refused": refusals(listed),
        "missing_secrets": _list_missing(found),
        "version": None if version is None else version.number,
        "versions": [] if version is None else _list_versions(version.name),
        "installed_at": None if version is None else version.installed_at,
        "source": None if version is None else f"{version.origin}, {describe_signer(version, version)}",
    }


def _list_logins(found: FoundTool, request: Capabilities | None) -> tuple[LoginCapability, ...]:
    """Return the granted logins, or for a component file the requested ones."""
    if found.origin != "file":
        return found.grant.logins
    return () if request is None else request.logins


def _group_tools(prepared: PreparedTool, capabilities: Capabilities | None) -> list[dict[str, Any]]:
    """Group the tools of a package by kind and capabilities."""
    if capabilities is None or capabilities.tools is None:
        return []
    may = {name: list(allowed) for allowed, names in explain_groups(capabilities).items() for name in names}
    groups: dict[str, dict[str, Any]] = {}
    for spec in prepared.tools:
        kind = {
            "writes": not spec.read_only,
            "permission": spec.permission or "ask",
            "hidden": spec.hidden,
            "may": may.get(spec.name, []),
        }
        groups.setdefault(json.dumps(kind), kind | {"tools": []})["tools"].append(spec.name)
    return list(groups.values())


def _report_tool(report: dict[str, Any], name: str) -> dict[str, Any]:
    tool = next((tool for tool in report["tools"] if tool["name"] == name), None)
    if tool is None:
        near = did_you_mean(name, [tool["name"] for tool in report["tools"]])
        hint = f"did you mean {near}?" if near else f"wasmrt inspect {report['name']} lists them"
        raise NotInstalledError(f"{report['name']} has no tool {name!r}", hint=hint)
    may = [group["may"] for group in report["groups"] if name in group["tools"]]
    return {**tool, "may": may[0] if may else []}


def _not_callable(prepared: PreparedTool) -> list[dict[str, str | None]]:
    """Return the exported functions of a generic component that are not tools, each with the reason."""
    if prepared.world != worlds.GENERIC_WORLD:
        return []
    called = {spec.name for spec in prepared.tools}
    return [
        {"function": function.signature, "problem": function.problem or "the component has too many functions"}
        for function in exported_functions(prepared.type)
        if function.tool not in called
    ]


def _list_missing(found: FoundTool) -> list[dict[str, Any]]:
    """Return the granted secrets that are not set; for a component file, which has no grant, the requested ones."""
    if found.sidecar is None:
        return []
    granted = None if found.origin == "file" else found.grant
    return [secret._asdict() for secret in missing_secrets(parse(found.sidecar), granted=granted, tool=found.name)]


def _list_versions(name: str) -> list[dict[str, Any]]:
    kept = ("number", "digest", "installed_at", "active")
    versions = open_catalog(find_places().data).versions(name)
    return [{slot: getattr(v, slot) for slot in kept} | {"pending": v.pending} for v in versions]


def _measure(found: FoundTool, runtime: WasmToolRuntime) -> dict[str, Any]:
    """Return each limit, with the amount that the component needed to start and to describe itself."""
    limits = found.grant.limits.over(runtime.config.default_limits)
    took = measure(runtime, found.name, found.component).as_dict()
    return {name: {"limit": getattr(limits, name), "to_start": amount} for name, amount in took.items()}


_LIMITS = "limits"


def list_capabilities(
    imports: dict[str, list[str]], asked: Capabilities | None, grant: Capabilities
) -> list[dict[str, Any]]:
    """List a tool's imports by the capability that they need. Sentences describe what is requested and granted of it.

    The last entry, under None, has the imports that every tool may use. If the grant lacks the capability, `refused` is
    the line that would allow it.
    """
    grouped = _group_by_capability(imports)
    names = [name for name in grouped if name]
    names += [
        name
        for name in (*BY_SECTION, _LIMITS)
        if name not in grouped and (_describe_section(asked, name) or _describe_section(grant, name))
    ]
    listed: list[dict[str, Any]] = []
    for name in names:
        replaced = any(part.replaces == name for part in grant.parts)
        refused = name in grouped and _find_section(grant, name) is None and not replaced
        listed.append({
            "capability": name,
            "imports": grouped.get(name) or _list_usable(name, grouped),
            "asks": _describe_section(asked, name),
            "granted": _describe_section(grant, name),
            "refused": _make_hint(name, asked) if refused else None,
        })  # fmt: skip
    if None in grouped:
        listed.append({"capability": None, "imports": grouped[None]})
    return listed


def _list_usable(name: str, grouped: dict[str | None, dict[str, list[str]]]) -> dict[str, list[str]]:
    """If `name` replaces another capability, return the imports of the other one that can also use `name`."""
    replaced = BY_SECTION[name].replaces if name in BY_SECTION else ""
    return {each: functions for each, functions in grouped.get(replaced, {}).items() if uses_section(name, [each])}


def _find_section(capabilities: Capabilities | None, name: str) -> Capability | None:
    return None if capabilities is None else capabilities.section(name)


def _make_hint(name: str, asked: Capabilities | None) -> str:
    if name not in BY_SECTION:
        return "no capability can allow it"
    return (
        "wasmrt install asks you to grant it"
        if _find_section(asked, name)
        else f"add {BY_SECTION[name].format_example()}"
    )


def _group_by_capability(imports: dict[str, list[str]]) -> dict[str | None, dict[str, list[str]]]:
    needed = find_capabilities([*imports, *qualified_names(imports)])
    packages = {import_name.partition("/")[0]: name for name, import_name in needed.items()}
    grouped: dict[str | None, dict[str, list[str]]] = {}
    for interface, functions in imports.items():
        # A WASI package needs one capability: its types belong to the interface that opens it.
        package = interface.partition("/")[0]
        otherwise = packages.get(package) if package.startswith("wasi:") else None
        for function in functions or [""]:
            import_name = f"{interface}#{function}" if interface and function else interface or function
            name = next(iter(find_capabilities([import_name])), otherwise)
            grouped.setdefault(name, {}).setdefault(interface, []).extend([function] if function else [])
    return grouped


def _describe_section(capabilities: Capabilities | None, name: str) -> list[str]:
    if capabilities is None:
        return []
    if name == _LIMITS:
        alone = Capabilities(limits=capabilities.limits)
    elif (part := capabilities.section(name)) is None:
        return []
    else:
        alone = Capabilities.of([part])
    return [sentence for sentence in explain(alone) if not sentence.startswith("may not ")]


def refusals(listed: list[dict[str, Any]]) -> list[dict[str, str]]:
    """List the imports that are always denied, each with the line that would allow it."""
    found = []
    for entry in listed:
        if entry.get("refused"):
            imports = entry["imports"]
            needed = find_capabilities([*imports, *qualified_names(imports)])
            name = next(iter(needed.values()))
            found.append({"capability": entry["capability"], "import": name, "hint": entry["refused"]})
    return found
