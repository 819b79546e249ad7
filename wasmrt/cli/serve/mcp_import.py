"""`wasmrt mcp import`: add the servers of another client's file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import click

from wasmrt.cli.serve.mcp_adding import add_server, prepare_server
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_json_list
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import SecretError, WasmrtError
from wasmrt.core.places import find_places
from wasmrt.egress.secrets import DEFAULT_USER, Secret, SecretsStore, replace_secret
from wasmrt.interop.mcp.client import McpServerConfig, Trust, load_servers
from wasmrt.interop.mcp.foreign_file import ForeignServer, read_foreign_file


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace existing servers of the same names.")
@click.option("--offer/--no-offer", default=None,
              help="Offer their tools to agents, or only allow them on the command line (default: offer).")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@click.pass_context
def import_(ctx: click.Context, file: Path, replace: bool, offer: bool | None, yes: bool, as_json: bool) -> None:
    """Add the servers of a claude_desktop_config.json or mcp.json, with the same questions as `wasmrt mcp add`.

    Values that look like secrets are stored as secrets. Servers that were imported before are not changed. The exit
    code is 1 if a server could not be added.

    \b
    Examples:
      wasmrt mcp import claude_desktop_config.json
      wasmrt mcp import .vscode/mcp.json --json
    """
    entries, notes = read_foreign_file(file)
    for note in notes:
        print_message(f"note: {note}")
    results = [_import(entry, replace=replace, offer=offer, yes=yes, as_json=as_json) for entry in entries]
    if as_json:
        show_json_list(results)
    if any(result["state"] == "refused" for result in results):
        ctx.exit(FAILED)


def _import(entry: ForeignServer, *, replace: bool, offer: bool | None, yes: bool, as_json: bool) -> dict[str, Any]:
    """Add one server, and report the result."""
    result: dict[str, Any] = {"name": entry.name, "state": "refused", "problem": None, "hint": None, "tools": 0}
    result |= {"notes": entry.notes, "secrets": sorted(entry.secrets)}
    for note in entry.notes:
        print_message(f"note: {entry.name}: {note}")
    if entry.server is None and not entry.problem:
        return result | {"state": "disabled"}
    try:
        if entry.server is None:
            raise WasmrtError(entry.problem, hint=entry.hint)
        if _is_unchanged(entry.server):
            print_message(f"{entry.name} was added before, and is unchanged")
            return result | {"state": "unchanged"}
        store = open_secrets()
        _check_inputs(entry, store)
        with _store_secrets(entry, store):
            added = add_server(entry.server, replace=replace, offer=offer, yes=yes, as_json=as_json)
    except WasmrtError as error:
        print_message(f"{entry.name} was not added: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return result | {"problem": error.message, "hint": error.hint}
    return result | {"state": "added", "tools": len(added["tools"])}


def _is_unchanged(server: McpServerConfig) -> bool:
    """Return whether a server with these settings exists. It may have further access that the user granted."""
    known = load_servers(find_places())[0].get(server.name)
    if known is None:
        return False
    command = known.command if known.package is None else known.package.runner
    kept = with_changes(known, command=command, package=None, trust=Trust.COMMUNITY, enabled=True)
    given = prepare_server(server)
    granted = {"read": known.read, "write": known.write, "network": known.network, "hosts": known.hosts}
    own = {"description": known.description, "oauth": known.oauth, "timeout_seconds": known.timeout_seconds}
    return with_changes(given, **granted, **own) == kept  # type: ignore[arg-type]  # each value has its field's type


def _check_inputs(entry: ForeignServer, store: SecretsStore) -> None:
    for secret, asked in entry.inputs.items():
        if not _is_set(store, secret):
            raise WasmrtError(
                f"the value of the input {asked!r:.60} is missing: the other client asks its user for it",
                hint=f"set the value, and import the file again; {store.hint_to_set(DEFAULT_USER, secret)}",
            )


def _is_set(store: SecretsStore, secret: str) -> bool:
    try:
        return bool(store.get(DEFAULT_USER, secret))
    except SecretError:
        return False


@contextmanager
def _store_secrets(entry: ForeignServer, store: SecretsStore) -> Iterator[None]:
    """Store the secrets of a server. If the block fails, secrets that were not set before are removed again."""
    new = [secret for secret in entry.secrets if not _is_set(store, secret)]
    for secret, value in entry.secrets.items():
        replace_secret(store, DEFAULT_USER, secret, Secret(value))
    try:
        yield
    except BaseException:
        for secret in new:
            store.remove(DEFAULT_USER, secret)
        raise
    for secret in entry.secrets:
        print_message(f"{secret} is stored as a secret; delete its value from the file")
