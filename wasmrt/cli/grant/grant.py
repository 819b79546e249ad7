"""`wasmrt grant`: decide about a pending update, or change an existing grant."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities import Amendment, Capabilities, add_to_grant, asks_for_all, merge, revoke_from_grant
from wasmrt.capabilities.file import format_file, parse
from wasmrt.capabilities.sentences import diff
from wasmrt.catalog import Catalog, ToolVersion
from wasmrt.catalog.bundled import bundled_tool
from wasmrt.catalog.granted import read_granted, request_of, select_tools
from wasmrt.catalog.sources import read_capability_file
from wasmrt.catalog.trust import describe_origin, trust_changes
from wasmrt.cli.shared.consent import (
    NotGrantedError,
    ask,
    ask_to_offer,
    describe_tool,
    explain_grant,
    explain_more,
    missing_secrets,
    print_difference,
    print_missing,
    print_offer,
    print_request,
)
from wasmrt.cli.shared.options import complete_tools, json_option
from wasmrt.cli.shared.output import is_interactive, print_message, show_json
from wasmrt.core.errors import CapabilityFileError, ConfigurationError, NotInstalledError
from wasmrt.core.places import find_places
from wasmrt.runtime.stores import open_catalog


@click.command("grant")
@click.argument("name", shell_complete=complete_tools)
@click.option("--grant", type=click.Path(path_type=Path), metavar="FILE", help="Grant no more than this file allows.")
@click.option("--tool", "only", multiple=True, metavar="NAME", help="Grant only this tool, or tools like get_*.")
@click.option("--add", "added", multiple=True, metavar="WHAT", help="Add to the current grant; see below.")
@click.option("--revoke", "revoked", multiple=True, metavar="WHAT", help="Remove from the current grant.")
@click.option("--edit", is_flag=True, help="Change the current grant in your editor.")
@click.option("--offer/--no-offer", default=None, help="Only change whether the tool is offered to agents.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def grant(
    name: str,
    grant: Path | None,
    only: tuple[str, ...],
    added: tuple[str, ...],
    revoked: tuple[str, ...],
    edit: bool,
    offer: bool | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Change a tool's grant, or grant what an update requests.

    The command shows the changes first. It never grants more than the tool's capability file requests. An update is
    offered to agents if the active version is; --offer and --no-offer change that for the active version.

    WHAT is SECTION or SECTION=VALUE. The sections are those of capability files, such as http, and credentials, logins
    and tools. --add with only a SECTION grants everything that the tool requests in it.

    \b
    Examples:
      wasmrt grant search
      wasmrt grant search --grant narrower.json --yes
      wasmrt grant github --tool 'get_*'
      wasmrt grant search --add 'http=GET https://api.example.com/v1/'
      wasmrt grant search --revoke workspace=notes/ --revoke credentials
      wasmrt grant search --edit
      wasmrt grant search --no-offer
    """
    catalog = open_catalog(find_places().data)
    if bundled_tool(name) is not None and not catalog.has(name):
        raise ConfigurationError(
            f"{name} comes with wasmrt and has no grant to change",
            code="bundled",
            hint=f"wasmrt caps explain {name} shows what it may do",
        )
    if offer is not None:
        if edit or added or revoked or grant is not None or only:
            raise click.UsageError("--offer and --no-offer can only be combined with --yes and --json")
        _offer(catalog, catalog.get(name), for_agents=offer, yes=yes, as_json=as_json)
        return
    if edit and (added or revoked):
        raise click.UsageError("--edit cannot be combined with --add and --revoke")
    if edit or added or revoked:
        if grant is not None or only:
            raise click.UsageError("--grant and --tool are for updates; change the grant with --add and --revoke")
        version = catalog.get(name)
        changed = _edit(version) if edit else _amend(version, added, revoked)
        beyond = tuple(text for text in added if not asks_for_all(request_of(version), Amendment.read(text)))
        _regrant(catalog, version, changed, beyond, yes=yes, as_json=as_json)
        return
    _grant_pending(catalog, name, grant, only, yes=yes, as_json=as_json)


def _offer(catalog: Catalog, version: ToolVersion, *, for_agents: bool, yes: bool, as_json: bool) -> None:
    """Change whether the active version is offered to agents; ask for confirmation if it would be."""
    name, asks = version.name, explain_grant(read_granted(version))
    if for_agents and not version.for_agents and not yes:
        if as_json or not is_interactive():
            raise NotGrantedError(
                f"{name} was not offered to agents: a terminal is required to confirm the offer",
                hint=f"review its permissions, then run: wasmrt grant {name} --offer --yes",
                asks=asks,
            )
        print_message(describe_origin(version, version))
        print_request(describe_tool(f"{name} version {version.number}", version.description), asks)
        ask_to_offer(name)
    version = catalog.offer(version, for_agents=for_agents)
    if as_json:
        show_json(version.as_dict())
    else:
        print_offer(version.name, [version.name], version.offer)


def _amend(version: ToolVersion, added: tuple[str, ...], revoked: tuple[str, ...]) -> Capabilities:
    """Return the grant of a version with changes: the revocations are applied first, then the additions."""
    request, changed = request_of(version), read_granted(version)
    for text in revoked:
        changed = revoke_from_grant(changed, Amendment.read(text))
    for text in added:
        changed = add_to_grant(changed, request, Amendment.read(text))
    return changed


def _edit(version: ToolVersion) -> Capabilities:
    """Let the user edit the grant of a version. If the new text has errors, let the user edit it again.

    Raises:
        ConfigurationError: the file was not saved, or allows more than the tool requests.
    """
    text = format_file(read_granted(version))
    while True:
        edited = click.edit(text, extension=".json")
        if edited is None:
            raise ConfigurationError("nothing was changed: the editor saved nothing", code="unchanged")
        try:
            changed = parse(edited).capabilities
            break
        except CapabilityFileError as error:
            for place, problem in error.problems:
                print_message(f"{place}: {problem}")
            if not is_interactive() or not click.confirm("Edit it again?", default=True, err=True):
                raise
            text = edited
    beyond = diff(request_of(version), changed).widened
    if beyond:
        raise ConfigurationError(
            f"{version.name} does not request this: {beyond[0].sentence}",
            hint="a grant cannot exceed the request; install the tool with a capability file that requests it",
        )
    return merge(request_of(version), changed)


def _regrant(
    catalog: Catalog, version: ToolVersion, changed: Capabilities, beyond: tuple[str, ...], *, yes: bool, as_json: bool
) -> None:
    """Show the changes of a grant, ask for confirmation if it becomes wider, and store it.

    `beyond` lists the --add values that exceed the request, and are therefore granted only in part.
    """
    name = version.name
    changes = diff(read_granted(version), changed)
    more, less = ([change.sentence for change in side] for side in (changes.widened, changes.narrowed))
    if beyond and not changes:
        raise ConfigurationError(
            f"the capability file requests only a part of {beyond[0]:.120}, and {name} already has this part",
            hint="a grant cannot exceed the request; install the tool with a capability file that requests it",
        )
    for text in () if as_json else beyond:
        print_message(f"the capability file requests only a part of {text:.120}; only this part is granted")
    if not as_json and changes:
        new = [each for each in explain_more(read_granted(version), changed) if each not in more]
        if more:
            print_message(describe_origin(version, version))
        print_difference(f"the grant of {name} would change:", [*more, *new], [f"no longer: {each}" for each in less])
    if more and not yes:
        if as_json or not is_interactive():
            raise NotGrantedError(
                f"the grant of {name} was not changed: a terminal is required to confirm the change",
                hint="review the changes, then pass --yes",
                asks=more,
                changes=more,
            )
        ask(name, for_agents=version.for_agents)
    # A value for a granted configuration key is a change, too, although the grant allows nothing more.
    is_new = changed != read_granted(version)
    if is_new:
        version = catalog.regrant(version, format_file(changed))
    if as_json:
        show_json(version.as_dict() | changes.as_dict() | {"granted": list(explain_grant(changed))})
    elif is_new:
        print_message(f"changed the grant of {name}")
        print_offer(version.name, [version.name], version.offer)
    else:
        print_message(f"{name} already has exactly this grant")


def _grant_pending(
    catalog: Catalog, name: str, grant: Path | None, only: tuple[str, ...], *, yes: bool, as_json: bool
) -> None:
    pending = catalog.pending(name)
    if pending is None:
        raise NotInstalledError(
            f"no update of {name} awaits a grant",
            hint=f"to change the current grant, use --add, --revoke or --edit; to show it: wasmrt inspect {name}",
        )
    granted = request_of(pending)
    if grant is not None:
        granted = merge(granted, parse(read_capability_file(grant)).capabilities)
    if only:
        granted = select_tools(granted, only)
    active = catalog.get(name)
    before = read_granted(active)
    changes, asks, sentences = diff(before, granted), explain_grant(granted), explain_more(before, granted)
    new = [*trust_changes(active, pending), *(f"new: {change.sentence}" for change in changes.widened)]
    gone = [f"no longer: {change.sentence}" for change in changes.narrowed]
    if not as_json:
        title = f"{name} version {pending.number}"
        if new or gone:
            print_difference(f"{title} differs from the current version:", new, gone)
        print_message(describe_origin(pending, active))
        print_request(describe_tool(title, pending.description), asks, sentences)
    if not yes:
        if as_json or not is_interactive():
            raise NotGrantedError(
                f"{name} was granted nothing: confirming the grant requires a terminal",
                hint="review its request, then pass --yes",
                asks=asks,
                changes=new,
                new=sentences,
            )
        ask(name, for_agents=catalog.get(name).for_agents)
    version = catalog.grant(name, pending.number, format_file(granted), digest=pending.digest)
    missing = [] if version.sidecar is None else missing_secrets(parse(version.sidecar), granted=granted, tool=name)
    if as_json:
        show_json(version.as_dict() | {"missing_secrets": [secret._asdict() for secret in missing]})
        return
    print_message(f"{name} now runs version {version.number} ({version.digest[:12]})")
    print_missing(missing)
    print_offer(version.name, [version.name], version.offer)
