"""The page of pending requests, and the page of remembered answers."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime

from blake3 import blake3

from wasmrt.agent.access import AccessRequest, AccessStore
from wasmrt.agent.approvals import (
    ApprovalRequest,
    ApprovalStore,
    QueuedRequest,
    Remembered,
    Shown,
    State,
    changes_shown,
    origins_shown,
    params_shown,
)
from wasmrt.interop.pages._access import access_card, access_outcome
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, quick_form, whole_form, widening_fields
from wasmrt.interop.pages._html import Frame, Html, Part, facts, foreign, foreign_lines, table, tag, together
from wasmrt.interop.web import Response
from wasmrt.runtime.audit.report import format_time

_STATES = {
    State.PENDING: "is pending",
    State.WITHDRAWN: "was withdrawn by its caller",
    State.OUTDATED: "is outdated: its tool has been updated",
    State.EXPIRED: "has expired",
}
_SCOPES = {"once": "for this call", "session": "for the rest of its session", "always": "from now on"}
_BUTTONS = {"once": "Allow once", "session": "Allow for the session", "always": "Always allow exactly this"}
_OFFERED = {
    "once": "This call only",
    "session": "This tool for the rest of the session, with any parameters",
    "always": "From now on, in every session, for the same parameters or those allowed below",
}


def waiting_page(frame: Frame, store: ApprovalStore, access: AccessStore, done: str | None) -> Response:
    """Return the page of the pending requests; `done` is the ID of a request that was just answered here."""
    waiting, asking = store.pending(), access.pending()
    counts = [f"{len(waiting)} {'call waits' if len(waiting) == 1 else 'calls wait'} for an answer."] * bool(waiting)
    counts += [f"{len(asking)} {'request' if len(asking) == 1 else 'requests'} for access."] * bool(asking)
    number = len(waiting) + len(asking)
    return frame.page(
        f"Approvals ({number})" if number else "Approvals",
        _done_message(store, access, done) if done else None,
        tag(
            "p",
            "This list has changed. ",
            tag("a", "Reload it", href=frame.root),
            id="news",
            class_="done",
            hidden=True,
        ),
        tag("p", "", role="status", id="said", class_="unseen"),
        tag("p", " ".join(counts) or "No requests are pending."),
        *(_card(frame, each) for each in waiting),
        *(access_card(frame, each) for each in asking),
        tag("div", id="watch", data_from=f"{frame.root}state", data_state=state_of(waiting, asking), hidden=True),
        section="",
    )


def state_of(waiting: list[QueuedRequest], asking: list[AccessRequest]) -> str:
    """Return a digest that changes with the pending requests."""
    return blake3(" ".join([*(each.id for each in waiting), *(each.id for each in asking)]).encode()).hexdigest()[:32]


def _done_message(store: ApprovalStore, access: AccessStore, done: str) -> Html | None:
    """Return the outcome of the request that was just answered."""
    answered, granted = store.get(done), access.get(done)
    told = outcome(answered) if answered is not None else None if granted is None else access_outcome(granted)
    return None if told is None else tag("p", told, role="status", class_="done")


def request_page(frame: Frame, found: QueuedRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if found.state is not State.PENDING:
        told = tag("p", outcome(found))
        return frame.page(f"Request {found.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    request = found.request
    return frame.page(
        f"Request {found.id}: {request.tool}",
        tried.problem,
        tag("h2", "The call"),
        _facts(request, named=True),
        _block("Origin", origins_shown(request, whole=True), "origins"),
        _block("Parameters", params_shown(request, whole=True), "parameters"),
        _block("Changes", changes_shown(request, whole=True), "changes"),
        tag("h2", "Your answer"),
        _whole_form(frame, request, tried.form),
        frame.back(),
        section="",
        status=tried.status,
    )


def outcome(found: QueuedRequest) -> Html:
    """Return the state of a request as a sentence."""
    if found.approved is None:
        return together(foreign(found.id), " (", foreign(found.tool), ") ", _STATES[found.state], ".")
    verb = "was approved" if found.approved else "was denied"
    by = together(" by ", foreign(found.by)) if found.by else None
    at = together(", ", _moment(found.decided_ms)) if found.decided_ms else None
    note = together(" Note: ", foreign(found.note)) if found.note else None
    reach = _SCOPES.get(str(found.scope), "")
    return together(foreign(found.id), " (", foreign(found.tool), f") {verb} {reach}", by, at, ".", note)


def _card(frame: Frame, found: QueuedRequest) -> Html:
    request = found.request
    origins, params, changes = origins_shown(request), params_shown(request), changes_shown(request)
    title = f"request-{found.id}"
    return tag(
        "article",
        tag("h2", foreign(request.tool), id=title),
        _facts(request, named=False),
        _block("Origin", origins, "origins"),
        _block("Parameters", params, "parameters"),
        _block("Changes", changes, "changes"),
        _quick_form(frame, request, title, cut=origins.cut or params.cut or changes.cut),
        aria_labelledby=title,
        class_=f"card risk-{request.risk}" if request.risk in ("low", "medium", "high") else "card",
    )


def _facts(request: ApprovalRequest, *, named: bool) -> Html:
    return facts(
        ("Tool", foreign(request.tool) if named else None),
        ("It may", ", ".join(request.effects) or "have no effects outside its sandbox"),
        ("Risk", foreign(request.risk)),
        ("Asked because", foreign(request.why.sentence)),
        ("For", foreign(request.user)),
        ("Session", foreign(request.trace) if request.trace else None),
        ("Time left", together(_left(request), " (until ", _moment(request.expires_ms), ")")),
        ("Request", foreign(request.id)),
    )


def _block(title: str, shown: Shown, kind: str) -> Html | None:
    if not shown.lines:
        return None
    return together(tag("h3", title), foreign_lines(shown.lines, kind=kind, label=title))


def _quick_form(frame: Frame, request: ApprovalRequest, title: str, *, cut: bool) -> Html:
    allow = ((f"allow-{scope}", _BUTTONS[scope]) for scope in _scopes(request))
    return quick_form(
        frame, f"requests/{request.id}", request.user, title, deny="deny-once", allow=allow, verb="allow",
        more="Full request, and more answers", cut=cut,
    )  # fmt: skip


def _whole_form(frame: Frame, request: ApprovalRequest, form: Mapping[str, str]) -> Html:
    widening = widening_fields(request.params, form) if request.may_be_remembered else None
    scopes = ((scope, _OFFERED[scope]) for scope in _scopes(request))
    return whole_form(
        frame, f"requests/{request.id}", request.user, scopes, widening, form=form, deny=(("deny", "Deny"),),
        allow=(("allow", "Allow"),),
    )  # fmt: skip


def _scopes(request: ApprovalRequest) -> tuple[str, ...]:
    """Return the scopes that an answer may have."""
    if not request.may_be_remembered:
        return ("once",)
    return ("once", "session", "always") if request.trace else ("once", "always")


def _left(request: ApprovalRequest) -> str:
    seconds = max(0, round(request.expires_ms / 1000 - time.time()))
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"


def _moment(milliseconds: int) -> Html:
    try:
        at = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return together("-")
    return tag("time", f"{at:%H:%M:%S}", datetime=at.isoformat(timespec="seconds"))


_MAX_ENDED = 50
_MAX_ANSWERS = 500
_MAX_PARAMS_CHARS = 300


def remembered_page(
    frame: Frame, store: ApprovalStore, access: AccessStore, *, problem: Html | None = None, status: int = 200
) -> Response:
    """Return the page of the remembered answers, newest first, and of the latest ended requests."""
    answers, ended = store.answers()[::-1], store.decided(_MAX_ENDED)
    header = ("Tool", "For", "Answer", "Parameters", "By", "Since (UTC)", "Forget it")
    rows = [_row(frame, answer) for answer in answers[:_MAX_ANSWERS]]
    more = len(answers) - _MAX_ANSWERS
    return frame.page(
        "Remembered",
        problem,
        tag("p", "Calls that match one of these answers need no approval. If you forget an answer, wasmrt asks again."),
        table("Permanent answers", header, rows) if rows else tag("p", "There are no remembered answers."),
        tag("p", f"{more:,} older answers are not shown; wasmrt approvals list shows all.") if more > 0 else None,
        _denied_access(frame, access),
        tag("h2", "Ended"),
        tag("ul", *(tag("li", outcome(each)) for each in ended)) if ended else tag("p", "No request has ended yet."),
        section="remembered",
        status=status,
    )


def _denied_access(frame: Frame, access: AccessStore) -> Html | None:
    """Return the table of permanently denied access, or None."""
    refused = access.refused()[::-1][:_MAX_ANSWERS]
    header = ("Tool", "For", "Denied", "By", "Since (UTC)", "Forget it")
    return table("Permanently denied access", header, [_refusal(frame, e) for e in refused]) if refused else None


def _refusal(frame: Frame, request: AccessRequest) -> list[Part]:
    tool = request.caller.tool
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the denial of access to {tool}")
    return [
        foreign(tool),
        foreign(request.caller.user),
        tag("code", foreign(request.denied.addition.hint)),
        foreign(request.by),
        format_time(request.decided_ms or request.created_ms),
        frame.form(f"remembered/{request.id}", button),
    ]


def _row(frame: Frame, answer: Remembered) -> list[Part]:
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the answer about {answer.tool}")
    return [
        foreign(answer.tool),
        foreign(answer.user),
        "approved" if answer.approved else "denied",
        _params(answer),
        foreign(answer.by),
        format_time(answer.made_ms),
        frame.form(f"remembered/{answer.id}", button),
    ]


def _params(answer: Remembered) -> Html:
    if answer.pattern is None:
        return tag("span", "any parameters")
    text = json.dumps(answer.pattern.params, ensure_ascii=False)
    if len(text) > _MAX_PARAMS_CHARS:
        text = f"{text[:_MAX_PARAMS_CHARS]} ... {len(text) - _MAX_PARAMS_CHARS:,} more characters"
    return tag("span", foreign(answer.pattern.words), ": ", tag("code", foreign(text)))
