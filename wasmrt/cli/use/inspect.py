"""`wasmrt inspect`: everything about a tool that can be known without running it for anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.builtin.extensions.installing import exports_of, imports_of
from wasmrt.authoring.project import find_wasm_tools, limits_that_start, measure
from wasmrt.capabilities import Capabilities, LoginCapability, asks_for
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain_logins
from wasmrt.catalog import Catalog
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.author.progress import showing_output
from wasmrt.cli.shared.explain import explained, explained_groups
from wasmrt.cli.shared.missing import missing_secrets
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import show, show_json, status
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named
from wasmrt.cli.use.component_info import list_capabilities, refusals
from wasmrt.cli.use.inspect_report import show_report, show_tool
from wasmrt.core.errors import InstantiationError, MemoryLimitError, NotInstalledError
from wasmrt.core.names import did_you_mean
from wasmrt.core.places import find_places
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import producers, worlds
from wasmrt.sandbox.schema.wit import exported_functions


@click.command("inspect")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.option("--tool", "part", metavar="NAME", help="Only this tool of several, with its schemas and document.")
@click.option("--version", "number", type=int, metavar="VERSION", help="Another version than the active one.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a file: report on it as if it had been granted this.",
)
@click.option(
    "--wit",
    "with_wit",
    is_flag=True,
    help="Print its imports and exports in WIT, and nothing else. Needs wasmrt[author].",
)
@click.option("--measure", "measuring", is_flag=True, help="Start it often, and tell the smallest limits that do.")
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
    """Show what a tool is, does, imports and may do, and what it would be refused.

    With --json also its schemas and every function that it imports and exports; with --wit --json its WIT as well.

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
        show(_wit(found, as_json))
        return
    with open_runtime() as runtime:
        report = _report(found, _prepared(found, runtime, measuring))
        if measuring:
            with status("starting it often, with ever smaller limits"):
                report["limits"] = _measure(found, runtime)
    if part is not None:
        tool_report = _one_tool(report, part)
        show_json(tool_report) if as_json else show_tool(tool_report)
        return
    if not as_json:
        show_report(report)
        return
    if with_wit:
        report["wit"] = _wit(found, as_json)
    show_json(report)


def _wit(found: FoundTool, as_json: bool) -> str:
    with showing_output(quiet=as_json):
        return find_wasm_tools().print_wit(found.component.data).rstrip()


def _prepared(found: FoundTool, runtime: WasmToolRuntime, measuring: bool) -> PreparedTool:
    try:
        return prepare(runtime, found.name, found.component, tools=found.tools)
    except (MemoryLimitError, InstantiationError):
        if not measuring:
            raise

    limits = limits_that_start(runtime, found.name, found.component)
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
        "groups": _groups(prepared, request if found.origin == "file" else found.grant),
        "not_callable": _not_callable(prepared),
        "sidecar": None if found.sidecar is None else json.loads(found.sidecar),
        "capabilities": listed,
        "asks": [] if request is None else list(explained(request)),
        "granted": list(explained(found.grant)),
        "kept": [kept.as_dict() for kept in (version.kept if version else ()) if asks_for(found.grant, kept.addition)],
        "logins": list(explain_logins(_logins(found, request))),
        "refused": refusals(listed),
        "missing_secrets": _missing(found),
        "version": None if version is None else version.number,
        "versions": [] if version is None else _versions(version.name),
        "installed_at": None if version is None else version.installed_at,
        "source": None if version is None else version.origin,
    }


def _logins(found: FoundTool, request: Capabilities | None) -> tuple[LoginCapability, ...]:
    """Return the logins that were granted; of a file, those that it asks for."""
    if found.origin != "file":
        return found.grant.logins
    return () if request is None else request.logins


def _groups(prepared: PreparedTool, power: Capabilities | None) -> list[dict[str, Any]]:
    """The tools of a package by what they are and may do; of a file, by what they ask for."""
    if power is None or power.tools is None:
        return []
    may = {name: list(allowed) for allowed, names in explained_groups(power).items() for name in names}
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


def _one_tool(report: dict[str, Any], name: str) -> dict[str, Any]:
    tool = next((tool for tool in report["tools"] if tool["name"] == name), None)
    if tool is None:
        near = did_you_mean(name, [tool["name"] for tool in report["tools"]])
        hint = f"did you mean {near}?" if near else f"wasmrt inspect {report['name']} lists them"
        raise NotInstalledError(f"{report['name']} has no tool {name!r}", hint=hint)
    may = [group["may"] for group in report["groups"] if name in group["tools"]]
    return {**tool, "may": may[0] if may else []}


def _not_callable(prepared: PreparedTool) -> list[dict[str, str | None]]:
    """Of a world that is not ours: the functions that are no tools, each with the reason."""
    if prepared.world != worlds.GENERIC_WORLD:
        return []
    called = {spec.name for spec in prepared.tools}
    return [
        {"function": function.signature, "problem": function.problem or "the component has too many functions"}
        for function in exported_functions(prepared.type)
        if function.tool not in called
    ]


def _missing(found: FoundTool) -> list[dict[str, Any]]:
    """The secrets that are not set; of a file, those that it asks for, since nothing was granted to it yet."""
    if found.sidecar is None:
        return []
    granted = None if found.origin == "file" else found.grant
    return [secret._asdict() for secret in missing_secrets(parse(found.sidecar), granted=granted, tool=found.name)]


def _versions(name: str) -> list[dict[str, Any]]:
    kept = ("number", "digest", "installed_at", "active")
    versions = Catalog(find_places().data).versions(name)
    return [{slot: getattr(v, slot) for slot in kept} | {"pending": v.pending} for v in versions]


def _measure(found: FoundTool, runtime: WasmToolRuntime) -> dict[str, Any]:
    """The limits it has, and what starting it and asking what it does took of each."""
    limits = found.grant.limits.over(runtime.config.default_limits)
    took = measure(runtime, found.name, found.component).as_dict()
    return {name: {"limit": getattr(limits, name), "to_start": amount} for name, amount in took.items()}
