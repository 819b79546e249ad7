"""`wasmrt rollback`: activate an older version of a tool."""

from __future__ import annotations

import click

from wasmrt.capabilities.sentences import diff
from wasmrt.catalog.granted import read_granted
from wasmrt.cli.shared.consent import print_offer
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("rollback")
@click.argument("name", shell_complete=complete_tools)
@click.option("--to", "number", type=int, metavar="VERSION", help="Version to activate (default: the previous one).")
@json_option
def rollback(name: str, number: int | None, as_json: bool) -> None:
    """Activate an older version of a tool.

    The older version becomes active with the grant that it had. The command lists what the older version may do but the
    replaced version may not. It is offered to agents only if both versions were.

    \b
    Examples:
      wasmrt rollback search
      wasmrt rollback search --to 3
    """
    catalog = open_catalog(find_places().data)
    before = read_granted(catalog.get(name))
    version = catalog.rollback(name, number)
    wider = [change.sentence for change in diff(before, read_granted(version)).widened]
    if as_json:
        found = {"name": name, "version": version.number, "digest": version.digest, "for_agents": version.for_agents}
        show_json(found | {"wider": wider})
        return
    print_message(f"{name} now runs version {version.number} ({version.digest[:12]})")
    for sentence in wider:
        print_message(f"  allowed again: {sentence}")
    print_offer(version.name, [version.name], version.offer)
