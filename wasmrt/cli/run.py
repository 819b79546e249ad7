"""`wasmrt run`: one call of one tool."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.cli._options import json_option, workspace_option
from wasmrt.cli._run import DEFAULT_USER, NO_PARAMS, run_tool


@click.command("run")
@click.argument("tool", metavar="NAME_OR_PATH")
@click.argument("params", default=NO_PARAMS, metavar="[JSON | @FILE | -]")
@click.option("--tool", "part", metavar="NAME", help="Which tool, where the component holds several.")
@click.option("--context", metavar="JSON", help="What the tool is told about the conversation; it may know all of it.")
@click.option("--user", default=DEFAULT_USER, show_default=True, help="Whose secrets and rate limits count.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a tool that is not installed: what it may do. Without it, nothing.",
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
) -> None:
    """Run a tool once.

    It may be installed, come with wasmrt, or be a component file. The result is JSON on stdout; with --json it
    comes with usage, logs and decisions. Rate limits count anew in each command, unless rate_limit_storage in the
    configuration file names a Redis for all of them; `wasmrt doctor` shows that file.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt run ./search.wasm @params.json --capabilities search.capabilities.json
      cat params.json | wasmrt run search -
    """
    run_tool(
        tool,
        params,
        part=part,
        context=context,
        user=user,
        capabilities=capabilities,
        workspace=workspace,
        logs=logs,
        as_json=as_json,
    )
