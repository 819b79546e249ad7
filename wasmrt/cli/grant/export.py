"""`wasmrt export`: write installed tools with their grants to an archive, for `wasmrt import` on another machine."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.catalog.export import write_export
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.files import replace_file
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_tools)
@json_option
def export(file: Path, names: tuple[str, ...], as_json: bool) -> None:
    """Write installed tools with their grants to an archive.

    The archive has the active version of every tool, or of each tool NAME: components, capability files, grants and
    signers. It has no secrets, settings or receipts. Bundled tools are not written.

    \b
    Examples:
      wasmrt export tools.zip
      wasmrt export search.zip search
    """
    catalog = open_catalog(find_places().data)
    chosen = names or [tool.name for tool in catalog.tools()]
    if not chosen:
        raise ConfigurationError("no tool is installed", hint="wasmrt list shows what is installed")
    data = write_export(catalog, dict.fromkeys(chosen))
    try:
        replace_file(file, data)
    except OSError as error:
        message = f"{file.name!r} cannot be written ({error.strerror})"
        raise SourceError(message, hint="choose another FILE") from error
    if as_json:
        show_json({"archive": file.name, "digest": digest_of(data), "tools": sorted({*chosen})})
        return
    tools = "1 tool" if len({*chosen}) == 1 else f"{len({*chosen})} tools"
    print_message(f"exported {tools} to {file.name} ({len(data):,} bytes, {digest_of(data)[:12]})")
    print_message(f"next: wasmrt import {file.name}, on the other machine")
