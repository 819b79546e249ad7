"""`wasmrt caps import`: a capability file made from another host's."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities.file import as_tree, format_file
from wasmrt.capabilities.foreign import import_policy, import_sidecar
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.terminal import in_one_line


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def import_(file: Path, as_json: bool) -> None:
    """Print the capability file that says what another host's says: IronClaw's sidecar (JSON), Wassette's policy.yaml.

    What could not be taken over is said on stderr, a line for each. The result is never wider than the original.

    \b
    Examples:
      wasmrt caps import policy.yaml > search.capabilities.json
      wasmrt caps import old.capabilities.json --json
    """
    data = read_capability_file(file)
    if file.suffix in (".yaml", ".yml"):
        imported = import_policy(data.decode("utf-8", "replace"))
    else:
        imported = import_sidecar(data)
    if as_json:
        show_json({"file": as_tree(imported.file), "left": list(imported.left)})
        return
    show(format_file(imported.file).removesuffix("\n"))
    for line in imported.left:
        print_message(in_one_line(f"not taken over: {line}"))
