"""Access requests on the pages: the access that a tool was refused, and the forms that grant or deny it."""

from __future__ import annotations

from collections.abc import Mapping

from wasmrt.agent.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    access_headline,
    access_parts,
    asked_words,
    granted_words,
)
from wasmrt.agent.approvals import Caution, Quoted, is_cut
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, answer_in, more_form, text_field, way
from wasmrt.interop.pages._card import Card, asked_by, card, full_card, quotation
from wasmrt.interop.pages._html import Frame, Html, Part, facts, foreign, tag, together
from wasmrt.interop.web import Response

_WAYS = {
    AccessScope.SESSION: ("Grant for this session", "this tool", "when the session ends", "Grant this session"),
    AccessScope.KEEP: (
        "Keep in its grant",
        "this tool, for all its users",
        "when you revoke it on the page Grants, or when the tool is updated",
        "Keep in its grant",
    ),
}
_IN_LIST = ("entry", "granted once before, and required again", "denied")
"""The parts of a request that the list shows as details."""


def access_card(frame: Frame, request: AccessRequest) -> Html:
    """Return a pending request with its quick answers."""
    return card(frame, _card_of(request))


def access_page(frame: Frame, request: AccessRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if request.state is not AccessState.PENDING:
        told = tag("p", access_outcome(request))
        return frame.page(f"Access {request.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    shown = _card_of(request)
    parts = (
        together(tag("h2", title.capitalize()), quotation(part.lines, title))
        for title, part in access_parts(request, whole=True)
    )
    about = facts(("Call", foreign(request.denied.call)), ("Request", foreign(request.id)))
    return frame.page(
        f"Access {request.id}",
        tag("p", "", role="status", id="said", class_="unseen"),
        frame.back(),
        tried.problem,
        full_card(frame, shown, *parts, about, _more_form(frame, request, tried.form), sticky=not shown.cut),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
        status=tried.status,
        heading=False,
    )


def access_outcome(request: AccessRequest) -> Html:
    """Return the state of a request as a sentence."""
    by = together(" by ", foreign(request.by)) if request.by else None
    note = together(" Note: ", foreign(request.note)) if request.note else None
    said = foreign(granted_words(request))
    return together("Access ", foreign(request.id), " (", foreign(request.caller.tool), "): ", said, by, ".", note)


def access_choice(form: dict[str, str]) -> AccessChoice:
    """Return the answer in a form.

    Raises:
        ConfigurationError: the form contains no answer.
    """
    granted, scope = answer_in(form, "grant", AccessScope)
    narrower = form.get("narrower", "") if granted else ""
    return AccessChoice(granted=granted, scope=scope, narrower=narrower, note=form.get("note", ""))


def _card_of(request: AccessRequest) -> Card:
    headline = access_headline(request)
    parts = access_parts(request)
    caller = request.caller
    about = facts(
        asked_by(caller.user, caller.trace, caller.client, caller.tool),
        ("Why", f"Its grant does not include this access. Refused {asked_words(request)}."),
    )
    details: list[tuple[Part, str]] = [
        ("Adds" if title == "entry" else title.capitalize(), " / ".join(part.lines))
        for title, part in parts
        if title in _IN_LIST
    ]
    cautions = [Caution(title="Also:", text=(" ", Quoted(sentence))) for sentence in request.denied.limited]
    if request.denied.origins:
        cautions.append(Caution(title="The source of this place:", quotation=request.denied.origins))
    more = len(request.denied.sentences) > 1
    return Card(
        id=request.id,
        action=f"access/{request.id}",
        kind="Wants more access",
        headline=headline,
        user=request.caller.user,
        expires_ms=request.expires_ms,
        cautions=cautions,
        about=about,
        details=details,
        allow=("grant-once", "Grant once"),
        deny="deny-session" if AccessScope.SESSION in request.scopes else "deny-once",
        cut=more or is_cut(headline) or any(part.cut for _, part in parts),
    )


def _more_form(frame: Frame, request: AccessRequest, form: Mapping[str, str]) -> Html:
    label = "Narrower: an entry within the one above, or empty for the whole entry"
    narrower = tag("section", text_field("narrower", label, form, maxlength="2000"), class_="way")
    ways = [
        way(title, covers, ends, (f"grant-{scope}", button))
        for scope, (title, covers, ends, button) in _WAYS.items()
        if scope in request.scopes
    ]
    once = way("Grant once, narrower", "the same call, when it is made again", "", ("grant-once", "Grant as entered"))
    never = way(
        "Deny for good", "this access of this tool", "when you forget it on the page Answers",
        ("deny-keep", "Deny for good"),
    )  # fmt: skip
    return more_form(
        frame, f"access/{request.id}", request.caller.user, narrower, once, *ways, never, form=form,
        deny=_card_of(request).deny,
    )  # fmt: skip
