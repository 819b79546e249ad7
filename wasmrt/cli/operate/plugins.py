"""`wasmrt advanced plugins`: check the manifests and programs of plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wasmrt.agent.builtin.plugins import PluginTool, load_plugins
from wasmrt.catalog.sources import FileSource
from wasmrt.cli.grant.programs import ProgramSource
from wasmrt.cli.shared.errors import BAD_INPUT
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_columns, show_json
from wasmrt.core.errors import RefusedFileError, SourceError, WasmrtError
from wasmrt.core.files import replace_file
from wasmrt.core.limits import COMPONENT_MAX_BYTES


@click.group(cls=CommandGroup)
def plugins() -> None:
    """Check folders of plugins, which are programs with a manifest.

    Example: wasmrt advanced plugins check ./plugins
    """


@plugins.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def check(ctx: click.Context, folder: Path, as_json: bool) -> None:
    """Check every manifest in FOLDER, and that its program exists and can be used. No program is run.

    The exit code is 2 if a plugin cannot be used.

    \b
    Examples:
      wasmrt advanced plugins check ./plugins
      wasmrt advanced plugins check ./plugins --json
    """
    with load_plugins(folder, unsafe_native_plugins=True) as found:
        if as_json:
            refused = [{"name": name} | error.as_dict() for name, error in found.refused.items()]
            show_json({"plugins": [_describe_tool(tool) for tool in found], "refused": refused})
        else:
            _show(list(found), found.refused)
    if found.refused:
        ctx.exit(BAD_INPUT)


@plugins.command()
@click.argument("module", type=click.Path(path_type=Path))
@click.argument("component", type=click.Path(path_type=Path))
@click.option("--adapter", type=click.Path(path_type=Path), metavar="FILE", help="Adapter to use.")
@click.option("--yes", is_flag=True, help="Download the WASI preview 1 adapter without asking.")
@json_option
def adapt(module: Path, component: Path, adapter: Path | None, yes: bool, as_json: bool) -> None:
    """Convert MODULE, a program for WASI preview 1, and write it to COMPONENT. Both can be the same file.

    \b
    Examples:
      wasmrt advanced plugins adapt ./echo.wasm ./plugins/echo.wasm
      wasmrt advanced plugins adapt ./echo.wasm ./plugins/echo.wasm --yes
    """
    source = ProgramSource(file=FileSource(module), adapter=adapter, yes=yes, as_json=as_json)
    data = source.fetch(max_bytes=COMPONENT_MAX_BYTES).data
    try:
        replace_file(component, data, mode=0o644)
    except OSError as error:
        problem = f"{component.name!r} cannot be written ({error.strerror})"
        raise SourceError(problem, hint="choose another path") from error
    if as_json:
        show_json({"component": component.name, "size_bytes": len(data)})
    else:
        print_message(f"wrote {component.name} ({len(data):,} bytes)")


def _describe_tool(tool: PluginTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "kind": tool.kind,
        "version": tool.manifest.version,
        "description": tool.description,
        "schema": tool.schema,
        "requires_network": tool.manifest.requires_network,
        "timeout_seconds": tool.timeout_seconds,
        "digest": tool.digest,
    }


def _show(tools: list[PluginTool], refused: dict[str, WasmrtError]) -> None:
    if tools:
        show_columns(
            ("NAME", "KIND", "VERSION", "DIGEST"),
            [(tool.name, tool.kind, tool.manifest.version, tool.digest[:12]) for tool in tools],
        )
    for name, error in refused.items():
        problems = error.problems if isinstance(error, RefusedFileError) else ()
        if not problems:
            print_message(f"{name}: {error.message}{f'; {error.hint}' if error.hint else ''}")
        for place, sentence in problems:
            print_message(f"{name}.toml: {place}: {sentence}")
    native = [tool.name for tool in tools if tool.kind == "native"]
    if native:
        print_message(f"native plugins, which require unsafe_native_plugins: {', '.join(native)}")
    print_message(f"{len(tools)} valid, {len(refused)} invalid")
