"""The page of the installed tools, with their grants, whose entries can be revoked."""

from __future__ import annotations

from pathlib import Path

from wasmrt.capabilities import Amendment, Capabilities, make_amendment, revoke_from_grant
from wasmrt.capabilities.file import format_file
from wasmrt.capabilities.sentences import diff, explain
from wasmrt.catalog import Catalog, Listed, ToolVersion
from wasmrt.catalog.granted import read_granted, request_of
from wasmrt.core.errors import WasmrtError
from wasmrt.interop.pages._html import (
    Frame,
    Html,
    join_html,
    make_facts,
    make_hidden_field,
    quote_text,
    show_alert,
    tag,
)
from wasmrt.interop.web import Response
from wasmrt.runtime.stores import open_catalog

_MAX_TOOLS = 200
_MAX_ENTRIES = 100
_MAX_DESCRIPTION_CHARS = 400


def grants_page(frame: Frame, data: Path, *, problem: Html | None = None, status: int = 200) -> Response:
    """Return the page of the installed tools, their grants, and updates that wait for a grant."""
    catalog = open_catalog(data)
    tools = catalog.tools()
    more = len(tools) - _MAX_TOOLS
    return frame.page(
        "Grants",
        problem,
        tag("p", "A tool may use only the access that its capability file requests and you granted."),
        *(_show_tool(frame, catalog, tool) for tool in tools[:_MAX_TOOLS]),
        None if tools else tag("p", "No tools are installed. The tools that come with wasmrt need no grants."),
        tag("p", f"{more:,} more tools are not shown; wasmrt list shows all.") if more > 0 else None,
        section="grants",
        status=status,
    )


def revoke_entry(data: Path, name: str, entry: str) -> None:
    """Remove one entry from the grant of a tool, as `wasmrt grant --revoke` does.

    Raises:
        WasmrtError: the tool is not installed, the grant has no such entry, or the grant has changed.
    """
    catalog = open_catalog(data)
    version = catalog.get(name)
    changed = revoke_from_grant(read_granted(version), Amendment.read(entry))
    catalog.regrant(version, format_file(changed))


def _show_tool(frame: Frame, catalog: Catalog, listed: Listed) -> Html:
    title = f"tool-{listed.number}-{listed.name}"
    try:
        version = catalog.get(listed.name)
        shown = join_html(_show_version(version), _show_entries(frame, listed.name, read_granted(version)))
        waits = _show_pending(catalog, listed) if listed.pending is not None else None
    except WasmrtError as error:  # one unreadable tool must not hide the others
        shown, waits = show_alert(error), None
    return tag(
        "article",
        tag("h2", quote_text(listed.name), id=title, class_="what"),
        shown,
        waits,
        aria_labelledby=title,
        class_="card",
    )


def _show_version(version: ToolVersion) -> Html:
    text = version.description
    cut = f" ... {len(text) - _MAX_DESCRIPTION_CHARS:,} more characters"
    said = text if len(text) <= _MAX_DESCRIPTION_CHARS else text[:_MAX_DESCRIPTION_CHARS] + cut
    return join_html(
        make_facts(
            ("Says of itself", quote_text(said) if said else None),
            ("Version", f"{version.number}, {version.digest[:12]}"),
            ("From", quote_text(version.origin) if version.origin else None),
        ),
        tag("h3", "Its grant"),
        _show_sentences(explain(read_granted(version))),
    )


def _show_entries(frame: Frame, name: str, granted: Capabilities) -> Html | None:
    """Return a row with a button for each entry of a grant."""
    entries = [str(make_amendment(addition)) for part in granted.parts for addition in part.additions()][:_MAX_ENTRIES]
    if not entries:
        return None
    rows = (tag("li", tag("span", quote_text(entry)), _revoke_form(frame, name, entry)) for entry in entries)
    return tag("details", tag("summary", f"Revoke ({len(entries)})"), tag("ul", *rows, class_="list"))


def _revoke_form(frame: Frame, name: str, entry: str) -> Html:
    button = tag("button", "Revoke", type="submit", aria_label=f"Revoke {entry} of {name}")
    return frame.form(f"grants/{name}", make_hidden_field("entry", entry), button)


def _show_pending(catalog: Catalog, listed: Listed) -> Html | None:
    pending = catalog.pending(listed.name)
    if pending is None:
        return None
    new = diff(read_granted(catalog.get(listed.name)), request_of(pending)).widened
    return join_html(
        tag("h3", f"Version {pending.number} waits for a grant"),
        tag("p", "It requests more access:") if new else None,
        _show_sentences(tuple(change.sentence for change in new)) if new else None,
        tag("p", "To decide: ", tag("code", quote_text(f"wasmrt grant {listed.name}"))),
    )


def _show_sentences(sentences: tuple[str, ...]) -> Html:
    return tag("ul", *(tag("li", quote_text(each)) for each in sentences))
