"""The page of grants: what each installed tool may do, in sentences; an operator's own services are not in them."""

from __future__ import annotations

from pathlib import Path

from wasmrt.capabilities.sentences import diff, explain
from wasmrt.catalog import Catalog, Listed, ToolVersion
from wasmrt.catalog.granted import granted_to, request_of
from wasmrt.core.errors import WasmrtError
from wasmrt.interop.pages._frame import Frame, alert, facts
from wasmrt.interop.pages._html import Html, foreign, tag, together
from wasmrt.interop.web import Response

_MAX_TOOLS = 200
_MAX_DESCRIPTION_CHARS = 400


def grants_page(frame: Frame, data: Path) -> Response:
    """Return the installed tools with what was granted to each, and the updates that wait for a grant."""
    catalog = Catalog(data)
    tools = catalog.tools()
    more = len(tools) - _MAX_TOOLS
    return frame.page(
        "Grants",
        tag("p", "A tool may do what its capability file asks for and you granted, and nothing else."),
        *(_tool(catalog, tool) for tool in tools[:_MAX_TOOLS]),
        None if tools else tag("p", "Nothing is installed. The tools that come with wasmrt have no grants."),
        tag("p", f"{more:,} more tools are left out; wasmrt list shows all.") if more > 0 else None,
        section="grants",
    )


def _tool(catalog: Catalog, listed: Listed) -> Html:
    title = f"tool-{listed.number}-{listed.name}"
    try:
        shown = _version(catalog.get(listed.name))
        waits = _pending(catalog, listed) if listed.pending is not None else None
    except WasmrtError as error:  # one that cannot be read takes the others from nobody
        shown, waits = alert(error), None
    return tag("article", tag("h2", foreign(listed.name), id=title), shown, waits, aria_labelledby=title, class_="card")


def _version(version: ToolVersion) -> Html:
    text = version.description
    cut = f" ... {len(text) - _MAX_DESCRIPTION_CHARS:,} more characters"
    said = text if len(text) <= _MAX_DESCRIPTION_CHARS else text[:_MAX_DESCRIPTION_CHARS] + cut
    return together(
        facts(
            ("It says of itself", foreign(said) if said else None),
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
        tag("p", "It asks for more:") if new else None,
        _sentences(tuple(change.sentence for change in new)) if new else None,
        tag("p", "To decide: ", tag("code", foreign(f"wasmrt grant {listed.name}"))),
    )


def _sentences(sentences: tuple[str, ...]) -> Html:
    return tag("ul", *(tag("li", foreign(each)) for each in sentences))
