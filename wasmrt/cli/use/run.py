"""`wasmrt run`: one call of one tool."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.calls import check_context, interruptible, read_params, show_changes, show_denials, show_logs
from wasmrt.cli.shared.errors import exit_code
from wasmrt.cli.shared.options import complete_tools, json_option, workspace_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_named, find_own, with_invoked
from wasmrt.core.errors import ToolError
from wasmrt.core.model import Decision


@click.command("run")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--tool", "part", metavar="NAME", help="Which tool, where the component holds several.")
@click.option("--context", metavar="JSON", help="What the tool is told about the conversation; it may know all of it.")
@click.option("--user", default="local", show_default=True, help="Whose secrets and rate limits count.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a tool that is not installed: what it may do. Without it, nothing. Narrows one of wasmrt's own.",
)
@workspace_option
@click.option("--logs", is_flag=True, help="Show what the tool logged, on stderr.")
@json_option
def run(
    tool: str,
    params: str,
    part: str | None,
    context: str | None,
    user: str,
    capabilities: Path | None,
    workspace: Path | None,
    logs: bool,
    as_json: bool,
) -> int:
    """Run a tool once.

    It may be installed, come with wasmrt, or be a component file. The result is JSON on stdout; with --json it
    comes with usage, logs and decisions. Rate limits count anew in each command, unless rate_limit_storage in the
    configuration file names a Redis for all of them; `wasmrt doctor` shows that file. The call leaves a receipt:
    `wasmrt audit tail`.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt run ./search.wasm @params.json --capabilities grant.json
      cat params.json | wasmrt run search -
    """
    text, typed = read_params(params), params[:1] not in ("@", "-")
    check_context(context)
    if (own := find_own(tool, part, capabilities)) is not None:
        from wasmrt.cli.use.host_tool import run_own  # with the registry, which a component needs not

        return run_own(own, text, context=context, user=user, workspace=workspace, typed=typed, as_json=as_json)
    found = find_named(tool, capabilities=capabilities)
    tools = with_invoked(found)
    with open_runtime(*(each.grant for each in tools), workspace=workspace, receipts=True) as runtime:
        prepared, *_ = [prepare(runtime, t.name, t.component, t.grant, tools=t.tools, request=t.request) for t in tools]
        if part is not None:
            prepared = prepared.tool(part)
        section = None if found.grant.tools is None else f"tools.{part}"
        try:
            output = interruptible(runtime.close, lambda: prepared.execute(text, context, user))
        except ToolError as error:
            if as_json:
                raise
            show_logs(error.logs)
            show_denials(error.decisions, section)
            _show_changes(found, error.call_id)
            _show_unused_sidecar(found, tool, error.decisions)
            message = _without_denials(error)
            if message == error.message:
                raise
            print_message(f"error: {message}")
            return exit_code(error)
    show_json(output.as_dict() if as_json else output.result)
    if as_json:
        return 0
    if logs:
        show_logs(output.logs)
    show_denials(output.decisions, section)
    _show_changes(found, output.call_id)
    _show_unused_sidecar(found, tool, output.decisions)
    return 0


def _show_changes(found: FoundTool, call_id: str | None) -> None:
    if found.grant.get(WorkspaceWriteCapability) is not None:
        show_changes(call_id)


def _show_unused_sidecar(found: FoundTool, path: str, decisions: Iterable[Decision]) -> None:
    """Say that the capability file beside a component grants nothing until somebody says so."""
    if found.origin != "file" or found.sidecar is None or all(decision.allowed for decision in decisions):
        return
    if found.grant == Capabilities.none():
        beside = f"{path.removesuffix('.wasm')}.capabilities.json"
        print_message(f"  what it asks for was not granted: install it, or try it with --capabilities {beside}")


def _without_denials(error: ToolError) -> str:
    """Return an error's sentence without the refusals that a tool passed on in it: `show_denials` has shown them."""
    message = error.message
    for decision in error.decisions:
        if not decision.allowed:
            message = message.replace(decision.sentence, "denied, as above")
    return message
