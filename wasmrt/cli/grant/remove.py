"""`wasmrt remove`: forget a tool and everything it was granted."""

from __future__ import annotations

import click

from wasmrt.catalog import Catalog
from wasmrt.catalog.removal import check_removable
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_json
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.places import find_places


@click.command("remove")
@click.argument("name", shell_complete=complete_tools)
@click.option("--yes", is_flag=True, help="Remove it without being asked: for scripts.")
@json_option
def remove(name: str, yes: bool, as_json: bool) -> None:
    """Remove a tool with all its versions and grants.

    It asks first; without a terminal, or with --json, nothing is removed unless --yes is given. Secrets stay.

    \b
    Examples:
      wasmrt remove search
      wasmrt remove search --yes --json
    """
    catalog = Catalog(find_places().data)
    check_removable(catalog, name)
    if not yes:
        _ask(name, len(catalog.versions(name)), may_ask=is_interactive() and not as_json)
    versions = catalog.remove(name)
    if as_json:
        show_json({"removed": name, "versions": [version.number for version in versions]})
    else:
        print_message(f"removed {name} ({_counted(len(versions))})")


def _ask(name: str, count: int, *, may_ask: bool) -> None:
    if not may_ask:
        hint = f"say so if it is meant: wasmrt remove {name} --yes"
        raise ConfigurationError(f"{name} was not removed: nobody is here to ask", code="not-confirmed", hint=hint)
    if not click.confirm(f"Remove {name} with its {_counted(count)} and what it was granted?", err=True):
        raise ConfigurationError(f"{name} was not removed", code="not-confirmed")


def _counted(versions: int) -> str:
    return f"{versions} version{'s' * (versions != 1)}"
