"""Access requests on the pages: a tool that was refused something, and the ways to answer that."""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.access import (
    AccessChoice,
    AccessRequest,
    AccessScope,
    AccessState,
    access_parts,
    asked_words,
    granted_words,
)
from wasmrt.errors import ConfigurationError
from wasmrt.pages._frame import Frame, facts, hidden
from wasmrt.pages._html import Html, foreign, foreign_lines, tag, together
from wasmrt.web import Response

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
    """Return one request that waits, with the quick ways to answer it."""
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


def access_page(
    frame: Frame,
    request: AccessRequest,
    *,
    problem: Html | None = None,
    form: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Return the page of one request, whole; of one that has ended, how it ended.

    Args:
        frame: The place.
        request: The request.
        problem: The reason that an answer was not taken.
        form: The fields of that answer, to be shown again.
        status: Of the response.
    """
    if request.state is not AccessState.PENDING:
        told = tag("p", access_outcome(request))
        return frame.page(f"Access {request.id}", problem, told, frame.back(), section="", status=status)
    return frame.page(
        f"Access {request.id}: {request.caller.tool}",
        problem,
        tag("h2", "The request"),
        _shown(request, whole=True)[0],
        tag("h2", "Your answer"),
        _whole_form(frame, request, form or {}),
        frame.back(),
        section="",
        status=status,
    )


def access_outcome(request: AccessRequest) -> Html:
    """Return in a sentence how it stands with a request."""
    by = together(" by ", foreign(request.by)) if request.by else None
    note = together(" Note: ", foreign(request.note)) if request.note else None
    said = foreign(granted_words(request))
    return together("Access ", foreign(request.id), " (", foreign(request.caller.tool), "): ", said, by, ".", note)


def access_choice(form: dict[str, str]) -> AccessChoice:
    """Return the answer that a form holds.

    Raises:
        ConfigurationError: it holds none.
    """
    verb, _, scope = form.get("answer", "").partition("-")
    scope = scope or form.get("scope", "")
    if verb not in ("grant", "deny") or scope not in set(AccessScope):
        raise ConfigurationError("the form holds no answer", hint="choose how long it holds, then press a button")
    narrower = form.get("narrower", "") if verb == "grant" else ""
    return AccessChoice(granted=verb == "grant", scope=AccessScope(scope), narrower=narrower, note=form.get("note", ""))


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
        ("First by call", foreign(request.wish.call)),
        ("Request", foreign(request.id)),
    )
    return together(about, *blocks), any(part.cut for _, part in parts)


def _quick_form(frame: Frame, request: AccessRequest, title: str, *, cut: bool) -> Html:
    """SECURITY: what is not all shown is not granted here: the rest may be what matters."""
    buttons = [("deny-session", "Deny", "deny")]
    if not cut:
        buttons += [(f"grant-{scope}", _BUTTONS[scope], "allow") for scope in request.scopes]
    shown = (
        tag("button", text, type="submit", name="answer", value=value, class_=kind, aria_describedby=title)
        for value, text, kind in buttons
    )
    whole = tag("a", "All of it, and narrower", href=f"{frame.root}access/{request.id}", aria_describedby=title)
    return together(
        tag("p", "Something was left out above: look at all of it before you grant it.") if cut else None,
        frame.form(
            f"access/{request.id}",
            hidden("user", request.caller.user),
            tag("div", *shown, class_="buttons"),
            tag("p", whole),
        ),
    )


def _whole_form(frame: Frame, request: AccessRequest, form: dict[str, str]) -> Html:
    """Return the form with every choice. Deny is its first button, which is what Enter in a field presses."""
    scopes = tag("fieldset", tag("legend", "How long it holds"), *_scope_fields(request, form.get("scope", "once")))
    buttons = tag(
        "div",
        tag("button", "Deny", type="submit", name="answer", value="deny-session", class_="deny"),
        tag("button", "Deny for good", type="submit", name="answer", value="deny-keep", class_="deny"),
        tag("button", "Grant", type="submit", name="answer", value="grant", class_="allow"),
        class_="buttons",
    )
    fields = (
        _field("narrower", "Narrower: an entry that lies within the one above, or nothing for that", form),
        _field("note", "Note, for the record", form),
    )
    return frame.form(f"access/{request.id}", hidden("user", request.caller.user), scopes, *fields, buttons)


def _field(name: str, label: str, form: dict[str, str]) -> Html:
    entry = tag(
        "input", type="text", id=name, name=name, maxlength="2000", value=form.get(name), autocomplete="off",
        spellcheck="false",
    )  # fmt: skip
    return tag("p", tag("label", label, for_=name), entry)


def _scope_fields(request: AccessRequest, chosen: str) -> Iterator[Html]:
    for scope in request.scopes:
        name = f"scope-{scope}"
        box = tag("input", type="radio", name="scope", value=str(scope), id=name, checked=str(scope) == chosen)
        yield tag("p", box, tag("label", _SCOPES[scope], for_=name))
