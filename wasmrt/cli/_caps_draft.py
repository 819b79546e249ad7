"""`wasmrt caps init`: a capability file made from what a component imports."""

from __future__ import annotations

import click

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability, capabilities_of
from wasmrt.capabilities.file import as_tree, format_file
from wasmrt.cli._caps_subject import find_tool_of
from wasmrt.cli._component_info import imports_of
from wasmrt.cli._options import complete_tools, json_option, workspace_option
from wasmrt.cli._output import print_message, show, show_json
from wasmrt.cli._runtime import open_runtime, prepare
from wasmrt.component import qualified_names


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
        match capability:
            case "http":
                draft = draft.with_http([])
            case "workspace":
                draft = draft.with_workspace_read([])
            case "workspace_write":
                draft = draft.with_workspace_write(WorkspaceWriteCapability(()))
            case "secrets":
                draft = draft.with_secrets([])
            case "tool_invoke":
                draft = draft.with_tool_invoke({})
            case _:
                print_message(f"{name} will be refused: no capability file can allow it")
                continue
        print_message(f"{capability}: the component imports {name}; list what it may reach")
    if as_json:
        show_json({"needs": needs, "draft": as_tree(draft)})
    else:
        show(format_file(draft).removesuffix("\n"))
    if draft == Capabilities.none():
        print_message("the component imports nothing that needs a grant")


@click.command("learn")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.argument("params", nargs=-1, metavar="[--] JSON...")
@click.option("--user", default="local", show_default=True, help="Whose rate limits count.")
@workspace_option
@json_option
def learn(tool: str, params: tuple[str, ...], user: str, workspace: Path | None, as_json: bool) -> None:
    """Run a tool without any grant, and propose the narrowest file for what it asked. A person applies it.

    A tool that stops at its first refusal shows one need at a time: add the line, and ask again with `wasmrt run`.
    With --workspace, a tool that looks for files finds the folder, and none of its files may be read.

    \b
    Examples:
      wasmrt caps learn ./search.wasm -- '{"query": "a"}' '{"query": "b"}'
      wasmrt caps learn ./count.wasm --workspace . -- '{"path": "notes/today.md"}'
    """
    denied = dict.fromkeys(d for text in params or ("{}",) for d in _denials(tool, text, user, workspace))
    for decision in denied:
        print_message(f"asked: {decision.subject or decision.capability} ({decision.reason}: {decision.rule})")
    if not denied:
        print_message("the tool asked for nothing")
    proposal = propose(denied)
    if as_json:
        show_json({"asked": [decision.as_dict() for decision in denied], "proposal": as_tree(proposal)})
    else:
        show(format_file(proposal).removesuffix("\n"))


def _denials(tool: str, params: str, user: str, workspace: Path | None) -> list[Decision]:
    """Run once without any grant; every refusal is kept, whether the run ends well or not."""
    found = find_named(tool)
    with open_runtime(workspace=workspace) as runtime:
        prepared = prepare(runtime, found.name, found.component, Capabilities.none())
        try:
            decisions = prepared.execute(params, None, user).decisions
        except InvalidParametersError:
            raise
        except ToolError as error:
            print_message(f"the tool ended with: {error.message}")
            decisions = error.decisions
    return [decision for decision in decisions if not decision.allowed]


def import_names(tool: str) -> list[str]:
    """Return the imports of a tool: every interface, and every function as `interface#function`."""
    found = find_tool_of(tool)
    with open_runtime() as runtime:
        imports = imports_of(prepare(runtime, found.name, found.component))
    return [*imports, *qualified_names(imports)]
