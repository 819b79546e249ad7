"""`wasmrt remove`: forget a tool and everything it was granted."""

from __future__ import annotations

import click

from wasmrt.cli._output import json_option, say, show_json


@click.command("remove")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a tool with all its versions and grants.

    \b
    Examples:
      wasmrt remove search
    """
    from wasmrt.catalog import Catalog, find_places

    versions = Catalog(find_places().data).remove(name)
    if as_json:
        show_json({"removed": name, "versions": [version.number for version in versions]})
    else:
        say(f"removed {name} ({len(versions)} version{'s' * (len(versions) != 1)})")
