"""`wasmrt tools`: show the tools of the registry, and call them under its policy."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any

import click

from wasmrt.agent.policy import Permission
from wasmrt.agent.registry import ToolView
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import ViewChoice, complete_tools, json_option, view_options, workspace_option
from wasmrt.cli.shared.output import show, show_columns, show_json, show_json_list, show_section
from wasmrt.cli.shared.registry import open_registry, print_refusals
from wasmrt.cli.use.run import run
from wasmrt.core.effects import in_words


@click.group("tools", cls=CommandGroup)
def tools() -> None:
    """Show a tool as models see it, with its effects.

    \b
    Examples:
      wasmrt tools list
      wasmrt tools describe echo
    """


@tools.command("list")
@workspace_option
@view_options
@json_option
def list_tools(workspace: Path | None, choice: ViewChoice, as_json: bool) -> None:
    """List the tools that can be called, with their source and effects.

    File tools are included with --workspace.

    \b
    Examples:
      wasmrt tools list
      wasmrt tools list --workspace .
      wasmrt tools list --read-only --json
    """
    with open_registry(workspace=workspace) as registry:
        view = choice.of(registry)
        rows = [_make_row(registry.source(name), name, view) for name in view.tool_names()]
        refusals = view.refusals()
    if as_json:
        show_json_list(rows)
        return
    if rows:
        header = ("NAME", "SOURCE", "TIER", "ASKS", "CAN")
        show_columns(header, [(r["name"], r["source"], r["tier"], r["confirmation"], r["can"]) for r in rows])
    print_refusals(refusals, "cannot be called here")


@tools.command("describe")
@click.argument("name", shell_complete=complete_tools)
@workspace_option
@view_options
@json_option
def describe(name: str, workspace: Path | None, choice: ViewChoice, as_json: bool) -> None:
    """Show a tool's description, parameters and effects, and the traits derived from its effects.

    \b
    Examples:
      wasmrt tools describe echo
      wasmrt tools describe echo --read-only --json
    """
    with open_registry(workspace=workspace, called=name) as registry:
        view = choice.of(registry)
        tool, traits = view.get(name), view.traits(name)
        row = _make_row(registry.source(name), name, view)
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
    show_section("Params", _list_params(tool.schema))
    show_section("Document for models", data["prompt"].splitlines())


_run = copy(run)
_run.hidden = True
tools.add_command(_run)


def _make_row(source: object, name: str, view: ToolView) -> dict[str, Any]:
    traits = view.traits(name)
    return {
        "name": name,
        "source": str(source),
        "tier": str(traits.tier()),
        "risk": str(traits.risk()),
        "confirmation": _describe_confirmation(name, view),
        "subagent_access": str(traits.subagent_access),
        "network_outbound": traits.network_outbound,
        "can": in_words(traits.effects),
    }


def _describe_confirmation(name: str, view: ToolView) -> str:
    """Return when approval is required: by the policy's rule, else by the tool's default, else by its effects."""
    permission = view.permission(name)
    if permission is Permission.ALLOW:
        return "never"
    default = view.get(name).default_permission
    return "always" if Permission.ASK in (permission, default) else str(view.traits(name).confirmation())


def _list_params(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    lines = []
    for name, part in schema.get("properties", {}).items():
        kind = part.get("type", "any") if isinstance(part, dict) else "any"
        words = part.get("description", "") if isinstance(part, dict) else ""
        mark = "" if name in required else ", optional"
        lines.append(f"{name} ({kind}{mark}){': ' + str(words) if words else ''}")
    return lines
