"""`wasmrt policy`: the policy over tools, checked, shown, and walked for one call without making it."""

from __future__ import annotations

from collections.abc import Callable

import click

from wasmrt.cli._calling import read_params
from wasmrt.cli._errors import FAILED
from wasmrt.cli._held import open_registry, view_options
from wasmrt.cli._options import complete_tools, json_option
from wasmrt.cli._output import print_message, show, show_columns, show_json, show_section
from wasmrt.config_file import read_config_file
from wasmrt.install import Catalog
from wasmrt.install.bundled import bundled_names
from wasmrt.places import find_places
from wasmrt.policy import Preset, ToolPolicy, ToolRule
from wasmrt.tools import Outcome, ToolView


@click.group("policy")
def policy() -> None:
    """Check and show the policy over tools, and say what would become of a call.

    It is in the configuration file: [tools], [presets.NAME] and [approvals]; `wasmrt doctor` names the file.

    \b
    Examples:
      wasmrt policy check
      wasmrt policy explain echo '{"message": "hi"}'
      wasmrt policy show --json
    """


@policy.command("check")
@json_option
def check(as_json: bool) -> int:
    """Check the policy: every mistake with its line, and what in it has no effect.

    \b
    Examples:
      wasmrt policy check
      wasmrt policy check --json
    """
    found = read_config_file(find_places().config).policy
    warnings = found.warnings(built_in=bundled_names(), known=_known(found))
    if as_json:
        show_json({"ok": True, "digest": found.digest, "warnings": list(warnings)})
        return 0
    for warning in warnings:
        print_message(f"warning: {warning}")
    show(f"the policy can be used, digest {found.digest[:16]}")
    return 0


@policy.command("show")
@json_option
def show_policy(as_json: bool) -> None:
    """Show the policy that is in force: presets with their digests, filter, guard, rules and approvals.

    \b
    Examples:
      wasmrt policy show
      wasmrt policy show --json
    """
    found = read_config_file(find_places().config).policy
    if as_json:
        show_json(as_data(found))
        return
    active = found.preset or "none: every tool that passes the filter"
    show(f"policy {found.digest[:16]}\nactive preset: {active}")
    if found.presets:
        rows = [_preset_row(preset) for preset in found.presets.values()]
        show_columns(("PRESET", "TOOLS", "NETWORK", "WRITES", "READ ONLY", "DIGEST"), rows)
    listed = ", ".join(found.filter.external_allow_list) or "all"
    external = f"allowed: {listed}" if found.filter.allow_external else "denied"
    guard = f"on, but for {', '.join(found.guard.allow_tools) or 'none'}" if found.guard.enabled else "off"
    show_section("External tools", [external])
    show_section("Exfiltration guard", [guard])
    show_section("Rules", [_rule_line(rule) for rule in found.rules])
    show_section("Approvals", [f"asked: {found.approver}, denied after {found.approval_seconds:g} s"])


@policy.command("explain")
@click.argument("tool", shell_complete=complete_tools)
@click.argument("params", default="{}", metavar="[JSON | @FILE | -]")
@click.option("--user", default="local", show_default=True, help="Whose rate limits count.")
@view_options
@json_option
def explain(tool: str, params: str, user: str, view_of: Callable[[ToolView], ToolView], as_json: bool) -> int:
    """Walk the steps of a call without making it: where it would stop, and what would let it through.

    \b
    Examples:
      wasmrt policy explain echo '{"message": "hi"}'
      wasmrt policy explain weather --preset dev --json
    """
    text = read_params(params)
    with open_registry() as registry:
        found = view_of(registry).explain(tool, text, user=user)
    code = FAILED if found.outcome is Outcome.REFUSED else 0
    if as_json:
        show_json(found.as_dict())
        return code
    for name, decision in found.steps:
        mark = "ok  " if decision.allowed else "ask " if found.outcome is Outcome.ASKS else "stop"
        show(f"{mark} {name:<13} {decision.rule}")
    words = {
        Outcome.RUNS: "it would run",
        Outcome.ASKS: "a person would be asked",
        Outcome.REFUSED: f"it would be refused at {found.stopped_at}",
    }
    show(words[found.outcome])
    if not found.decision.allowed and found.decision.hint:
        print_message(f"to let it through: {found.decision.hint}")
    return code


def _known(found: ToolPolicy) -> list[str]:
    """Return the names that the policy can mean; a component's own tools are not known before it runs."""
    installed = [tool.name for tool in Catalog(find_places().data).tools()]
    plugins = sorted(path.stem for path in found.plugin_dir.glob("*.toml")) if found.plugin_dir else []
    meant = [rule.tool for rule in found.rules] + [tool for each in found.presets.values() for tool in each.tools]
    below = [name for name in meant if name.partition(".")[0] in installed]
    return [*bundled_names(), *installed, *plugins, *below]


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
            "allow_external": found.filter.allow_external,
            "external_allow_list": list(found.filter.external_allow_list),
        },
        "exfiltration_guard": {"enabled": found.guard.enabled, "allow_tools": list(found.guard.allow_tools)},
        "rules": [_rule_line(rule) for rule in found.rules],
        "max_output_bytes": found.max_output_bytes,
        "approvals": {"approver": str(found.approver), "timeout_seconds": found.approval_seconds},
    }


def _preset_row(preset: Preset) -> tuple[str, ...]:
    return (
        preset.name,
        ", ".join(preset.tools) or "none",
        "yes" if preset.allow_network else "no",
        ", ".join(preset.allow_write_paths) or "none",
        "yes" if preset.read_only else "no",
        preset.digest[:16],
    )


def _rule_line(rule: ToolRule) -> str:
    said = [f"permission {rule.permission}"] if rule.permission else []
    words = ("tier", "risk", "confirmation", "subagent_access")
    said += [f"{word} {value}" for word in words if (value := getattr(rule.tightening, word)) is not None]
    said += ["network outbound"] if rule.tightening.network_outbound else []
    if rule.rate is not None:
        said.append(f"{rule.rate.requests_per_minute} a minute, {rule.rate.requests_per_hour} an hour")
    said += [f"{rule.timeout_seconds:g} s a call"] if rule.timeout_seconds else []
    return f"{rule.tool}: {', '.join(said) or 'nothing'}"
