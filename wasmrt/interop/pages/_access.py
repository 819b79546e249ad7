"""Access requests on the pages: the access that a tool was refused, and the forms that grant or deny it."""

from __future__ import annotations

from collections.abc import Mapping

from wasmrt.agent.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    describe_access,
    describe_answer,
    describe_asking,
    list_access_parts,
)
from wasmrt.agent.approvals import Caution, Quoted, is_cut
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, answer_in, more_form, show_answer, text_field
from wasmrt.interop.pages._card import Card, show_asker, show_card, show_full_card, show_quotation
from wasmrt.interop.pages._html import Frame, Html, Part, join_html, make_facts, quote_text, tag
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
    return show_card(frame, _make_card(request))


def access_page(frame: Frame, request: AccessRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if request.state is not AccessState.PENDING:
        told = tag("p", access_outcome(request))
        return frame.page(f"Access {request.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    shown = _make_card(request)
    parts = (
        join_html(tag("h2", title.capitalize()), show_quotation(part.lines, title))
        for title, part in list_access_parts(request, whole=True)
    )
    about = make_facts(("Call", quote_text(request.denied.call)), ("Request", quote_text(request.id)))
    return frame.page(
        f"Access {request.id}",
        tag("p", "", role="status", id="said", class_="unseen"),
        frame.back(),
        tried.problem,
        show_full_card(frame, shown, *parts, about, _make_more_form(frame, request, tried.form), sticky=not shown.cut),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
        status=tried.status,
        heading=False,
    )


def access_outcome(request: AccessRequest) -> Html:
    """Return the state of a request as a sentence."""
    by = join_html(" by ", quote_text(request.by)) if request.by else None
    note = join_html(" Note: ", quote_text(request.note)) if request.note else None
    said = quote_text(describe_answer(request))
    return join_html(
        "Access ", quote_text(request.id), " (", quote_text(request.caller.tool), "): ", said, by, ".", note
    )


def access_choice(form: dict[str, str]) -> AccessChoice:
    """Return the answer in a form.

    Raises:
        ConfigurationError: the form contains no answer.
    """
    granted, scope = answer_in(form, "grant", AccessScope)
    narrower = form.get("narrower", "") if granted else ""
    return AccessChoice(granted=granted, scope=scope, narrower=narrower, note=form.get("note", ""))


def _make_card(request: AccessRequest) -> Card:
    headline = describe_access(request)
    parts = list_access_parts(request)
    caller = request.caller
    about = make_facts(
        show_asker(caller.user, caller.trace, caller.client, caller.tool),
        ("Why", f"Its grant does not include this access. Refused {describe_asking(request)}."),
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


def _make_more_form(frame: Frame, request: AccessRequest, form: Mapping[str, str]) -> Html:
    label = "Narrower: an entry within the one above, or empty for the whole entry"
    narrower = tag("section", text_field("narrower", label, form, maxlength="2000"), class_="way")
    ways = [
        show_answer(title, covers, ends, (f"grant-{scope}", button))
        for scope, (title, covers, ends, button) in _WAYS.items()
        if scope in request.scopes
    ]
    once = show_answer(
        "Grant once, narrower", "the same call, when it is made again", "", ("grant-once", "Grant as entered")
    )
    never = show_answer(
        "Deny for good", "this access of this tool", "when you forget it on the page Answers",
        ("deny-keep", "Deny for good"),
    )  # fmt: skip
    return more_form(
        frame, f"access/{request.id}", request.caller.user, narrower, once, *ways, never, form=form,
        deny=_make_card(request).deny,
    )  # fmt: skip
