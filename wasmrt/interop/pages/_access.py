"""Access requests on the pages: the access that a tool was refused, and the forms that grant or deny it."""

from __future__ import annotations

from collections.abc import Mapping

from wasmrt.agent.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    access_parts,
    asked_words,
    granted_words,
)
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, answer_in, quick_form, text_field, whole_form
from wasmrt.interop.pages._html import Frame, Html, facts, foreign, foreign_lines, tag, together
from wasmrt.interop.web import Response

_BUTTONS = {
    AccessScope.ONCE: "Grant once",
    AccessScope.SESSION: "Grant for the session",
    AccessScope.KEEP: "Keep in its grant",
}
_SCOPES = {
    AccessScope.ONCE: "The same call, when it is made again",
    AccessScope.SESSION: "This tool, for the rest of the session",
    AccessScope.KEEP: "Kept in its stored grant, for all its users, until it is revoked or the tool is updated",
}


def access_card(frame: Frame, request: AccessRequest) -> Html:
    """Return a pending request with its quick answers."""
    title = f"access-{request.id}"
    shown, cut = _shown(request, whole=False)
    return tag(
        "article",
        tag("h2", foreign(request.caller.tool), " asks for access", id=title),
        shown,
        _quick_form(frame, request, title, cut=cut),
        aria_labelledby=title,
        class_="card",
    )


def access_page(frame: Frame, request: AccessRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if request.state is not AccessState.PENDING:
        told = tag("p", access_outcome(request))
        return frame.page(f"Access {request.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    return frame.page(
        f"Access {request.id}: {request.caller.tool}",
        tried.problem,
        tag("h2", "The request"),
        _shown(request, whole=True)[0],
        tag("h2", "Your answer"),
        _whole_form(frame, request, tried.form),
        frame.back(),
        section="",
        status=tried.status,
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


def _shown(request: AccessRequest, *, whole: bool) -> tuple[Html, bool]:
    parts = access_parts(request, whole=whole)
    blocks = (
        together(tag("h3", title.capitalize()), foreign_lines(part.lines, kind="origins", label=title))
        for title, part in parts
    )
    about = facts(
        ("For", foreign(request.caller.user)),
        ("Session", foreign(request.caller.trace) if request.caller.trace else None),
        ("Asked", asked_words(request)),
        ("First by call", foreign(request.denied.call)),
        ("Request", foreign(request.id)),
    )
    return together(about, *blocks), any(part.cut for _, part in parts)


def _quick_form(frame: Frame, request: AccessRequest, title: str, *, cut: bool) -> Html:
    allow = ((f"grant-{scope}", _BUTTONS[scope]) for scope in request.scopes)
    return quick_form(
        frame, f"access/{request.id}", request.caller.user, title, deny="deny-session", allow=allow, verb="grant",
        more="All of it, and narrower", cut=cut,
    )  # fmt: skip


def _whole_form(frame: Frame, request: AccessRequest, form: Mapping[str, str]) -> Html:
    label = "Narrower: an entry within the one above, or empty for the whole entry"
    narrower = text_field("narrower", label, form, maxlength="2000")
    scopes = ((scope, _SCOPES[scope]) for scope in request.scopes)
    return whole_form(
        frame, f"access/{request.id}", request.caller.user, scopes, narrower, form=form,
        deny=(("deny-session", "Deny"), ("deny-keep", "Deny for good")), allow=(("grant", "Grant"),),
    )  # fmt: skip
