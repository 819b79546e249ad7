"""`wasmrt run`: call a tool once, under the policy."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.cli.shared.calls import CallOptions, parse_context, read_params
from wasmrt.cli.shared.options import ViewChoice, complete_tools, json_option, view_options, workspace_option
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.tools import find_component, find_host_tool, may_be_in_registry
from wasmrt.cli.use.component import run_component
from wasmrt.core.errors import ConfigurationError, NotInstalledError


@click.command("run")
@click.argument("tool", metavar="NAME_OR_PATH", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--tool", "part", metavar="NAME", help="Which tool to call, if the component has several.")
@click.option("--context", metavar="JSON", help="Context of the conversation, all of which is passed to the tool.")
@click.option("--user", default="local", show_default=True, help="User whose secrets and rate limits apply.")
@click.option("--trace", default="", metavar="ID", help="Conversation or job that the call belongs to.")
@click.option("--token", metavar="TOKEN", help="Confirmation token to use instead of an approval.")
@click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Grant for a component file (default: no capabilities), or a limit on the grant of a bundled tool.",
)
@workspace_option
@view_options
@click.option(
    "--unsafe-no-policy", "--no-policy", "unsafe_no_policy", is_flag=True,
    help="Skip the policy and approvals; the sandbox and the grant still apply.",
)  # fmt: skip
@click.option("--logs", is_flag=True, help="Print the tool's log on stderr.")
@click.option("--as-model", is_flag=True, help="Print the result as models receive it: sanitized, truncated, wrapped.")
@json_option
def run(
    tool: str,
    params: str,
    part: str | None,
    context: str | None,
    user: str,
    trace: str,
    token: str | None,
    capabilities: Path | None,
    workspace: Path | None,
    choice: ViewChoice,
    unsafe_no_policy: bool,
    logs: bool,
    as_model: bool,
    as_json: bool,
) -> int:
    """Call a tool once.

    NAME_OR_PATH is a name that `wasmrt list` shows (such as echo, words.count, or server.tool for an MCP server), a
    component file, or the folder of a built tool. The call takes the same steps as the call of an agent: policy,
    approval, rate limits, scan, receipt. Typing a call approves its effects. If a rule, the package or the tool
    requires approval, you are asked on the terminal; without a terminal the call is denied. The result is printed as
    JSON; --json adds usage, logs and decisions. Rate limits start from zero, unless rate_limit_storage is set.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt run ./search.wasm @params.json --capabilities grant.json
      wasmrt run notion.search '{"query": "otters"}' --read-only
      cat params.json | wasmrt run search -
    """
    if as_model and (token is not None or logs):
        raise click.UsageError("--as-model only prints the result; omit --token and --logs")
    text, typed = read_params(params), params[:1] not in ("@", "-")
    call = CallOptions(
        text, typed, parse_context(context), user, trace, token, workspace, choice, logs, as_model, as_json
    )
    if unsafe_no_policy and call.needs_registry:
        raise click.UsageError("--unsafe-no-policy cannot be combined with options of the policy")
    if (own := find_host_tool(tool, part, capabilities)) is not None:
        _refuse_without_policy(tool, unsafe_no_policy)
        from wasmrt.cli.use.host_tool import run_host_tool  # loads the registry, which components do not need

        return run_host_tool(own, call)
    try:
        found, part = find_component(tool, part, capabilities=capabilities)
    except NotInstalledError:
        if not may_be_in_registry(tool):
            raise
    else:
        if unsafe_no_policy:
            print_message("warning: this call skips the policy: no rule, preset or approval applies to it")
        return run_component(found, part, call, tool, unsafe_no_policy=unsafe_no_policy)
    _refuse_without_policy(tool, unsafe_no_policy)
    if part is not None or capabilities is not None:
        option = "--tool" if part is not None else "--capabilities"
        raise ConfigurationError(f"{tool} is not a component", hint=f"omit {option}")
    from wasmrt.cli.use.registered import run_registered  # loads every tool

    return run_registered(tool, call)


def _refuse_without_policy(tool: str, unsafe_no_policy: bool) -> None:
    """Raise ConfigurationError if a call outside of a sandbox would skip the policy.

    SECURITY: the sandbox and the grant limit a component even without a policy. Nothing else limits other tools.
    """
    if unsafe_no_policy:
        raise ConfigurationError(f"{tool} is not a component, and cannot skip the policy", hint="omit the option")
