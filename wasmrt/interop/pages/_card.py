"""The parts of a card: a pending request with its headline, what is unusual, its details and its buttons."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from wasmrt.agent.approvals import Caution, Phrase, shorten_lines, start_of
from wasmrt.interop.pages._html import (
    Frame,
    Html,
    Part,
    join_html,
    make_facts,
    make_hidden_field,
    quote_lines,
    quote_text,
    render_phrase,
    tag,
)

_MAX_CLIENT_CHARS = 24
_MAX_DETAILS = 4
_MAX_VALUE_CHARS = 90
_MAX_CAUTIONS = 3
_MAX_QUOTATION_CHARS = 160
_SOON_SECONDS = 120


class Card(NamedTuple):
    """A pending request as the cards show it, for a call or for access."""

    id: str
    action: str
    """The path of its page and of its form."""
    kind: str
    headline: Phrase
    user: str
    expires_ms: int
    cautions: Sequence[Caution]
    about: Html
    """Who asks, and why."""
    details: Sequence[tuple[Part, str]]
    """Labels and untrusted values."""
    allow: tuple[str, str]
    """The value and the text of the button that allows the request once."""
    deny: str
    cut: bool
    """True if the list shows only a part of the request."""
    folded: Html | None = None

    @property
    def title(self) -> str:
        """The ID of the heading."""
        return f"title-{self.id}"

    @property
    def has_severe_caution(self) -> bool:
        """True if there is evidence that others steer the call."""
        return any(each.is_severe for each in self.cautions)


def show_asker(user: str, trace: str, client: str, tool: str = "") -> tuple[str, Html]:
    """Return the row of a card that names who asks: the client, the user, the session, and the tool.

    SECURITY: the name of a client is a claim, and is marked as one.
    """
    named = join_html(quote_text(start_of(client, _MAX_CLIENT_CHARS)), " (self-named), ") if client else None
    session = join_html(", session ", quote_text(trace)) if trace else None
    using = join_html(", with ", quote_text(tool)) if tool else None
    return "Asked by", join_html(named, "user ", quote_text(user), session, using)


def show_card(frame: Frame, shown: Card) -> Html:
    """Return a request for the list, with its first two answers.

    SECURITY: as in the terminal, a request that is not fully shown cannot be allowed here.
    """
    details = [_shorten_detail(label, value) for label, value in shown.details[:_MAX_DETAILS]]
    cautions = [_show_caution(each) for each in shown.cautions[:_MAX_CAUTIONS]]
    hidden_parts = len(shown.details) > len(details) or len(shown.cautions) > len(cautions)
    cut = shown.cut or hidden_parts or any(one[2] for one in details) or any(one[1] for one in cautions)
    off = f"off-{shown.id}" if cut else None
    note = tag("li", tag("b", "Text was cut."), " Open the request to allow it.", id=off) if cut else None
    warnings = (note, *(one[0] for one in cautions))
    more = tag(
        "a", "Show all of it" if cut else "More options", href=f"{frame.root}{shown.action}{'' if cut else '#more'}",
        class_="more", aria_describedby=shown.title,
    )  # fmt: skip
    buttons = answer_buttons(shown, off=off)
    return tag(
        "article",
        show_kind(shown),
        tag("h2", render_phrase(shown.headline), id=shown.title, class_="what"),
        shown.about,
        tag("ul", *warnings, class_="warn", aria_label="What is unusual") if any(warnings) else None,
        make_facts(*((label, value) for label, value, _ in details)) if details else None,
        shown.folded,
        frame.form(shown.action, make_hidden_field("user", shown.user), tag("div", *buttons, more, class_="acts")),
        aria_labelledby=shown.title,
        class_="card stop" if shown.has_severe_caution else "card",
        data_request=shown.id,
    )


def show_full_card(frame: Frame, shown: Card, *content: Part, sticky: bool) -> Html:
    """Return a request for its own page, with `content`. If `sticky`, both buttons stay in view, else only Deny.

    SECURITY: a request that is too long for the list is allowed behind its text, so that the text is passed first.
    """
    warnings = [_show_caution(each, whole=True)[0] for each in shown.cautions]
    acts = tag("div", *answer_buttons(shown), class_="acts")
    return tag(
        "article",
        show_kind(shown),
        tag("h1", render_phrase(shown.headline), id=shown.title, class_="what"),
        shown.about,
        tag("ul", *warnings, class_="warn", aria_label="What is unusual") if warnings else None,
        *content,
        frame.form(shown.action, make_hidden_field("user", shown.user), acts, class_="bar" if sticky else "end"),
        aria_labelledby=shown.title,
        class_="card stop" if shown.has_severe_caution else "card",
        data_request=shown.id,
    )


def answer_buttons(shown: Card, *, off: str | None = None) -> tuple[Html, Html]:
    """Return the two buttons of a card. Deny is the first, and is emphasized if others may steer the call.

    If the request cannot be allowed here, `off` is the ID of the element that shows the reason.
    """
    value, text = shown.allow
    deny = tag(
        "button", "Deny", type="submit", name="answer", value=shown.deny,
        class_="no" if shown.has_severe_caution else None, aria_describedby=shown.title,
    )  # fmt: skip
    if off is not None:
        described = f"{shown.title} {off}"
        return deny, tag("button", text, type="button", disabled=True, aria_describedby=described)
    kind = None if shown.has_severe_caution else "main"
    return deny, tag(
        "button", text, type="submit", name="answer", value=value, class_=kind, aria_describedby=shown.title
    )


def show_kind(shown: Card) -> Html:
    """Return the kind of the request, and the time until it expires."""
    return tag("p", tag("b", shown.kind), " ", show_time_left(shown.expires_ms), class_="kind")


def show_time_left(expires_ms: int) -> Html:
    """Return the time left, which the script of the page updates."""
    seconds = max(0, round(expires_ms / 1000 - time.time()))
    left = f"{seconds // 60} min left" if seconds >= 60 else f"{seconds} s left"
    if seconds >= 6000:
        left = f"{seconds // 3600} h left"
    at = show_time(expires_ms)
    kind = "soon" if seconds < _SOON_SECONDS else None
    return tag("span", tag("span", left, data_ends=str(expires_ms)), " (", at, ")", class_=kind)


def show_time(milliseconds: int) -> Html:
    """Return a time of the day."""
    try:
        at = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return join_html("-")
    return tag("time", f"{at:%H:%M}", datetime=at.isoformat(timespec="seconds"))


def show_quotation(lines: Iterable[str], label: str) -> Html:
    """Return untrusted lines as a block."""
    return quote_lines(shorten_lines(lines, whole=True).lines, kind="origins", label=label)


def _shorten_detail(label: Part, value: str) -> tuple[Part, Html, bool]:
    """Return a detail for the list, and whether it was cut."""
    text = start_of(value, _MAX_VALUE_CHARS)
    return label, quote_text(text), text != value


def _show_caution(found: Caution, *, whole: bool = False) -> tuple[Html, bool]:
    """Return a warning, and whether its quotation was cut."""
    quoted = " / ".join(line.strip() for line in found.quotation)
    shown = quoted if whole else start_of(quoted, _MAX_QUOTATION_CHARS)
    block = tag("blockquote", shown, class_="their", dir="ltr") if shown else None
    text = (tag("b", found.title), render_phrase(found.text), block)
    return tag("li", *text, class_="stop" if found.is_severe else None), shown != quoted
