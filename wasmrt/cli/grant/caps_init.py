"""`wasmrt caps init`: a capability file made from what a component imports."""

from __future__ import annotations

import click

from wasmrt.agent.builtin.extensions.installing import imports_of
from wasmrt.capabilities import BY_SECTION, Capabilities, capabilities_of
from wasmrt.capabilities.file import as_tree, format_file
from wasmrt.cli.grant.caps_subject import find_tool_of
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.sandbox.component import qualified_names


@click.command("init")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@json_option
def init(tool: str, as_json: bool) -> None:
    """Draft a file from what a component imports. The draft allows nothing until its lists are filled.

    \b
    Examples:
      wasmrt caps init ./search.wasm > search.capabilities.json
      wasmrt caps init search --json
    """
    draft = Capabilities.none()
    needs = capabilities_of(import_names(tool))
    for capability, name in needs.items():
        if capability not in BY_SECTION:
            print_message(f"{name} will be refused: no capability file can allow it")
            continue
        draft = draft.with_part(BY_SECTION[capability]())
        print_message(f"{capability}: the component imports {name}; list what it may reach")
    if as_json:
        show_json({"needs": needs, "draft": as_tree(draft)})
    else:
        show(format_file(draft).removesuffix("\n"))
    if draft == Capabilities.none():
        print_message("the component imports nothing that needs a grant")


def import_names(tool: str) -> list[str]:
    """Return the imports of a tool: every interface, and every function as `interface#function`."""
    found = find_tool_of(tool)
    with open_runtime() as runtime:
        imports = imports_of(prepare(runtime, found.name, found.component))
    return [*imports, *qualified_names(imports)]
