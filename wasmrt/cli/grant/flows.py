"""`wasmrt flows`: try flow rules on recorded conversations."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.agent.policy import FLOW_PRESETS
from wasmrt.agent.registry import Outcome, try_conversation
from wasmrt.cli.grant.policy import read_named
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import ViewChoice, json_option, view_options, workspace_option
from wasmrt.cli.shared.output import show, show_json, show_section
from wasmrt.cli.shared.registry import open_registry
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_FLOW_BYTES
from wasmrt.core.strict_json import JsonError, read_json

_MAX_DEPTH = 64


@click.group("flows", cls=CommandGroup)
def flows() -> None:
    """Try flow rules on recorded conversations.

    \b
    Examples:
      wasmrt flows try conversation.json --rules careful
    """


@flows.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--rules", type=click.Choice(list(FLOW_PRESETS)), help="Preset of flow rules to try.")
@click.option(
    "--config", type=click.Path(exists=True, path_type=Path), metavar="FILE", help="Configuration file to try."
)
@workspace_option
@view_options
@json_option
def try_rules(
    file: Path, rules: str | None, config: Path | None, workspace: Path | None, choice: ViewChoice, as_json: bool
) -> None:
    """List the calls of a recorded conversation that would require approval or be denied.

    FILE has the messages as JSON, in the form of OpenAI's chat completions, with the results of the calls. No tool is
    called. Approvals count as given. By default, the configured rules are tried.

    \b
    Examples:
      wasmrt flows try conversation.json --rules careful
      wasmrt flows try conversation.json --config stricter.toml --json
    """
    try:
        messages = read_json(read_named(file), max_bytes=MAX_FLOW_BYTES, max_depth=_MAX_DEPTH)
    except JsonError as error:
        raise ConfigurationError(f"{file} is not JSON: {error}") from error
    if isinstance(messages, dict):
        messages = messages.get("messages")
    if not isinstance(messages, list):
        raise ConfigurationError(f"{file}: expected a list of messages", hint="write the messages as a JSON array")
    with open_registry(workspace=workspace, config=config, flows=rules) as registry:
        tried = list(try_conversation(choice.of(registry), messages))
    stopped = [each for each in tried if each.explanation.outcome is not Outcome.RUNS]
    if as_json:
        calls = [{"tool": each.tool, "params": each.params, "provenance": list(each.provenance)}
                 | each.explanation.as_dict() for each in stopped]  # fmt: skip
        show_json({"calls": len(tried), "stopped": calls})
        return
    for each in stopped:
        mark = "ask " if each.explanation.outcome is Outcome.ASKS else "stop"
        show_section(f"{mark} {each.tool}", [each.explanation.decision.rule, *each.provenance])
    asked = sum(each.explanation.outcome is Outcome.ASKS for each in stopped)
    show(f"{len(tried)} calls: {asked} would require approval, {len(stopped) - asked} would be denied")
