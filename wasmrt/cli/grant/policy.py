"""`wasmrt policy`: check and show the tool policy, and explain its decision on a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wasmrt.agent.config import read_config_file
from wasmrt.agent.flows import Label, draw_paths
from wasmrt.agent.policy import Preset, ToolPolicy, ToolRule
from wasmrt.agent.registry import Outcome, describe_declarations
from wasmrt.catalog.bundled import TOOLS, bundled_names, shipped_names
from wasmrt.cli.shared.calls import read_params
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import ViewChoice, complete_tools, json_option, view_options, workspace_option
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json, show_section
from wasmrt.cli.shared.registry import open_registry
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.files import read_file, replace_file
from wasmrt.core.limits import MAX_FLOW_BYTES
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog

_EXPLAINED = "explain"
"""ID of the trace that `explain` creates."""


@click.group("policy", cls=CommandGroup)
def policy() -> None:
    """Check and show the tool policy, and explain its decisions.

    The policy is in the sections [tools], [presets.NAME] and [approvals] of the configuration file; `wasmrt doctor`
    shows its path.

    \b
    Examples:
      wasmrt policy check
      wasmrt policy explain echo '{"message": "hi"}'
      wasmrt policy show --json
    """


@policy.command("check")
@json_option
def check(as_json: bool) -> int:
    """Check the policy: report all errors with their lines, and settings without effect.

    \b
    Examples:
      wasmrt policy check
      wasmrt policy check --json
    """
    found = read_config_file(find_places().config).policy
    known = _list_known_tools(found)
    shipped = tuple(shipped_names())
    if not find_places().mcp_servers.exists():  # the tools of servers may have any name
        others = {name.partition(".")[0] for name in known if name not in shipped}
        found.check_rules({name.partition(".")[0] for name in shipped if "." in name} - others, known)
    warnings = found.warnings(built_in=bundled_names(), known=known)
    if as_json:
        show_json({"ok": True, "digest": found.digest, "warnings": list(warnings)})
        return 0
    for warning in warnings:
        print_message(f"warning: {warning}")
    show(f"the policy is valid, digest {found.digest[:16]}")
    return 0


@policy.command("show")
@json_option
def show_policy(as_json: bool) -> None:
    """Show the active policy: presets with their digests, filter, guard, rules and approvals.

    \b
    Examples:
      wasmrt policy show
      wasmrt policy show --json
    """
    found = read_config_file(find_places().config).policy
    if as_json:
        show_json(as_data(found))
        return
    active = found.preset or "none (all tools that pass the filter)"
    show(f"policy {found.digest[:16]}\nactive preset: {active}")
    if found.presets:
        rows = [_make_preset_row(preset) for preset in found.presets.values()]
        show_columns(("PRESET", "TOOLS", "NETWORK", "WRITES", "READ ONLY", "DIGEST"), rows)
    listed = ", ".join(found.filter.external_allow_list) or "all"
    allowed = {None: f"only tools that a user offered to agents: {listed}", True: f"allowed: {listed}"}
    external = allowed.get(found.filter.allow_external, "denied")
    guard = f"on, except for {', '.join(found.guard.allow_tools) or 'none'}" if found.guard.enabled else "off"
    show_section("External tools", [external])
    show_section("Exfiltration guard", [guard])
    show_section("Rules", [_format_rule(rule) for rule in found.rules])
    show_section("Flows", _format_flows(found))
    show_section("Approvals", [f"approver: {found.approver}, denied after {found.approval_seconds:g} s"])


@policy.command("flows")
@click.argument("name", default="", shell_complete=complete_tools)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a diagram to FILE.")
@workspace_option
@view_options
@json_option
def flows(name: str, svg: Path | None, workspace: Path | None, choice: ViewChoice, as_json: bool) -> None:
    """Show which tools untrusted text could use to send private text out, and the rule that would break each path.

    With the NAME of a tool, component or MCP server, show the declarations in force for its tools, and their source.

    The result is derived from effects and grants; no tool is called. File tools are included with --workspace.

    \b
    Examples:
      wasmrt policy flows --workspace .
      wasmrt policy flows --preset web --svg flows.svg
      wasmrt policy flows write_file --workspace .
      wasmrt policy flows --json
    """
    with open_registry(workspace=workspace) as registry:
        if name:
            _show_declarations(describe_declarations(registry, name), as_json=as_json)
            return
        found = choice.of(registry).flows()
        counted = any(tool.needs == "workspace" for tool in TOOLS if tool.name in registry.all_names())
    if svg is not None:
        write_named(svg, draw_paths(found))
    if as_json:
        show_json(found.as_dict() | {"file_tools_counted": counted})
        return
    senders = found.summary()
    if not senders:
        show("no path: these tools together cannot read private text, read untrusted text and send data out")
    for each in senders:
        show(f"{'open ' if each.shortest.is_open else 'asks '} {each.sentence}")
    if not counted:
        show("file tools were not included; to include them, pass their folder with --workspace DIR")
    changes = [f"{change.command}   # {change.breaks} of {found.count} open paths" for change in found.changes()]
    show_section("To break these paths, run", changes)
    show_section("Rules over flows", _format_flows(registry.policy))
    if svg is not None:
        print_message(f"wrote the diagram to {svg}")


def _show_declarations(found: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        show_json({"directory": str(find_places().declarations), "tools": found})
        return
    for each in found:
        lines = [*each["declared_by"], f"schema: {each['schema']}", f"effects: {', '.join(each['effects']) or 'none'}"]
        lines += [f"labels of results: {', '.join(each['results']) or 'none'}"]
        show_section(each["tool"], [*lines, *(f"{name}: {role}" for name, role in each["params"].items())])
    print_message(f"to replace a file, put one of the same name into {find_places().declarations}")


@policy.command("explain")
@click.argument("tool", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--user", default="local", show_default=True, help="User whose rate limits apply.")
@click.option("--said", default="", metavar="TEXT", help="Text that the user wrote before the call.")
@click.option(
    "--seen", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Untrusted text read before."
)
@click.option(
    "--private", multiple=True, type=click.Path(path_type=Path), metavar="FILE", help="Private text read before."
)
@workspace_option
@view_options
@json_option
def explain(
    tool: str,
    params: str,
    user: str,
    said: str,
    seen: tuple[Path, ...],
    private: tuple[Path, ...],
    workspace: Path | None,
    choice: ViewChoice,
    as_json: bool,
) -> int:
    """Explain the decision on a call without making it: the step that would stop it, and how to allow it.

    --said, --seen and --private set the earlier content of the conversation, for the flow rules.

    \b
    Examples:
      wasmrt policy explain echo '{"message": "hi"}'
      wasmrt policy explain weather --preset dev --json
      wasmrt policy explain send '{"to": "eve@evil.example"}' --seen mail.txt
    """
    text = read_params(params)
    read = [(path, read_named(path), Label.UNTRUSTED) for path in seen]
    read += [(path, read_named(path), Label.PRIVATE) for path in private]
    with open_registry(workspace=workspace) as registry:
        if said or read:
            trace = registry.trace(_EXPLAINED, user=user)
            if said:
                trace.user_said(said)
            for path, content, label in read:
                trace.saw(content, (label,), source=str(path))
        found = choice.of(registry).explain(tool, text, user=user, trace=_EXPLAINED if said or read else "")
    code = FAILED if found.outcome is Outcome.REFUSED else 0
    if as_json:
        show_json(found.as_dict())
        return code
    for name, decision in found.steps:
        mark = "ok  " if decision.allowed else "ask " if found.outcome is Outcome.ASKS else "stop"
        show(f"{mark} {name:<13} {decision.rule}")
    words = {
        Outcome.RUNS: "the call would run",
        Outcome.ASKS: "the call would require approval",
        Outcome.REFUSED: f"the call would be denied at the step {found.stopped_at}",
    }
    show(words[found.outcome])
    if not found.decision.allowed and found.decision.hint:
        print_message(f"to allow the call: {found.decision.hint}")
    return code


def _list_known_tools(found: ToolPolicy) -> list[str]:
    """Return the tool names that the policy may use. Names of tools within installed components are not checked."""
    installed = [tool.name for tool in open_catalog(find_places().data).tools()]
    plugins = sorted(path.stem for path in found.plugin_dir.glob("*.toml")) if found.plugin_dir else []
    meant = [rule.tool for rule in found.rules] + [tool for each in found.presets.values() for tool in each.tools]
    below = [name for name in meant if name.partition(".")[0] in installed]
    return [*shipped_names(), *installed, *plugins, *below]


def as_data(found: ToolPolicy) -> dict[str, object]:
    """Return a policy as JSON data."""
    return {
        "digest": found.digest,
        "preset": found.preset,
        "presets": {
            preset.name: {
                "tools": list(preset.tools),
                "allow_network": preset.allow_network,
                "allow_write_paths": list(preset.allow_write_paths),
                "read_only": preset.read_only,
                "digest": preset.digest,
            }
            for preset in found.presets.values()
        },
        "filter": {
            "allow_external": bool(found.filter.allow_external),
            "external_allow_list": list(found.filter.external_allow_list),
        },
        "exfiltration_guard": {"enabled": found.guard.enabled, "allow_tools": list(found.guard.allow_tools)},
        "rules": [_format_rule(rule) for rule in found.rules],
        "flows": None
        if found.flows is None
        else {
            "preset": found.flows.preset,
            "rules": {rule.name: str(rule.action) for rule in found.flows.rules},
            "known": list(found.flows.known),
            "automation": found.flows.automation,
            "files_untrusted": found.flows.files_untrusted,
            "digest": found.flows.digest,
        },
        "max_output_bytes": found.max_output_bytes,
        "approvals": {"approver": str(found.approver), "timeout_seconds": found.approval_seconds},
    }


def _make_preset_row(preset: Preset) -> tuple[str, ...]:
    return (
        preset.name,
        ", ".join(preset.tools) or "none",
        "yes" if preset.allow_network else "no",
        ", ".join(preset.allow_write_paths) or "none",
        "yes" if preset.read_only else "no",
        preset.digest[:16],
    )


def _format_flows(found: ToolPolicy) -> list[str]:
    if found.flows is None:
        return ["not configured: the preset default applies to traces that the program opens"]
    rules = ", ".join(f"{rule.name} {rule.action}" for rule in found.flows.rules) or "none"
    automation = ["automation: rules deny instead of requiring approval"] if found.flows.automation else []
    return [f"{found.flows.preset}: {rules}", f"known: {', '.join(found.flows.known) or 'none'}", *automation]


def _format_rule(rule: ToolRule) -> str:
    parts = [f"permission {rule.permission}"] if rule.permission else []
    names = ("tier", "risk", "confirmation", "subagent_access")
    parts += [f"{name} {value}" for name in names if (value := getattr(rule.tightening, name)) is not None]
    parts += ["network outbound"] if rule.tightening.network_outbound else []
    if rule.rate is not None:
        parts.append(f"{rule.rate.requests_per_minute} per minute, {rule.rate.requests_per_hour} per hour")
    parts += [f"{rule.timeout_seconds:g} s per call"] if rule.timeout_seconds else []
    parts += [] if rule.results is None else [f"results {' and '.join(sorted(rule.results)) or 'without a label'}"]
    parts += [] if rule.destinations is None else [f"destinations {', '.join(rule.destinations) or 'none'}"]
    parts += [f"identifiers for {', '.join(rule.ids)}"] if rule.ids else []
    return f"{rule.tool}: {', '.join(parts) or 'nothing'}"


def read_named(path: Path) -> str:
    """Return the text of a file given on the command line.

    Raises:
        ConfigurationError: the file cannot be read, or is too large.
    """
    try:
        return read_file(path, max_bytes=MAX_FLOW_BYTES, follow_link=True).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read ({error})", hint="name a text file") from error


def write_named(path: Path, text: str) -> None:
    """Write a file given on the command line, replacing an existing one.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    try:
        replace_file(path, text.encode(), mode=0o644)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(
            f"{path} cannot be written ({reason})", hint="choose a file in a folder that you can write"
        ) from error
