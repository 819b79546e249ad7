"""`wasmrt import`: install the tools of an archive of `wasmrt export`, after the user grants their requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from wasmrt.catalog.export import ExportedTool, plan_import, read_export
from wasmrt.catalog.installer import InstallPlan
from wasmrt.catalog.package import read_archive_file
from wasmrt.cli.grant.install import open_installer
from wasmrt.cli.grant.plans import confirm_shadowing, print_plan, report_plan, shadow_warnings
from wasmrt.cli.shared.consent import NotGrantedError, ask_to_add, explain_grant
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import is_interactive, show_json
from wasmrt.cli.shared.registries import configured_policy
from wasmrt.core.errors import GrantRequiredError


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--yes", is_flag=True, help="Grant the requests without asking for confirmation.")
@click.option(
    "--offer/--no-offer",
    default=None,
    help="Offer all new tools to agents, or none (default: the tools that were offered to agents).",
)
@json_option
def import_(file: Path, yes: bool, offer: bool | None, as_json: bool) -> None:
    """Install the tools of an archive of wasmrt export.

    The command checks every digest and signature in the archive, and shows the origin and the grant of each tool, as
    wasmrt install does. After you confirm, all tools are installed, otherwise none. A grant in the archive never
    exceeds the request of its tool. Secrets have to be set again.

    \b
    Examples:
      wasmrt import tools.zip
      wasmrt import tools.zip --yes --no-offer
    """
    tools = read_export(read_archive_file(file))
    installer, policy = open_installer(), configured_policy()
    plans = [plan_import(installer, tool, file, policy) for tool in tools]
    warnings = {plan.new.name: [*plan.warnings, *shadow_warnings(plan)] for plan in plans}
    may_ask = is_interactive() and not as_json
    if not as_json:
        for plan in plans:
            print_plan(plan, warnings[plan.new.name])
    for plan in plans:
        if shadow_warnings(plan) and not yes:
            confirm_shadowing(plan.new.name, may_ask=may_ask)
    changing = [(plan, tool) for plan, tool in zip(plans, tools, strict=True) if not plan.is_installed]
    agreed = _decide(changing, granted=yes, offer=offer, may_ask=may_ask)
    stored = installer.accept_all(
        # An update keeps the decision of this installation.
        (plan, None if plan.previous is not None else agreed and (offer or tool.for_agents))
        for plan, tool in changing
    )
    versions = {version.name: version for version in stored}
    reports = []
    for plan in plans:
        version = versions.get(plan.new.name) or plan.previous
        assert version is not None
        reports.append(report_plan(version, plan, warnings[plan.new.name], as_json=as_json))
    if as_json:
        show_json(reports)


def _decide(
    changing: Sequence[tuple[InstallPlan, ExportedTool]], *, granted: bool, offer: bool | None, may_ask: bool
) -> bool:
    """Ask for consent to all plans; return whether tools may be offered to agents.

    SECURITY: only consent offers tools to agents: an answer, --yes or --offer.

    Raises:
        GrantRequiredError: the user declined, or cannot be asked.
    """
    if granted:
        return offer is not False
    if may_ask and changing:
        offered = [tool.name for _, tool in changing if offer or tool.for_agents]
        names = ", ".join(plan.new.name for plan, _ in changing)
        answer = ask_to_add(f"Import {names} with these grants", ", ".join(offered) or "none of them")
        if answer is None:
            raise GrantRequiredError("nothing was imported: nothing was granted", hint="import other tools")
        return answer and offer is not False
    if any(plan.needs_decision for plan, _ in changing):
        raise NotGrantedError(
            "nothing was imported: confirming the grants requires a terminal",
            hint="review the requests, then import with --yes",
            asks=[f"{plan.new.name}: {each}" for plan, _ in changing for each in explain_grant(plan.grant)],
        )
    return bool(offer)
