"""The page of data flows: what can leave, and the tools that can send it without approval."""

from __future__ import annotations

from collections import Counter

from wasmrt.agent.flows import FlowMap, Reach
from wasmrt.interop.pages._html import Frame, Html, join_html, make_facts, quote_text, tag
from wasmrt.interop.web import Response

_MAX_SENDERS = 20
_MAX_PHRASES = 8


def flows_page(frame: Frame, found: FlowMap | None) -> Response:
    """Return the page of the tools that can send private text; None means that no tools are known here."""
    if found is None:
        told = tag("p", "No tools are known to these pages. ", tag("code", "wasmrt policy flows"), " prints the map.")
        return frame.page("Flows", told, section="flows")
    lines = {change.tool: change.line for change in found.changes()}
    senders = [reach for reach in found.reaches if reach.tool in lines]
    asking = sum(1 for reach in found.reaches if reach.sends and reach.asks)
    more = len(senders) - _MAX_SENDERS
    return frame.page(
        "Flows",
        tag(
            "p",
            tag("strong", f"{_count(len(senders))} can send private text out without approval."),
            f" {asking} more {'asks' if asking == 1 else 'ask'} first." if asking else None,
        ),
        _leaving(found) if senders else None,
        *(_show_sender(reach, lines[reach.tool]) for reach in senders[:_MAX_SENDERS]),
        tag("p", f"{more:,} more tools are not shown; wasmrt policy flows prints all.") if more > 0 else None,
        section="flows",
    )


def _leaving(found: FlowMap) -> Html:
    """List the private texts that can be sent out, and the untrusted texts that can cause this."""
    return tag(
        "section",
        tag("h2", "What can leave"),
        _show_phrases([reach.private for reach in found.reaches if reach.private]),
        tag("h2", "Untrusted text that can cause it"),
        _show_phrases([reach.untrusted for reach in found.reaches if reach.untrusted]),
        class_="card",
    )


def _show_phrases(phrases: list[str]) -> Html:
    counted = Counter(phrases).most_common()
    rows = [tag("li", quote_text(words), f": {_count(number)}") for words, number in counted[:_MAX_PHRASES]]
    if len(counted) > _MAX_PHRASES:
        rows.append(tag("li", f"and {len(counted) - _MAX_PHRASES} more"))
    return tag("ul", *rows)


def _show_sender(reach: Reach, line: str) -> Html:
    own = [words for words in (reach.private, reach.untrusted) if words]
    return tag(
        "article",
        tag("p", tag("b", "Way out"), " ", tag("span", "does not ask", class_="tag no"), class_="kind"),
        tag("h2", quote_text(reach.tool), " ", quote_text(reach.sends), class_="what"),
        make_facts(("Also reads", join_html(*(tag("span", quote_text(words), " ") for words in own)) if own else None)),
        tag(
            "details",
            tag("summary", "Let it ask first"),
            tag("p", "Add this line to config.toml: ", tag("code", quote_text(line))),
        ),
        class_="card stop" if reach.private and reach.untrusted else "card",
    )


def _count(number: int) -> str:
    return f"{number:,} tool{'s' * (number != 1)}"
