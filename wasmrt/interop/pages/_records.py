"""The pages of receipts, and of the verification of their chain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from wasmrt.core.counts import format_counted
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.interop.pages._html import Frame, Html, Part, join_html, quote_text, show_alert, table, tag
from wasmrt.interop.web import Response
from wasmrt.runtime.audit import existing_keys
from wasmrt.runtime.audit.reading import Filter, Record, find_receipt, last_receipts
from wasmrt.runtime.audit.report import HEADER, describe_receipt, format_row, parse_moment
from wasmrt.runtime.audit.verify import (
    Verification,
    chain_heads,
    format_heads,
    parse_first_segments,
    parse_heads,
    verify,
)

_COUNTS = ("20", "100", "500")
_FIELDS = (
    ("text", "Tool, user, session, host, path or call"),
    ("outcome", "Outcome (ok, failed, or a code)"),
    ("since", "Ended since (2h, 7d, or 2026-01-31T12:00 UTC)"),
)


def receipts_page(frame: Frame, folder: Path, query: dict[str, str]) -> Response:
    """Return the page of the receipts that match a query, newest first."""
    problem, records = None, list[Record]()
    try:
        records = last_receipts(folder, _count(query), _filter(query))[::-1]
    except WasmrtError as error:
        problem = show_alert(error)
    return frame.page(
        "Receipts",
        problem,
        _filter_form(frame, query),
        _show_receipts(frame, records),
        tag("h2", "Check the chain"),
        tag("p", "Detects records that were modified, removed, moved or truncated."),
        _verify_form(frame, {}),
        section="receipts",
        status=200 if problem is None else 422,
    )


def receipt_page(frame: Frame, folder: Path, call_id: str) -> Response | None:
    """Return the page of one receipt, or None if there is no such receipt."""
    record = find_receipt(folder, call_id)
    if record is None:
        return None
    lines = tag("ul", *(tag("li", quote_text(line)) for line in describe_receipt(record)))
    back = tag("p", tag("a", "Back to the receipts", href=f"{frame.root}receipts"))
    return frame.page("One receipt", lines, back, section="receipts")


def verification_page(frame: Frame, folder: Path, key: Path, form: dict[str, str]) -> Response:
    """Verify the chain, and return the page with the result."""
    found, problem, noted = None, None, None
    try:
        expected = parse_heads(form["head"].strip()) if form.get("head", "").strip() else ()
        keys = existing_keys(key)
        found = verify(folder, keys, expected=expected, first=parse_first_segments(form.get("from", "").strip() or "1"))
        noted = format_heads(chain_heads(folder, keys))
    except WasmrtError as error:
        problem = show_alert(error)
    return frame.page(
        "Check of the receipts",
        problem,
        tag("div", *_show_result(found), role="status") if found is not None else None,
        tag("p", "Heads of the chains, to store elsewhere: ", tag("code", quote_text(noted))) if noted else None,
        _verify_form(frame, form),
        tag("p", tag("a", "Back to the receipts", href=f"{frame.root}receipts")),
        section="receipts",
        status=200 if problem is None else 422,
    )


def _show_result(found: Verification) -> Iterator[Html]:
    if found.broken is not None:
        where = found.broken.file + (f", line {found.broken.line}" if found.broken.line else "")
        told = join_html(quote_text(where), f": {found.broken.kind}: ", quote_text(found.broken.message))
        yield tag("p", tag("strong", "The chain is broken: "), told, class_="alert")
        yield tag("p", f"{found.records:,} records before it hold.")
    elif not found.segments:
        yield tag("p", "There are no receipts.")
    else:
        size = f"{format_counted(found.records, 'record')} in {format_counted(found.segments, 'segment')}."
        yield tag("p", tag("strong", "The chain holds: "), size)
    for note in found.notes:
        yield tag("p", "Note: ", quote_text(note))


def _filter(query: dict[str, str]) -> Filter:
    given = {name: query.get(name, "").strip() or None for name, _ in _FIELDS}
    since = given.pop("since")
    return Filter(**given, since_ms=None if since is None else parse_moment(since))


def _count(query: dict[str, str]) -> int:
    chosen = query.get("count", _COUNTS[0])
    if chosen not in _COUNTS:
        raise ConfigurationError(f"{chosen!r:.20} is not a number of receipts", hint=f"one of {', '.join(_COUNTS)}")
    return int(chosen)


def _filter_form(frame: Frame, query: dict[str, str]) -> Html:
    fields = (_show_field(name, label, query) for name, label in _FIELDS)
    chosen = query.get("count", _COUNTS[0])
    options = (tag("option", count, value=count, selected=count == chosen) for count in _COUNTS)
    count = tag("p", tag("label", "At most", for_="count"), tag("select", *options, id="count", name="count"))
    button = tag("p", tag("button", "Search", type="submit"))
    return tag("form", *fields, count, button, method="get", action=f"{frame.root}receipts", class_="filter")


def _verify_form(frame: Frame, form: dict[str, str]) -> Html:
    return frame.form(
        "verify",
        _show_field("head", "A stored head (optional)", form),
        _show_field("from", "First segments that are present, such as 3,1/2 (optional)", form),
        tag("p", tag("button", "Check", type="submit")),
        class_="filter",
    )


def _show_field(name: str, label: str, values: dict[str, str]) -> Html:
    box = tag("input", type="text", id=name, name=name, value=values.get(name), autocomplete="off", spellcheck="false")
    return tag("p", tag("label", label, for_=name), box)


def _show_receipts(frame: Frame, records: list[Record]) -> Html:
    if not records:
        return tag("p", "No receipts.", role="status")
    rows: list[list[Part]] = []
    for record in records:
        *cells, call = format_row(record)
        link = tag("a", quote_text(call), href=f"{frame.root}receipts/{quote(call, safe='')}")
        rows.append([link, *map(quote_text, cells)])
    *names, call_name = (name.capitalize().replace("(utc)", "(UTC)") for name in HEADER)
    return table(f"{len(records)} receipts, newest first", (call_name, *names), rows)
