"""The pages of approvals: of pending requests, of one request, and of remembered answers and ended requests."""

from __future__ import annotations

import json
from collections.abc import Mapping

from wasmrt.agent.access import AccessRequest, AccessStore
from wasmrt.agent.approvals import (
    ApprovalRequest,
    ApprovalStore,
    Detail,
    QueuedRequest,
    Remembered,
    State,
    Summary,
    changes_shown,
    is_cut,
    request_lines,
    start_of,
    summarize,
)
from wasmrt.interop.pages._access import access_card, access_outcome
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, edit_fields, more_form, way, widening_fields
from wasmrt.interop.pages._card import Card, asked_by, card, full_card, moment, quotation
from wasmrt.interop.pages._html import Frame, Html, Part, facts, foreign, foreign_lines, in_html, table, tag, together
from wasmrt.interop.web import Response
from wasmrt.runtime.audit.report import format_time

_MAX_CLAIM_CHARS = 160
_STATES = {
    State.PENDING: "is pending",
    State.WITHDRAWN: "was withdrawn by its caller",
    State.OUTDATED: "is outdated: its tool has been updated",
    State.EXPIRED: "has expired",
}
_SCOPES = {"once": "for this call", "session": "for similar calls of its session", "always": "from now on"}


def waiting_page(frame: Frame, store: ApprovalStore, access: AccessStore, done: str | None) -> Response:
    """Return the page of the pending requests; `done` is the ID of a request that was just answered here.

    The requests that expire first are the first.
    """
    waiting = sorted(store.pending(), key=lambda each: each.expires_ms)
    asking = sorted(access.pending(), key=lambda each: each.expires_ms)
    number = len(waiting) + len(asking)
    title = f"{number} request{'s wait' if number > 1 else ' waits'} for you" if number else "No requests are pending"
    news = tag("a", "This list has changed. Show it", href=frame.root)
    return frame.page(
        title,
        tag("p", "", role="status", id="said", class_="unseen"),
        _done_message(store, access, done) if done else None,
        tag("p", news, id="news", class_="news", hidden=True),
        *(card(frame, _card_of(each.request)) for each in waiting),
        *(access_card(frame, each) for each in asking),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
    )


def _done_message(store: ApprovalStore, access: AccessStore, done: str) -> Html | None:
    """Return the outcome of the request that was just answered."""
    answered, granted = store.get(done), access.get(done)
    told = outcome(answered) if answered is not None else None if granted is None else access_outcome(granted)
    return None if told is None else tag("p", told, role="status", class_="news")


def request_page(frame: Frame, found: QueuedRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if found.state is not State.PENDING:
        told = tag("p", outcome(found))
        return frame.page(f"Request {found.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    request, shown, summary = found.request, _card_of(found.request), summarize(found.request)
    about = (
        facts(
            ("Tool", foreign(request.tool)),
            ("It may", ", ".join(summary.effects) or "have no effects outside its sandbox"),
            ("Rule", foreign(request.why.sentence)),
            ("Call", foreign(request.call)),
            ("Request", foreign(request.id)),
        ),
    )
    return frame.page(
        f"Request {found.id}",
        tag("p", "", role="status", id="said", class_="unseen"),
        frame.back(),
        tried.problem,
        full_card(
            frame,
            shown,
            tag("h2", "All parameters"),
            _params(request),
            _part("Where the destinations come from", request.provenance),
            _changes(request, whole=True),
            *about,
            _more_form(frame, request, tried.form),
            sticky=not (shown.cut or any(is_cut((value,)) for _, value in shown.details)),
        ),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
        status=tried.status,
        heading=False,
    )


def outcome(found: QueuedRequest) -> Html:
    """Return the state of a request as a sentence."""
    if found.approved is None:
        return together(foreign(found.id), " (", foreign(found.tool), ") ", _STATES[found.state], ".")
    verb = "was approved" if found.approved else "was denied"
    by = together(" by ", foreign(found.by)) if found.by else None
    at = together(", ", moment(found.decided_ms)) if found.decided_ms else None
    note = together(" Note: ", foreign(found.note)) if found.note else None
    reach = _SCOPES.get(str(found.scope), "")
    return together(foreign(found.id), " (", foreign(found.tool), f") {verb} {reach}", by, at, ".", note)


def _card_of(request: ApprovalRequest) -> Card:
    summary = summarize(request)
    changes = changes_shown(request)
    _, cut = request_lines(request)
    reason = summary.claim.value if summary.claim else ""
    claim = start_of(reason, _MAX_CLAIM_CHARS)
    return Card(
        id=request.id,
        action=f"requests/{request.id}",
        kind=summary.kind,
        headline=summary.headline,
        user=request.user,
        expires_ms=request.expires_ms,
        cautions=summary.cautions,
        about=_about(request, summary, claim),
        details=[(_label(each), each.value) for each in summary.details if each is not summary.claim],
        allow=("allow-once", "Allow once"),
        deny="deny-once",
        cut=cut or changes.cut or is_cut(summary.headline) or claim != reason,
        folded=_changes(request, whole=False),
    )


def _about(request: ApprovalRequest, summary: Summary, claim: str) -> Html:
    return facts(
        asked_by(request.user, request.trace, request.client),
        ("Why", in_html(summary.reason)),
        ("Agent's reason", together(foreign(claim), " (a claim)") if claim else None),
    )


def _label(detail: Detail) -> Html:
    return together(detail.label) if detail.label else foreign(detail.name)


def _params(request: ApprovalRequest) -> Html:
    """Return all parameters in a readable form, and as JSON in a folded block."""
    rows = [(_label(each), tag("div", *_value_lines(each.value))) for each in summarize(request).details]
    text = json.dumps(request.params, ensure_ascii=False, indent=2)
    raw = quotation(text.split("\n"), "Parameters as JSON")
    folded = tag("details", tag("summary", "As JSON"), raw)
    return together(facts(*rows) if rows else tag("p", "There are none."), folded)


def _value_lines(value: str) -> tuple[Html, ...]:
    if "\n" not in value:
        return (foreign(value),)
    return (quotation(value.split("\n"), "A parameter, chosen by others"),)


def _part(title: str, lines: tuple[str, ...]) -> Html | None:
    return together(tag("h2", title), quotation(lines, title)) if lines else None


def _changes(request: ApprovalRequest, *, whole: bool) -> Html | None:
    """Return the diff of a request in a block that is folded in the list."""
    lines = changes_shown(request, whole=whole).lines
    if not lines:
        return None
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    title = f"Show the changes (+{added:,} -{removed:,} lines)"
    block = foreign_lines(lines, kind="changes", label="Changes")
    return tag("details", tag("summary", title), block, open=whole)


def _more_form(frame: Frame, request: ApprovalRequest, form: Mapping[str, str]) -> Html:
    edit = way(
        "Allow once with other parameters", "this call, with the parameters below", "",
        ("edit-once", "Allow once as edited"), edit_fields(request.params, form),
    )  # fmt: skip
    # SECURITY: if others may steer the call, only this call can be allowed.
    lasting = () if summarize(request).has_severe_caution else (*_session_ways(request), *_always_ways(request, form))
    return more_form(
        frame, f"requests/{request.id}", request.user, *lasting, edit,
        form=form, deny="deny-once",
    )  # fmt: skip


def _session_ways(request: ApprovalRequest) -> tuple[Part, ...]:
    if not (request.may_be_remembered and request.trace):
        return ()
    covers = in_html(summarize(request).covers)
    ends = "when the session ends"
    return (
        way("Allow for this session", covers, ends, ("allow-session", "Allow this session")),
        way("Deny for this session", covers, ends, ("deny-session", "Deny this session")),
    )


def _always_ways(request: ApprovalRequest, form: Mapping[str, str]) -> tuple[Part, ...]:
    if not request.may_be_remembered:
        return ()
    covers = "exactly this call, in every session, and the differences that you allow below"
    ends = "when you forget it on the page Answers, or when the tool or its grant changes"
    fields = widening_fields(request.params, form)
    return (way("Always allow", covers, ends, ("allow-always", "Always allow"), fields),)


def state_data(store: ApprovalStore, access: AccessStore) -> bytes:
    """Return the IDs of the pending requests as JSON."""
    ids = [*(each.id for each in store.pending()), *(each.id for each in access.pending())]
    return json.dumps({"open": ids}).encode()


_MAX_ENDED = 50
_MAX_ANSWERS = 500
_MAX_PARAMS_CHARS = 300


def remembered_page(
    frame: Frame, store: ApprovalStore, access: AccessStore, *, problem: Html | None = None, status: int = 200
) -> Response:
    """Return the page of the remembered answers, newest first, and of the latest ended requests."""
    answers, ended = store.answers()[::-1], store.decided(_MAX_ENDED)
    header = ("Tool", "For", "Answer", "Parameters", "By", "Since (UTC)", "Forget it")
    rows = [_answer_row(frame, answer) for answer in answers[:_MAX_ANSWERS]]
    more = len(answers) - _MAX_ANSWERS
    return frame.page(
        "Answers",
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


def _answer_row(frame: Frame, answer: Remembered) -> list[Part]:
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the answer about {answer.tool}")
    return [
        foreign(answer.tool),
        foreign(answer.user),
        "approved" if answer.approved else "denied",
        _describe_pattern(answer),
        foreign(answer.by),
        format_time(answer.made_ms),
        frame.form(f"remembered/{answer.id}", button),
    ]


def _describe_pattern(answer: Remembered) -> Html:
    if answer.pattern is None:
        return tag("span", "similar calls")
    text = json.dumps(answer.pattern.params, ensure_ascii=False)
    if len(text) > _MAX_PARAMS_CHARS:
        text = f"{text[:_MAX_PARAMS_CHARS]} ... {len(text) - _MAX_PARAMS_CHARS:,} more characters"
    return tag("span", foreign(answer.pattern.words), ": ", tag("code", foreign(text)))
