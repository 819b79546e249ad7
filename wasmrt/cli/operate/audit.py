"""`wasmrt audit`: show, verify, export and summarize receipts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from getpass import getuser
from pathlib import Path

import click

from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json, show_json_list, show_section
from wasmrt.cli.shared.receipts import filter_options, folder_option, installation_keys, receipt_writer, receipts_folder
from wasmrt.core.counts import format_counted
from wasmrt.core.errors import ConfigurationError, NotInstalledError
from wasmrt.core.setting_commands import set_command
from wasmrt.runtime.audit.reading import Filter, Record, as_csv, find_receipt, last_receipts, read_receipts
from wasmrt.runtime.audit.report import HEADER, Report, describe_receipt, format_row, format_time, report_on
from wasmrt.runtime.audit.verify import (
    BreakKind,
    Verification,
    chain_heads,
    format_heads,
    parse_first_segments,
    parse_heads,
)
from wasmrt.runtime.audit.verify import verify as verify_chains


@click.group(cls=CommandGroup)
def audit() -> None:
    """Show and verify the receipts of calls.

    \b
    Examples:
      wasmrt audit tail
      wasmrt audit verify
    """


@audit.command("show")
@click.argument("call_id", metavar="[CALL_ID]", required=False)
@filter_options
@folder_option
@json_option
def show_receipts(wanted: Filter, call_id: str | None, folder: Path | None, as_json: bool) -> None:
    """Show receipts, oldest first, or all details of one receipt.

    \b
    Examples:
      wasmrt audit show --tool search --since 2h
      wasmrt audit show --outcome failed --json
    """
    place = receipts_folder(folder)
    if call_id is None:
        _list_receipts(read_receipts(place, wanted), as_json=as_json)
        return
    record = find_receipt(place, call_id)
    if record is None:
        raise NotInstalledError(f"no receipt of a call {call_id!r:.80}", hint="to list calls, run: wasmrt audit tail")
    if as_json:
        show_json(record)
    else:
        show_section(call_id, describe_receipt(record))


@audit.command("tail")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of receipts."
)
@filter_options
@folder_option
@json_option
def tail(wanted: Filter, lines: int, folder: Path | None, as_json: bool) -> None:
    """Show the newest receipts.

    Example: wasmrt audit tail -n 5 --user ann
    """
    _list_receipts(last_receipts(receipts_folder(folder), lines, wanted), as_json=as_json)


def _list_receipts(records: Iterable[Record], *, as_json: bool) -> None:
    if as_json:
        show_json_list(records)
        return
    rows = [format_row(record) for record in records]
    if not rows:
        print_message("no receipts")
        return
    show_columns(HEADER, rows)


@audit.command("verify")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--head", metavar="HEAD", help="Head printed earlier by `wasmrt advanced audit-head`, which must be in the chains."
)
@click.option(
    "--from-segment", default="1", metavar="N",
    help="First stored segment, if earlier segments were deleted; CHAIN/N for other chains: 3,1/2.",
)  # fmt: skip
@json_option
def verify(folders: tuple[Path, ...], head: str | None, from_segment: str, as_json: bool) -> int:
    """Check that no receipts were modified, removed, moved or truncated, and report the first problem of each folder.

    Each writer has a separate chain. Links between the chains show if a chain is missing or was rolled back.

    Exit code 0: all chains are intact; 1: they are not.

    \b
    Examples:
      wasmrt audit verify
      wasmrt audit verify --head 1042:6f0c...,1/77:ab12... --json
      wasmrt audit verify collected/host-1 collected/host-2
    """
    if len(folders) > 1 and head is not None:
        raise ConfigurationError(
            "--head can only be combined with one folder", hint="verify each folder with its own head"
        )
    expected, first = () if head is None else parse_heads(head), parse_first_segments(from_segment)
    keys, results = installation_keys(), dict[Path, Verification]()
    for folder in folders or (receipts_folder(None),):
        results[folder] = found = verify_chains(folder, keys, expected=expected, first=first)
        if found.broken is None and not found.segments:
            raise NotInstalledError(f"there are no receipts in {folder}", hint="pass the folder of the receipts")
    intact = all(found.broken is None for found in results.values())
    if as_json:
        told = [{"folder": str(folder)} | found.as_dict() for folder, found in results.items()]
        show_json({"ok": intact, "folders": told})
    else:
        for folder, found in results.items():
            _print_verification(f"{folder}: " if len(results) > 1 else "", found)
    return 0 if intact else FAILED


def _print_verification(prefix: str, found: Verification) -> None:
    if found.broken is None:
        of_chains = f" of {found.chains} chains" if found.chains > 1 else ""
        records, segments = format_counted(found.records, "record"), format_counted(found.segments, "segment")
        show(f"{prefix}intact: {records} in {segments}{of_chains}")
    else:
        where = found.broken.file + (f", line {found.broken.line}" if found.broken.line else "")
        show(f"{prefix}broken: {where}: {found.broken.kind}: {found.broken.message}")
        if found.broken.kind is BreakKind.POSSIBLE_CUT:
            cut = found.cuts[0]
            option = f" --chain {cut.chain}" if cut.chain else ""
            print_message(f"when you know the reason, run: wasmrt audit acknowledge {cut.segment}{option}")
        elif found.chains < 2:
            print_message(f"{found.records:,} records before it are intact")
    for note in found.notes:
        print_message(f"note: {note}")


@audit.command("acknowledge")
@click.argument("segment", type=click.IntRange(min=1))
@click.option("--chain", type=click.IntRange(min=0), default=0, metavar="N", help="Chain of the segment. Default: 0.")
@click.option("--note", default="", metavar="TEXT", help="What you found out, for readers of the receipts.")
@json_option
def acknowledge(segment: int, chain: int, note: str, as_json: bool) -> None:
    """Record that you know of a possible cut before SEGMENT, after you looked into it; then verify accepts it.

    Example: wasmrt audit acknowledge 3 --note "the disk was full on Monday"
    """
    cuts = verify_chains(receipts_folder(None), installation_keys()).cuts
    cut = next((cut for cut in cuts if (cut.chain, cut.segment) == (chain, segment)), None)
    if cut is None:
        hint = "to list possible cuts, run: wasmrt audit verify"
        raise NotInstalledError(f"the receipts show no possible cut before segment {segment}", hint=hint)
    with receipt_writer() as writer:
        if writer is None:
            raise ConfigurationError("receipts are disabled", hint=set_command("audit.enabled", True))
        writer.acknowledge(cut, getuser(), note)
    show_json({"acknowledged": segment, "chain": chain}) if as_json else show(
        f"recorded: you know of the possible cut before segment {segment}"
    )


@audit.command("head", hidden=True)
@folder_option
@json_option
def head(folder: Path | None, as_json: bool) -> None:
    """Print the heads of all chains. Store them where an attacker who can change the receipts cannot change them.

    Example: wasmrt advanced audit-head
    """
    found = chain_heads(receipts_folder(folder), installation_keys())
    if not found:
        hint = "to check the receipts, run: wasmrt audit verify"
        raise NotInstalledError("this installation has not written a head", hint=hint)
    text = format_heads(found)
    show_json({"head": text, "chains": [each._asdict() for each in found]}) if as_json else show(text)


@audit.command("export")
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True,
    help="jsonl: one JSON object per line; csv: a table for spreadsheets.",
)  # fmt: skip
@filter_options
@folder_option
@json_option
def export(wanted: Filter, form: str, folder: Path | None, as_json: bool) -> None:
    """Write receipts to standard output. The exported copy is not a chain and cannot be verified.

    Example: wasmrt audit export --format csv --since 30d > receipts.csv
    """
    records = read_receipts(receipts_folder(folder), wanted)
    if as_json:
        show_json_list(records)
        return
    for line in as_csv(records) if form == "csv" else map(json.dumps, records):  # ASCII without control characters
        show(line)


@audit.command("report")
@filter_options
@folder_option
@json_option
def report(wanted: Filter, folder: Path | None, as_json: bool) -> None:
    """Summarize calls, failures, denials and approvals.

    Example: wasmrt audit report --since 7d
    """
    found = report_on(read_receipts(receipts_folder(folder), wanted))
    show_json(found.as_dict()) if as_json else _print_report(found)


def _print_report(found: Report) -> None:
    if not found.calls:
        print_message("no receipts")
        return
    show(
        f"{format_counted(found.calls, 'call')} by {format_counted(found.users, 'user')} "
        f"from {format_time(found.first_ms)} "
        f"to {format_time(found.last_ms)} (UTC), {found.failed:,} failed"
    )
    show_section("tools", (
        f"{tool.tool}: {format_counted(tool.calls, 'call')}, {tool.failed:,} failed, {tool.seconds:.1f} s, "
        f"{format_counted(tool.http_requests, 'HTTP request')}"
        for tool in found.tools
    ))  # fmt: skip
    for title, counts in (
        ("failures", found.outcomes),
        ("denied", found.denied),
        ("approvals", found.approvals),
        ("users", found.top_users),
    ):
        show_section(title, (f"{name}: {count:,}" for name, count in counts))
