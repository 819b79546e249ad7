"""`wasmrt tools`: show the tools of the registry, and call them under its policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.policy import Permission
from wasmrt.agent.registry import ToolRegistry, ToolView, end_with_call
from wasmrt.catalog.bundled import RUN_CODE, bundled_component
from wasmrt.cli.shared.calls import (
    parse_context,
    read_params,
    run_interruptible,
    show_denials,
    show_logs,
    show_progress,
    show_undo_hint,
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
    """Show and call the tools of the registry (built-in, installed and plugins) under the configured policy.

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
    """List the tools that can be called, with their source and effects.

    File tools are included with --workspace.

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
        print_message(f"{hidden} more cannot be called here; for the reason: wasmrt policy explain NAME")


@tools.command("describe")
@click.argument("name", shell_complete=complete_tools)
@workspace_option
@view_options
@json_option
def describe(name: str, workspace: Path | None, view_of: ViewOf, as_json: bool) -> None:
    """Show a tool's description, parameters and effects, and the traits derived from its effects.

    \b
    Examples:
      wasmrt tools describe echo
      wasmrt tools describe echo --read-only --json
    """
    with open_registry(workspace=workspace, called=name) as registry:
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
@click.option("--context", metavar="JSON", help="Context of the conversation, all of which is passed to the tool.")
@click.option("--user", default="local", show_default=True, help="User whose secrets and rate limits apply.")
@click.option("--trace", default="", metavar="ID", help="Conversation or job that the call belongs to.")
@click.option("--token", metavar="TOKEN", help="Confirmation token to use instead of an approval.")
@click.option("--logs", is_flag=True, help="Print the tool's log on stderr.")
@click.option("--as-model", is_flag=True, help="Print the result as models receive it: sanitized, truncated, wrapped.")
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
    """Call a tool with all checks: schema, filter, preset, guard, confirmation, rates, approval, scan, receipt.

    \b
    Examples:
      wasmrt tools run echo '{"message": "hi"}'
      wasmrt tools run weather @params.json --read-only --trace job-7
    """
    if as_model and (token is not None or logs):
        raise click.UsageError("--as-model only prints the result; omit --token and --logs")
    text, data = read_params(params), parse_context(context)
    on_progress = None if as_json or as_model else show_progress
    with open_registry(workspace=workspace, called=name) as registry:
        end_with_call(registry)
        _prepare_interpreter(name, registry)
        view = view_of(registry)
        if as_model:
            call: dict[str, Any] = {"id": "call-1", "name": name, "arguments": text}
            answer = run_interruptible(_closer(registry), lambda: view.answer(call, user=user, trace=trace, data=data))
            show_json(answer.message()) if as_json else show(answer.text)
            return 0 if answer.error is None else exit_code(answer.error)
        try:
            output = run_interruptible(
                _closer(registry),
                lambda: view.execute(
                    name, text, user=user, trace=trace, data=data, token=token, on_progress=on_progress
                ),
            )
        except ToolError as error:
            if not as_json:
                show_logs(error.logs)
                if not isinstance(error, NotAuthorizedError):  # its message and hint describe the denial
                    show_denials(error.decisions, None)
                if workspace is not None:
                    show_undo_hint(error.call_id)
            raise
    if logs and not as_json:
        show_logs(output.logs)
    show_json(output.as_dict() if as_json else output.result)
    if workspace is not None and not as_json:
        show_undo_hint(output.call_id)
    return 0


def _prepare_interpreter(name: str, registry: ToolRegistry) -> None:
    """Compile the interpreter of code mode with a status before its call, because the first time takes seconds."""
    if name == RUN_CODE.name and name in registry.all_names() and registry.runtime is not None:
        prepare(registry.runtime, name, bundled_component(RUN_CODE))
        registry.runtime.forget(name)  # no component may invoke it


def _closer(registry: ToolRegistry) -> Callable[[], None]:
    assert registry.runtime is not None
    return registry.runtime.close


def _row(source: object, name: str, view: ToolView) -> dict[str, Any]:
    traits = view.traits(name)
    return {
        "name": name,
        "source": str(source),
        "tier": str(traits.tier()),
        "risk": str(traits.risk()),
        "confirmation": _confirmation(name, view),
        "subagent_access": str(traits.subagent_access),
        "network_outbound": traits.network_outbound,
        "can": in_words(traits.effects),
    }


def _confirmation(name: str, view: ToolView) -> str:
    """Return when approval is required: by the policy's rule, else by the tool's default, else by its effects."""
    permission = view.policy.permission_for(name)
    if permission is Permission.ALLOW:
        return "never"
    default = view.get(name).default_permission
    return "always" if Permission.ASK in (permission, default) else str(view.traits(name).confirmation())


def _params(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    lines = []
    for name, part in schema.get("properties", {}).items():
        kind = part.get("type", "any") if isinstance(part, dict) else "any"
        words = part.get("description", "") if isinstance(part, dict) else ""
        mark = "" if name in required else ", optional"
        lines.append(f"{name} ({kind}{mark}){': ' + str(words) if words else ''}")
    return lines
