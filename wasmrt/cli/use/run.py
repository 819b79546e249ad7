"""`wasmrt run`: call a tool once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from wasmrt.capabilities import Capabilities, WorkspaceWriteCapability
from wasmrt.catalog.find import FoundTool
from wasmrt.cli.shared.calls import (
    parse_context,
    read_params,
    run_interruptible,
    show_denials,
    show_logs,
    show_undo_hint,
)
from wasmrt.cli.shared.errors import exit_code
from wasmrt.cli.shared.options import complete_tools, json_option, workspace_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.runtime import open_runtime, prepare
from wasmrt.cli.shared.tools import find_host_tool, find_named, with_invoked
from wasmrt.core.errors import ToolError
from wasmrt.core.model import Decision


@click.command("run")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--tool", "part", metavar="NAME", help="Which tool to call, if the component has several.")
@click.option("--context", metavar="JSON", help="Context of the conversation, all of which is passed to the tool.")
@click.option("--user", default="local", show_default=True, help="User whose secrets and rate limits apply.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Grant for a component file (default: no capabilities), or a limit on the grant of a bundled tool.",
)
@workspace_option
@click.option("--logs", is_flag=True, help="Print the tool's log on stderr.")
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
    """Call a tool once.

    The tool may be installed, bundled, or a component file. The result is printed as JSON; --json adds usage, logs
    and decisions. Rate limits start from zero in each command, unless the configuration file sets rate_limit_storage
    to a Redis server (`wasmrt doctor` shows that file). The call leaves a receipt, which `wasmrt audit tail` shows.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt run ./search.wasm @params.json --capabilities grant.json
      cat params.json | wasmrt run search -
    """
    text, typed = read_params(params), params[:1] not in ("@", "-")
    parse_context(context)
    if (own := find_host_tool(tool, part, capabilities)) is not None:
        from wasmrt.cli.use.host_tool import run_host_tool  # loads the registry, which components do not need

        return run_host_tool(own, text, context=context, user=user, workspace=workspace, typed=typed, as_json=as_json)
    found = find_named(tool, capabilities=capabilities)
    tools = with_invoked(found)
    with open_runtime(*(each.grant for each in tools), workspace=workspace, receipts=True) as runtime:
        prepared, *_ = [prepare(runtime, t.name, t.component, t.grant, tools=t.tools, request=t.request) for t in tools]
        if part is not None:
            prepared = prepared.tool(part)
        section = None if found.grant.tools is None else f"tools.{part}"
        try:
            output = run_interruptible(runtime.close, lambda: prepared.execute(text, context, user))
        except ToolError as error:
            if as_json:
                raise
            show_logs(error.logs)
            show_denials(error.decisions, section)
            _show_undo_hint(found, error.call_id)
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
    _show_undo_hint(found, output.call_id)
    _show_unused_sidecar(found, tool, output.decisions)
    return 0


def _show_undo_hint(found: FoundTool, call_id: str | None) -> None:
    if found.grant.get(WorkspaceWriteCapability) is not None:
        show_undo_hint(call_id)


def _show_unused_sidecar(found: FoundTool, path: str, decisions: Iterable[Decision]) -> None:
    """After a denial, explain that the capability file next to a component is only a request."""
    if found.origin != "file" or found.sidecar is None or all(decision.allowed for decision in decisions):
        return
    if found.grant == Capabilities.none():
        sidecar = f"{path.removesuffix('.wasm')}.capabilities.json"
        print_message(f"  its capability file was not granted: install the tool, or pass --capabilities {sidecar}")


def _without_denials(error: ToolError) -> str:
    """Return an error's message without the denials quoted in it, which `show_denials` has already printed."""
    message = error.message
    for decision in error.decisions:
        if not decision.allowed:
            message = message.replace(decision.sentence, "denied, as above")
    return message
