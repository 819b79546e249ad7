"""`wasmrt inspect`: everything about a tool that can be known without running it for anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wasmrt.cli._output import json_option, show, show_json, show_section, size_in_words
from wasmrt.cli._reading import exports_of, imports_of, refusals
from wasmrt.cli._tools import FoundTool, find_tool, open_runtime, prepare
from wasmrt.errors import InstantiationError, MemoryLimitError

if TYPE_CHECKING:
    from wasmrt import PreparedTool, WasmToolRuntime


@click.command("inspect")
@click.argument("tool", metavar="NAME_OR_PATH")
@click.option("--version", "number", type=int, metavar="VERSION", help="Another version than the active one.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a file: judge it as if it had been granted this.",
)
@click.option("--measure", "measuring", is_flag=True, help="Start it often, and tell the smallest limits that do.")
@json_option
def inspect(tool: str, number: int | None, capabilities: Path | None, measuring: bool, as_json: bool) -> None:
    """Show what a tool is, imports, may do and would be refused.

    \b
    Examples:
      wasmrt inspect echo
      wasmrt inspect ./search.wasm --json
      wasmrt inspect ./search.wasm --measure
    """
    found = find_tool(tool, capabilities=capabilities, number=number)
    with open_runtime() as runtime:
        report = _report(found, _prepared(found, runtime, measuring))
        if measuring:
            report["limits"] = _measure(found, runtime)
    if as_json:
        show_json(report)
    else:
        _show(report)


def _prepared(found: FoundTool, runtime: WasmToolRuntime, measuring: bool) -> PreparedTool:
    try:
        return prepare(runtime, found.name, found.data)
    except (MemoryLimitError, InstantiationError):
        if not measuring:
            raise
    from wasmrt.authoring import limits_that_start

    limits = limits_that_start(runtime, found.name, found.data)
    return runtime.prepare(found.name, found.data, limits=limits)


def _report(found: FoundTool, prepared: PreparedTool) -> dict[str, Any]:
    from wasmrt.capabilities import explain, parse
    from wasmrt.schema import producers, wit_text

    imports = imports_of(prepared)
    asked = None if found.sidecar is None else parse(found.sidecar)
    version = found.version
    return {
        "name": found.name,
        "origin": found.origin,
        "world": prepared.world,
        "digest": prepared.digest,
        "size_bytes": len(found.data),
        "imports": imports,
        "exports": exports_of(prepared),
        "built_with": producers(found.data),
        "wit": wit_text(prepared.type),
        "tools": [spec.as_dict() for spec in prepared.tools],
        "sidecar": None if found.sidecar is None else json.loads(found.sidecar),
        "asks": [] if asked is None else list(explain(asked.capabilities)),
        "granted": list(explain(found.grant)),
        "refused": refusals(imports, found.grant),
        "version": None if version is None else version.number,
        "versions": [] if version is None else _versions(version.name),
        "installed_at": None if version is None else version.installed_at,
        "source": None if version is None else version.origin,
    }


def _versions(name: str) -> list[dict[str, Any]]:
    from wasmrt.catalog import Catalog, find_places

    kept = ("number", "digest", "installed_at", "active")
    versions = Catalog(find_places().data).versions(name)
    return [{slot: getattr(v, slot) for slot in kept} | {"waits_for_grant": v.grant is None} for v in versions]


def _measure(found: FoundTool, runtime: WasmToolRuntime) -> dict[str, Any]:
    """The limits it has, and what starting it and asking what it does took of each."""
    from wasmrt.authoring import measure

    limits = found.grant.limits.over(runtime.config.default_limits)
    took = measure(runtime, found.name, found.data).as_dict()
    return {name: {"limit": getattr(limits, name), "to_start": amount} for name, amount in took.items()}


def _show(report: dict[str, Any]) -> None:
    number = f" version {report['version']}" if report["version"] else ""
    show(f"{report['name']}{number} ({report['origin']})")
    show(f"world:   {report['world']}\ndigest:  {report['digest']}\nsize:    {size_in_words(report['size_bytes'])}")
    if report["installed_at"]:
        show(f"from:    {report['source']}, {report['installed_at']}")
    for kind, values in report["built_with"].items():
        show(f"{kind}: {', '.join(values)}")
    if len(report["versions"]) > 1:
        show_section("versions", [_in_a_line(version) for version in report["versions"]])
    for tool in report["tools"]:
        notes = [note for note, is_so in tool["annotations"].items() if is_so]
        show(f"tool:    {tool['name']}" + (f" ({', '.join(notes)})" if notes else ""))
        if tool["description"]:
            show(f"  {tool['description']}")
        for problem in tool["problems"]:
            show(f"  problem: {problem}")
        show_section("  schema", [f"  {line}" for line in json.dumps(tool["schema"], indent=2).splitlines()])
    for side in ("imports", "exports"):
        show_section(side, [f"{i or '(functions)'}: {', '.join(f) or 'types only'}" for i, f in report[side].items()])
    show_section("wit", report["wit"].splitlines())
    if "limits" in report:
        show_section("limits", [_limit(name, row["limit"], row["to_start"]) for name, row in report["limits"].items()])
    show_section("asks for", report["asks"])
    show_section("is granted", report["granted"])
    show_section(
        "will be refused", [f"{r['power']}, by its import {r['import']}; {r['hint']}" for r in report["refused"]]
    )


def _in_a_line(version: dict[str, Any]) -> str:
    state = ", active" * version["active"] + ", waits for a grant" * version["waits_for_grant"]
    return f"{version['number']}: {version['digest'][:12]}, {version['installed_at']}{state}"


def _limit(name: str, limit: int, to_start: int) -> str:
    words = size_in_words if name.endswith("_bytes") else "{:,}".format
    if to_start > limit:
        return f"{name}: {words(limit)}, too little: it needs {words(to_start)} to start"
    return f"{name}: {words(limit)}, of which {words(to_start)} to start and describe itself"
