"""Read-only pages: receipts, grants and data flows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from wasmrt.agent.flows import FlowMap, picture
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.catalog import Catalog, Listed, ToolVersion
from wasmrt.catalog.granted import granted_to, request_of
from wasmrt.core.counts import format_counted
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.interop.pages._html import Frame, Html, Part, alert, drawing, facts, foreign, table, tag, together
from wasmrt.interop.web import Response
from wasmrt.runtime.audit import existing_keys
from wasmrt.runtime.audit.reading import Filter, Record, find_receipt, last_receipts
from wasmrt.runtime.audit.report import HEADER, describe_receipt, format_row, parse_moment
from wasmrt.runtime.audit.verify import ChainHead, Verification, chain_head, verify

_COUNTS = ("20", "100", "500")
_FIELDS = (
    ("tool", "Tool"),
    ("user", "User"),
    ("trace", "Session"),
    ("outcome", "Outcome (ok, failed, or a code)"),
    ("since", "Ended since (2h, 7d, or 2026-01-31T12:00 UTC)"),
)


def receipts_page(frame: Frame, folder: Path, query: dict[str, str]) -> Response:
    """Return the page of the receipts that match a query, newest first."""
    problem, records = None, list[Record]()
    try:
        records = last_receipts(folder, _count(query), _filter(query))[::-1]
    except WasmrtError as error:
        problem = alert(error)
    return frame.page(
        "Receipts",
        problem,
        _filter_form(frame, query),
        _receipt_table(frame, records),
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
    lines = tag("ul", *(tag("li", foreign(line)) for line in describe_receipt(record)))
    back = tag("p", tag("a", "Back to the receipts", href=f"{frame.root}receipts"))
    return frame.page("One receipt", lines, back, section="receipts")


def verification_page(frame: Frame, folder: Path, key: Path, form: dict[str, str]) -> Response:
    """Verify the chain, and return the page with the result."""
    found, problem, noted = None, None, None
    try:
        expected = ChainHead.parse(form["head"].strip()) if form.get("head", "").strip() else None
        keys = existing_keys(key)
        found = verify(folder, keys, expected=expected, first=_segment(form.get("from", "").strip() or "1"))
        noted = chain_head(folder, keys)
    except WasmrtError as error:
        problem = alert(error)
    return frame.page(
        "Check of the receipts",
        problem,
        tag("div", *_result(found), role="status") if found is not None else None,
        tag("p", "Head of the chain, to store elsewhere: ", tag("code", foreign(str(noted))))
        if noted is not None
        else None,
        _verify_form(frame, form),
        tag("p", tag("a", "Back to the receipts", href=f"{frame.root}receipts")),
        section="receipts",
        status=200 if problem is None else 422,
    )


def _result(found: Verification) -> Iterator[Html]:
    if found.broken is not None:
        where = found.broken.file + (f", line {found.broken.line}" if found.broken.line else "")
        told = together(foreign(where), f": {found.broken.kind}: ", foreign(found.broken.message))
        yield tag("p", tag("strong", "The chain is broken: "), told, class_="alert")
        yield tag("p", f"{found.records:,} records before it hold.")
    elif not found.segments:
        yield tag("p", "There are no receipts.")
    else:
        size = f"{format_counted(found.records, 'record')} in {format_counted(found.segments, 'segment')}."
        yield tag("p", tag("strong", "The chain holds: "), size)
    for note in found.notes:
        yield tag("p", "Note: ", foreign(note))


def _filter(query: dict[str, str]) -> Filter:
    given = {name: query.get(name, "").strip() or None for name, _ in _FIELDS}
    since = given.pop("since")
    return Filter(**given, since_ms=None if since is None else parse_moment(since))


def _count(query: dict[str, str]) -> int:
    chosen = query.get("count", _COUNTS[0])
    if chosen not in _COUNTS:
        raise ConfigurationError(f"{chosen!r:.20} is not a number of receipts", hint=f"one of {', '.join(_COUNTS)}")
    return int(chosen)


def _segment(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12 and int(text) >= 1):
        raise ConfigurationError(f"{text!r:.20} is not a segment number", hint="segments are numbered from 1")
    return int(text)


def _filter_form(frame: Frame, query: dict[str, str]) -> Html:
    fields = (_field(name, label, query) for name, label in _FIELDS)
    chosen = query.get("count", _COUNTS[0])
    options = (tag("option", count, value=count, selected=count == chosen) for count in _COUNTS)
    count = tag("p", tag("label", "At most", for_="count"), tag("select", *options, id="count", name="count"))
    button = tag("p", tag("button", "Show", type="submit"))
    return tag("form", *fields, count, button, method="get", action=f"{frame.root}receipts", class_="filter")


def _verify_form(frame: Frame, form: dict[str, str]) -> Html:
    return frame.form(
        "verify",
        _field("head", "A stored head (optional)", form),
        _field("from", "First segment that is present (optional)", form),
        tag("p", tag("button", "Check", type="submit")),
        class_="filter",
    )


def _field(name: str, label: str, values: dict[str, str]) -> Html:
    box = tag("input", type="text", id=name, name=name, value=values.get(name), autocomplete="off", spellcheck="false")
    return tag("p", tag("label", label, for_=name), box)


def _receipt_table(frame: Frame, records: list[Record]) -> Html:
    if not records:
        return tag("p", "No receipts.", role="status")
    rows: list[list[Part]] = []
    for record in records:
        *cells, call = format_row(record)
        link = tag("a", foreign(call), href=f"{frame.root}receipts/{quote(call, safe='')}")
        rows.append([link, *map(foreign, cells)])
    *names, call_name = (name.capitalize().replace("(utc)", "(UTC)") for name in HEADER)
    return table(f"{len(records)} receipts, newest first", (call_name, *names), rows)


_MAX_TOOLS = 200
_MAX_DESCRIPTION_CHARS = 400


def grants_page(frame: Frame, data: Path) -> Response:
    """Return the page of the installed tools, their grants, and updates that wait for a grant."""
    catalog = Catalog(data)
    tools = catalog.tools()
    more = len(tools) - _MAX_TOOLS
    return frame.page(
        "Grants",
        tag("p", "A tool may use only the access that its capability file requests and you granted."),
        *(_tool(catalog, tool) for tool in tools[:_MAX_TOOLS]),
        None if tools else tag("p", "No tools are installed. The tools that come with wasmrt need no grants."),
        tag("p", f"{more:,} more tools are not shown; wasmrt list shows all.") if more > 0 else None,
        section="grants",
    )


def _tool(catalog: Catalog, listed: Listed) -> Html:
    title = f"tool-{listed.number}-{listed.name}"
    try:
        shown = _version(catalog.get(listed.name))
        waits = _pending(catalog, listed) if listed.pending is not None else None
    except WasmrtError as error:  # one unreadable tool must not hide the others
        shown, waits = alert(error), None
    return tag("article", tag("h2", foreign(listed.name), id=title), shown, waits, aria_labelledby=title, class_="card")


def _version(version: ToolVersion) -> Html:
    text = version.description
    cut = f" ... {len(text) - _MAX_DESCRIPTION_CHARS:,} more characters"
    said = text if len(text) <= _MAX_DESCRIPTION_CHARS else text[:_MAX_DESCRIPTION_CHARS] + cut
    return together(
        facts(
            ("Its description", foreign(said) if said else None),
            ("Version", f"{version.number}, {version.digest[:12]}"),
            ("From", foreign(version.origin) if version.origin else None),
        ),
        tag("h3", "Its grant"),
        _sentences(explain(granted_to(version))),
    )


def _pending(catalog: Catalog, listed: Listed) -> Html | None:
    pending = catalog.pending(listed.name)
    if pending is None:
        return None
    new = diff(granted_to(catalog.get(listed.name)), request_of(pending)).widened
    return together(
        tag("h3", f"Version {pending.number} waits for a grant"),
        tag("p", "It requests more access:") if new else None,
        _sentences(tuple(change.sentence for change in new)) if new else None,
        tag("p", "To decide: ", tag("code", foreign(f"wasmrt grant {listed.name}"))),
    )


def _sentences(sentences: tuple[str, ...]) -> Html:
    return tag("ul", *(tag("li", foreign(each)) for each in sentences))


def flows_page(frame: Frame, found: FlowMap | None) -> Response:
    """Return the page with the map of data flows; None means that no tools are known here."""
    if found is None:
        told = tag("p", "No tools are known to these pages. ", tag("code", "wasmrt policy flows"), " prints the map.")
        return frame.page("Flows", told, section="flows")
    listed = [tag("li", foreign(each.sentence)) for each in found.summary()]
    changes = [tag("li", tag("code", foreign(change.line)), f" breaks {change.breaks}") for change in found.changes()]
    return frame.page(
        "Flows",
        tag("p", f"{found.count:,} open paths from private data to external destinations, by effects and grants."),
        drawing(picture(found, styled=False)),
        tag("h2", "In words"),
        tag("ul", *listed) if listed else tag("p", "There is none."),
        tag("h2", "What breaks them") if changes else None,
        tag("ul", *changes) if changes else None,
        section="flows",
    )
