"""`wasmrt remove`: remove a tool with its versions and grants."""

from __future__ import annotations

import click

from wasmrt.catalog.removal import check_removable
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import confirm_change, print_message, show_json
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("remove")
@click.argument("name", shell_complete=complete_tools)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove a tool with all its versions and grants.

    The command asks for confirmation. Without a terminal, or with --json, --yes is required. Secrets are not removed.

    \b
    Examples:
      wasmrt remove search
      wasmrt remove search --yes --json
    """
    catalog = open_catalog(find_places().data)
    check_removable(catalog, name)
    if not yes:
        question = f"Remove {name} with its {_count_versions(len(catalog.versions(name)))} and its grants?"
        command = f"wasmrt remove {name}"
        confirm_change(question, unchanged=f"{name} was not removed", command=command, as_json=as_json)
    versions = catalog.remove(name)
    if as_json:
        show_json({"removed": name, "versions": [version.number for version in versions]})
    else:
        print_message(f"removed {name} ({_count_versions(len(versions))})")


def _count_versions(versions: int) -> str:
    return f"{versions} version{'s' * (versions != 1)}"
