"""`wasmrt advanced verify`: check stored components against their digests."""

from __future__ import annotations

import click

from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("verify")
@click.argument("name", required=False, shell_complete=complete_tools)
@json_option
@click.pass_context
def verify(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """Check stored components against their digests.

    Without a NAME, files left behind by interrupted installs are also removed. The exit code is 1 if a component has
    changed since it was installed.

    \b
    Examples:
      wasmrt advanced verify
      wasmrt advanced verify search --json
    """
    catalog = open_catalog(find_places().data)
    findings = catalog.verify(name)
    strays = catalog.sweep() if name is None else 0
    broken = [finding for finding in findings if finding.problem]
    if as_json:
        checked = [finding._asdict() for finding in findings]
        show_json({"checked": checked, "broken": len(broken), "strays_removed": strays})
    else:
        for finding in broken:
            print_message(f"{finding.name} version {finding.number}: {finding.problem}")
        print_message(
            f"{len(findings)} checked, {len(broken)} broken" + (f", {strays} leftovers removed" if strays else "")
        )
    if broken:
        ctx.exit(FAILED)
