"""`wasmrt caps init` and `wasmrt caps import`: create a capability file."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.agent.builtin.extensions.installing import imports_of
from wasmrt.capabilities import BY_SECTION, Capabilities, find_capabilities
from wasmrt.capabilities.file import as_tree, format_file
from wasmrt.capabilities.foreign import import_policy, import_sidecar
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.grant.caps_subject import find_tool_of
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.core.terminal import to_single_line
from wasmrt.sandbox.component import qualified_names


@click.command("init")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@json_option
def init(tool: str, as_json: bool) -> None:
    """Draft a capability file from a component's imports. The draft allows nothing until you fill its lists.

    \b
    Examples:
      wasmrt caps init ./search.wasm > search.capabilities.json
      wasmrt caps init search --json
    """
    draft = Capabilities.none()
    needs = find_capabilities(import_names(tool))
    for capability, name in needs.items():
        if capability not in BY_SECTION:
            print_message(f"{name} will be denied: no capability file can allow it")
            continue
        draft = draft.with_part(BY_SECTION[capability]())
        print_message(f"{capability}: the component imports {name}; list what it may access")
    show_json({"needs": needs, "draft": as_tree(draft)}) if as_json else show(format_file(draft).removesuffix("\n"))
    if draft == Capabilities.none():
        print_message("the component imports nothing that needs a grant")


def import_names(tool: str) -> list[str]:
    """Return the names of all functions that a tool imports, as `interface#function`, and of their interfaces."""
    found = find_tool_of(tool)
    with open_runtime() as runtime:
        imports = imports_of(prepare(runtime, found.name, found.component))
    return [*imports, *qualified_names(imports)]


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def import_(file: Path, as_json: bool) -> None:
    """Convert another host's file to a capability file: IronClaw's sidecar (JSON) or Wassette's policy.yaml.

    Entries that cannot be converted are listed on stderr. The result never allows more than the original.

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
        print_message(to_single_line(f"not converted: {line}"))
