"""`wasmrt update`: install the current content of the sources of installed tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wasmrt.catalog import ToolVersion, TypedSource
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.installer import Installer, InstallPlan
from wasmrt.catalog.lock import LOCK_FILE, lock_entry, read_lock, write_lock
from wasmrt.cli.grant.install import make_absolute, open_installer, open_source
from wasmrt.cli.grant.plans import apply_plan
from wasmrt.cli.shared.consent import explain_more, print_difference
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.core.errors import ConfigurationError, GrantRequiredError
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("update")
@click.argument("name", required=False, shell_complete=complete_tools)
@click.option("--check", is_flag=True, help="Only show what would change.")
@click.option("--yes", is_flag=True, help="Grant the requests without asking for confirmation.")
@json_option
def update(name: str | None, check: bool, yes: bool, as_json: bool) -> None:
    """Update one tool or all tools from the sources that were typed.

    The command shows the new digest, the signer and the new sentences of the grant. An update that requests more, or
    deserves less trust, waits for you, as with wasmrt install. Tools in wasmrt.lock are also updated there.

    \b
    Examples:
      wasmrt update --check
      wasmrt update search --yes
    """
    if name is not None and ("/" in name or name.endswith((".wasm", ".zip", ".gz"))):
        message = f"expected the name of an installed tool, got {name!r}"
        raise ConfigurationError(message, hint=f"to install a newer file, run: wasmrt install {name}")
    catalog, installer = open_catalog(find_places().data), open_installer()
    versions = [catalog.get(each) for each in ([name] if name else [tool.name for tool in catalog.tools()])]
    if name and not versions[0].provenance.source:
        raise ConfigurationError(f"the source of {name} is not known", hint="install it again: wasmrt install SOURCE")
    reports, waiting = [], None
    for version in (each for each in versions if each.provenance.source):
        plan = _plan(installer, version)
        if check:
            reports.append(_show(plan, version, as_json=as_json))
            continue
        try:
            report = apply_plan(installer, plan, yes=yes, offer=None, is_named=True, as_json=as_json)
        except GrantRequiredError as error:
            waiting = waiting or error
            continue
        reports.append(report)
        _update_lock(catalog.get(version.name))
    if waiting is not None:
        raise waiting
    if as_json:
        show_json(reports)
    elif not reports:
        print_message("no installed tool has a source to update it from")


def _plan(installer: Installer, version: ToolVersion) -> InstallPlan:
    where = version.provenance
    typed = TypedSource(where.source, where.capabilities, where.signature)
    return installer.plan(open_source(typed), name=version.name, typed=typed)


def _show(plan: InstallPlan, version: ToolVersion, *, as_json: bool) -> dict[str, Any]:
    new = explain_more(read_granted(version), plan.grant)
    signer = plan.new.provenance.signer
    report = {
        "name": version.name,
        "unchanged": plan.is_installed,
        "digest": plan.new.provenance.digest,
        "signer": None if signer is None else signer.as_dict(),
        "changes": list(plan.changes),
        "new": list(new),
    }
    if not as_json:
        print_message(f"{version.name} is up to date" if plan.is_installed else plan.summary)
        if plan.changes:
            changes = [*plan.changes[: plan.more], *(f"new: {each}" for each in new)]
            print_difference(f"  differs from version {version.number}:", changes, plan.changes[plan.more :])
    return report


def _update_lock(version: ToolVersion) -> None:
    """Update the entry of a tool in the lock file of the working directory, if it has one with the same source."""
    path = Path(LOCK_FILE)
    for entry in read_lock(path) if path.exists() else ():
        typed = TypedSource(entry.source, entry.capabilities, entry.signature)
        if entry.name == version.name and make_absolute(typed).source == version.provenance.source:
            write_lock(path, [lock_entry(version, *typed)])
