"""The page of flows: which tools together could send private text out at a stranger's word, drawn and in words."""

from __future__ import annotations

from wasmrt.flows import FlowMap, picture
from wasmrt.pages._frame import Frame
from wasmrt.pages._html import drawing, foreign, tag
from wasmrt.web import Response

_MAX_PATHS = 50


def flows_page(frame: Frame, found: FlowMap | None) -> Response:
    """Return the page of a map of flows; None where these pages know no tools."""
    if found is None:
        told = tag("p", "These pages know no tools. ", tag("code", "wasmrt policy flows"), " draws them.")
        return frame.page("Flows", told, section="flows")
    paths = sorted(found.paths(), key=lambda path: not path.is_open)
    more = len(paths) - _MAX_PATHS
    listed = (tag("li", foreign(path.sentence)) for path in paths[:_MAX_PATHS])
    changes = [tag("li", tag("code", foreign(change.line)), f" breaks {change.breaks}") for change in found.changes()]
    return frame.page(
        "Flows",
        tag("p", f"{found.count:,} open paths from private text to the outside, by effects and grants alone."),
        drawing(picture(found, styled=False)),
        tag("h2", "In words"),
        tag("ul", *listed) if paths else tag("p", "There is none."),
        tag("p", f"{more:,} more are left out; wasmrt policy flows shows all.") if more > 0 else None,
        tag("h2", "What breaks them") if changes else None,
        tag("ul", *changes) if changes else None,
        section="flows",
    )
