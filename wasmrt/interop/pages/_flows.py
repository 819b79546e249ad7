"""The page of flows: which tools together could send private text out at a stranger's word, drawn and in words."""

from __future__ import annotations

from wasmrt.agent.flows import FlowMap, picture
from wasmrt.interop.pages._frame import Frame
from wasmrt.interop.pages._html import drawing, foreign, tag
from wasmrt.interop.web import Response


def flows_page(frame: Frame, found: FlowMap | None) -> Response:
    """Return the page of a map of flows; None where these pages know no tools."""
    if found is None:
        told = tag("p", "These pages know no tools. ", tag("code", "wasmrt policy flows"), " draws them.")
        return frame.page("Flows", told, section="flows")
    listed = [tag("li", foreign(each.sentence)) for each in found.summary()]
    changes = [tag("li", tag("code", foreign(change.line)), f" breaks {change.breaks}") for change in found.changes()]
    return frame.page(
        "Flows",
        tag("p", f"{found.count:,} open paths from private text to the outside, by effects and grants alone."),
        drawing(picture(found, styled=False)),
        tag("h2", "In words"),
        tag("ul", *listed) if listed else tag("p", "There is none."),
        tag("h2", "What breaks them") if changes else None,
        tag("ul", *changes) if changes else None,
        section="flows",
    )
