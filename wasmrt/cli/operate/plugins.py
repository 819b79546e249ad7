"""`wasmrt advanced plugins`: check the manifests and programs of plugins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wasmrt.agent.builtin.plugins import PluginTool, load_plugins
from wasmrt.authoring.project import adapt_program, find_adapter
from wasmrt.cli.author.progress import confirm_with
from wasmrt.cli.shared.errors import BAD_INPUT
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_columns, show_json
from wasmrt.cli.shared.progress import report_progress
from wasmrt.core.errors import RefusedFileError, WasmrtError


@click.group(cls=CommandGroup)
def plugins() -> None:
    """Check folders of plugins, which are programs with a manifest.

    Example: wasmrt advanced plugins check ./plugins
    """


@plugins.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Download the WASI preview 1 adapter without asking.")
@json_option
@click.pass_context
def check(ctx: click.Context, folder: Path, yes: bool, as_json: bool) -> None:
    """Check every manifest in FOLDER, and that its program exists and can be used. No program is run.

    The exit code is 2 if a plugin cannot be used.

    \b
    Examples:
      wasmrt advanced plugins check ./plugins
      wasmrt advanced plugins check ./plugins --json
    """
    confirm, progress = confirm_with(yes=yes, as_json=as_json), report_progress(quiet=as_json)

    def adapt(module: bytes) -> bytes:
        return adapt_program(module, find_adapter(confirm=confirm, progress=progress))

    with load_plugins(folder, unsafe_native_plugins=True, adapt=adapt) as found:
        if as_json:
            refused = [{"name": name} | error.as_dict() for name, error in found.refused.items()]
            show_json({"plugins": [_described(tool) for tool in found], "refused": refused})
        else:
            _show(list(found), found.refused)
    if found.refused:
        ctx.exit(BAD_INPUT)


def _described(tool: PluginTool) -> dict[str, Any]:
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
