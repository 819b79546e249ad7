"""`wasmrt tools`: everything that the registry holds, and calls that go through its policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.policy import Permission
from wasmrt.agent.registry import ToolRegistry, ToolView
from wasmrt.catalog.bundled import RUN_CODE, bundled_component
from wasmrt.cli.shared.calls import (
    check_context,
    interruptible,
    read_params,
    show_changes,
    show_denials,
    show_logs,
    show_progress,
)
from wasmrt.cli.shared.errors import exit_code
from wasmrt.cli.shared.options import complete_tools, json_option, workspace_option
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json, show_json_list, show_section
from wasmrt.cli.shared.registry import open_registry, view_options
from wasmrt.cli.shared.runtime import prepare
from wasmrt.core.effects import in_words
from wasmrt.core.errors import NotAuthorizedError, ToolError

ViewOf = Callable[[ToolView], ToolView]


@click.group("tools")
def tools() -> None:
    """Show and call the tools of the registry: built-in, installed and plugins, under the policy of the configuration.

    \b
    Examples:
      wasmrt tools list
      wasmrt tools describe echo
      wasmrt tools run echo '{"message": "hi"}'
    """


@tools.command("list")
@workspace_option
@view_options
@json_option
def list_tools(workspace: Path | None, view_of: ViewOf, as_json: bool) -> None:
    """List the tools that can be called, with where they come from and what they can do.

    Tools for files are there with --workspace.

    \b
    Examples:
      wasmrt tools list
      wasmrt tools list --workspace .
      wasmrt tools list --read-only --json
    """
    with open_registry(workspace=workspace) as registry:
        view = view_of(registry)
        rows = [_row(registry.source(name), name, view) for name in view.tool_names()]
        hidden = len(registry.all_names()) - len(rows)
    if as_json:
        show_json_list(rows)
        return
    if rows:
        header = ("NAME", "SOURCE", "TIER", "ASKS", "CAN")
        show_columns(header, [(r["name"], r["source"], r["tier"], r["confirmation"], r["can"]) for r in rows])
    if hidden:
        print_message(f"{hidden} more cannot be called here; wasmrt policy explain NAME says why")


@tools.command("describe")
@click.argument("name", shell_complete=complete_tools)
@workspace_option
@view_options
@json_option
def describe(name: str, workspace: Path | None, view_of: ViewOf, as_json: bool) -> None:
    """Describe one tool: what it is for, its params, its effects, and what follows from them.

    \b
    Examples:
      wasmrt tools describe echo
      wasmrt tools describe echo --read-only --json
    """
    with open_registry(workspace=workspace) as registry:
        view = view_of(registry)
        tool, traits = view.get(name), view.traits(name)
        row = _row(registry.source(name), name, view)
    data = row | {
        "description": tool.description,
        "prompt": view.document(name),
        "schema": tool.schema,
        "effects": sorted(traits.effects),
        "actions": [{"name": each.name, "effects": sorted(each.effects)} for each in traits.actions],
        "annotations": traits.annotations(),
        "digest": tool.digest,
        "timeout_seconds": tool.timeout_seconds,
    }
    if as_json:
        show_json(data)
        return
    show(f"{row['name']} ({row['source']})\n{tool.description}")
    show_section(
        "It can",
        [row["can"], f"tier {row['tier']}, risk {row['risk']}, confirmation {row['confirmation']}",
         f"sub-agents: {row['subagent_access']}"],
    )  # fmt: skip
    show_section("Actions", [f"{each.name}: {in_words(each.effects)}" for each in traits.actions])
    show_section("Params", _params(tool.schema))
    show_section("Document for models", data["prompt"].splitlines())


@tools.command("run")
@click.argument("name", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--context", metavar="JSON", help="What the tool is told about the conversation; it may know all of it.")
@click.option("--user", default="local", show_default=True, help="Whose secrets and rate limits count.")
@click.option("--trace", default="", metavar="ID", help="The conversation or job that the call is part of.")
@click.option("--token", metavar="TOKEN", help="A confirmation token, in place of a person's approval.")
@click.option("--logs", is_flag=True, help="Show what the tool logged, on stderr.")
@click.option("--as-model", is_flag=True, help="Print the answer as a model would get it: sanitized, cut, wrapped.")
@workspace_option
@view_options
@json_option
def run_tool(
    name: str,
    params: str,
    context: str | None,
    user: str,
    trace: str,
    token: str | None,
    logs: bool,
    as_model: bool,
    workspace: Path | None,
    view_of: ViewOf,
    as_json: bool,
) -> int:
    """Call a tool through every step: schema, filter, preset, guard, confirmation, rates, approval, scan, receipt.

    \b
    Examples:
      wasmrt tools run echo '{"message": "hi"}'
      wasmrt tools run weather @params.json --read-only --trace job-7
    """
    if as_model and (token is not None or logs):
        raise click.UsageError("--as-model prints the answer alone; leave --token and --logs out")
    text, data = read_params(params), check_context(context)
    told = None if as_json or as_model else show_progress
    with open_registry(workspace=workspace) as registry:
        registry.ends_with_its_call()
        _prepare_interpreter(name, registry)
        view = view_of(registry)
        if as_model:
            call: dict[str, Any] = {"id": "call-1", "name": name, "arguments": text}
            answer = interruptible(_closing(registry), lambda: view.answer(call, user=user, trace=trace, data=data))
            show_json(answer.message()) if as_json else show(answer.text)
            return 0 if answer.error is None else exit_code(answer.error)
        try:
            output = interruptible(
                _closing(registry),
                lambda: view.execute(name, text, user=user, trace=trace, data=data, token=token, on_progress=told),
            )
        except ToolError as error:
            if not as_json:
                show_logs(error.logs)
                if not isinstance(error, NotAuthorizedError):  # whose sentence and hint are its denial's
                    show_denials(error.decisions, None)
                if workspace is not None:
                    show_changes(error.call_id)
            raise
    if logs and not as_json:
        show_logs(output.logs)
    show_json(output.as_dict() if as_json else output.result)
    if workspace is not None and not as_json:
        show_changes(output.call_id)
    return 0


def _prepare_interpreter(name: str, registry: ToolRegistry) -> None:
    """Compile the interpreter of code mode before its call, saying so: the first time that takes seconds."""
    if name == RUN_CODE.name and name in registry.all_names() and registry.runtime is not None:
        prepare(registry.runtime, name, bundled_component(RUN_CODE))
        registry.runtime.forget(name)  # no component can invoke it


def _closing(registry: ToolRegistry) -> Callable[[], None]:
    assert registry.runtime is not None
    return registry.runtime.close


def _row(source: object, name: str, view: ToolView) -> dict[str, Any]:
    traits = view.traits(name)
    return {
        "name": name,
        "source": str(source),
        "tier": str(traits.tier()),
        "risk": str(traits.risk()),
        "confirmation": _asks(name, view),
        "subagent_access": str(traits.subagent_access),
        "network_outbound": traits.network_outbound,
        "can": in_words(traits.effects),
    }


def _asks(name: str, view: ToolView) -> str:
    """Return when a person is asked: by a rule of the operator's, else as the tool wants it, else by its effects."""
    permission = view.policy.permission_for(name)
    if permission is Permission.ALLOW:
        return "never"
    wished = view.get(name).default_permission
    return "always" if Permission.ASK in (permission, wished) else str(view.traits(name).confirmation())


def _params(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    lines = []
    for name, part in schema.get("properties", {}).items():
        kind = part.get("type", "any") if isinstance(part, dict) else "any"
        words = part.get("description", "") if isinstance(part, dict) else ""
        mark = "" if name in required else ", optional"
        lines.append(f"{name} ({kind}{mark}){': ' + str(words) if words else ''}")
    return lines
