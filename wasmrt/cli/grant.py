"""`wasmrt grant`: the decision that an update waits for."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities import merge
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff, explain, explain_logins
from wasmrt.cli._grant import NotGrantedError, ask, print_request
from wasmrt.cli._missing import missing_secrets, print_missing
from wasmrt.cli._options import json_option
from wasmrt.cli._output import is_interactive, print_message, show_json
from wasmrt.errors import NotInstalledError
from wasmrt.install import Catalog
from wasmrt.install.granted import granted_to, logins_of, only_tools, request_of
from wasmrt.install.sources import read_capability_file
from wasmrt.places import find_places


@click.command("grant")
@click.argument("name")
@click.option("--grant", type=click.Path(path_type=Path), metavar="FILE", help="Grant no more than this file allows.")
@click.option("--tool", "only", multiple=True, metavar="NAME", help="Grant only this tool of several, or only get_*.")
@click.option("--yes", is_flag=True, help="Grant it without being asked: for scripts.")
@json_option
def grant(name: str, grant: Path | None, only: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Grant a pending update what it asks for, and start using it.

    \b
    Examples:
      wasmrt grant search
      wasmrt grant search --grant narrower.json --yes
      wasmrt grant github --tool 'get_*'
    """
    catalog = Catalog(find_places().data)
    pending = catalog.pending(name)
    if pending is None:
        raise NotInstalledError(f"no update of {name} waits for a grant", hint="wasmrt list shows which do")
    granted = request_of(pending)
    if grant is not None:
        granted = merge(granted, parse(read_capability_file(grant)).capabilities)
    if only:
        granted = only_tools(granted, only)
    new = [f"new: {change.sentence}" for change in diff(granted_to(catalog.get(name)), granted).widened]
    asks = (*explain(granted), *explain_logins(logins_of(pending.sidecar)))
    if not as_json:
        print_request(f"{name} version {pending.number}", [*asks, *new])
    if not yes:
        if as_json or not is_interactive():
            raise NotGrantedError(
                f"nobody is here to grant {name} anything",
                hint="read what it asks for, then pass --yes",
                asks=asks,
                changes=new,
            )
        ask(name)
    version = catalog.grant(name, pending.number, format_file(granted), digest=pending.digest)
    missing = [] if version.sidecar is None else missing_secrets(parse(version.sidecar), granted=granted, tool=name)
    if as_json:
        show_json(version.as_dict() | {"missing_secrets": [secret._asdict() for secret in missing]})
        return
    print_message(f"{name} is version {version.number} now ({version.digest[:12]})")
    print_missing(missing)
