"""The approval pages: pending requests, a single request, and remembered answers together with ended requests."""

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
    is_cut,
    request_lines,
    show_changes,
    start_of,
    summarize,
)
from wasmrt.interop.pages._access import access_card, access_outcome
from wasmrt.interop.pages._answer import FIRST_TRY, Tried, edit_fields, more_form, show_answer, widening_fields
from wasmrt.interop.pages._card import Card, show_asker, show_card, show_full_card, show_quotation, show_time
from wasmrt.interop.pages._html import (
    Frame,
    Html,
    Part,
    join_html,
    make_facts,
    quote_lines,
    quote_text,
    render_phrase,
    table,
    tag,
)
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

    Requests are shown in the order in which they expire.
    """
    waiting = sorted(store.pending(), key=lambda each: each.expires_ms)
    asking = sorted(access.pending(), key=lambda each: each.expires_ms)
    number = len(waiting) + len(asking)
    title = f"{number} request{'s wait' if number > 1 else ' waits'} for you" if number else "No requests are pending"
    news = tag("a", "This list has changed. Show it", href=frame.root)
    return frame.page(
        title,
        tag("p", "", role="status", id="said", class_="unseen"),
        _show_outcome(store, access, done) if done else None,
        tag("p", news, id="news", class_="news", hidden=True),
        *(show_card(frame, _make_card(each.request)) for each in waiting),
        *(access_card(frame, each) for each in asking),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
    )


def _show_outcome(store: ApprovalStore, access: AccessStore, done: str) -> Html | None:
    """Return the outcome of the request that was just answered."""
    answered, granted = store.get(done), access.get(done)
    told = describe_outcome(answered) if answered is not None else None if granted is None else access_outcome(granted)
    return None if told is None else tag("p", told, role="status", class_="news")


def request_page(frame: Frame, found: QueuedRequest, tried: Tried = FIRST_TRY) -> Response:
    """Return the full page of one request, with its outcome if it has ended."""
    if found.state is not State.PENDING:
        told = tag("p", describe_outcome(found))
        return frame.page(f"Request {found.id}", tried.problem, told, frame.back(), section="", status=tried.status)
    request, shown, summary = found.request, _make_card(found.request), summarize(found.request)
    about = (
        make_facts(
            ("Tool", quote_text(request.tool)),
            ("It may", ", ".join(summary.effects) or "have no effects outside its sandbox"),
            ("Rule", quote_text(request.why.sentence)),
            ("Call", quote_text(request.call)),
            ("Request", quote_text(request.id)),
        ),
    )
    return frame.page(
        f"Request {found.id}",
        tag("p", "", role="status", id="said", class_="unseen"),
        frame.back(),
        tried.problem,
        show_full_card(
            frame,
            shown,
            tag("h2", "All parameters"),
            _show_params(request),
            _show_part("Where the destinations come from", request.provenance),
            _show_changes(request, whole=True),
            *about,
            _make_more_form(frame, request, tried.form),
            sticky=not (shown.cut or any(is_cut((value,)) for _, value in shown.details)),
        ),
        tag("div", id="watch", data_from=f"{frame.root}state", hidden=True),
        section="",
        status=tried.status,
        heading=False,
    )


def describe_outcome(found: QueuedRequest) -> Html:
    """Return the state of a request as a sentence."""
    if found.approved is None:
        return join_html(quote_text(found.id), " (", quote_text(found.tool), ") ", _STATES[found.state], ".")
    verb = "was approved" if found.approved else "was denied"
    by = join_html(" by ", quote_text(found.by)) if found.by else None
    at = join_html(", ", show_time(found.decided_ms)) if found.decided_ms else None
    note = join_html(" Note: ", quote_text(found.note)) if found.note else None
    reach = _SCOPES.get(str(found.scope), "")
    return join_html(quote_text(found.id), " (", quote_text(found.tool), f") {verb} {reach}", by, at, ".", note)


def _make_card(request: ApprovalRequest) -> Card:
    summary = summarize(request)
    changes = show_changes(request)
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
        about=_show_facts(request, summary, claim),
        details=[(_show_label(each), each.value) for each in summary.details if each is not summary.claim],
        allow=("allow-once", "Allow once"),
        deny="deny-once",
        cut=cut or changes.cut or is_cut(summary.headline) or claim != reason,
        folded=_show_changes(request, whole=False),
    )


def _show_facts(request: ApprovalRequest, summary: Summary, claim: str) -> Html:
    return make_facts(
        show_asker(request.user, request.trace, request.client),
        ("Why", render_phrase(summary.reason)),
        ("Agent's reason", join_html(quote_text(claim), " (a claim)") if claim else None),
    )


def _show_label(detail: Detail) -> Html:
    return join_html(detail.label) if detail.label else quote_text(detail.name)


def _show_params(request: ApprovalRequest) -> Html:
    """Return all parameters in a readable form, and as JSON in a folded block."""
    rows = [(_show_label(each), tag("div", *_show_value(each.value))) for each in summarize(request).details]
    text = json.dumps(request.params, ensure_ascii=False, indent=2)
    raw = show_quotation(text.split("\n"), "Parameters as JSON")
    folded = tag("details", tag("summary", "As JSON"), raw)
    return join_html(make_facts(*rows) if rows else tag("p", "There are none."), folded)


def _show_value(value: str) -> tuple[Html, ...]:
    if "\n" not in value:
        return (quote_text(value),)
    return (show_quotation(value.split("\n"), "A parameter, chosen by others"),)


def _show_part(title: str, lines: tuple[str, ...]) -> Html | None:
    return join_html(tag("h2", title), show_quotation(lines, title)) if lines else None


def _show_changes(request: ApprovalRequest, *, whole: bool) -> Html | None:
    """Return the diff of a request in a block that is folded in the list."""
    lines = show_changes(request, whole=whole).lines
    if not lines:
        return None
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    title = f"Show the changes (+{added:,} -{removed:,} lines)"
    block = quote_lines(lines, kind="changes", label="Changes")
    return tag("details", tag("summary", title), block, open=whole)


def _make_more_form(frame: Frame, request: ApprovalRequest, form: Mapping[str, str]) -> Html:
    edit = show_answer(
        "Allow once with other parameters", "this call, with the parameters below", "",
        ("edit-once", "Allow once as edited"), edit_fields(request.params, form),
    )  # fmt: skip
    # SECURITY: if others may steer the call, only this call can be allowed.
    lasting = (
        ()
        if summarize(request).has_severe_caution
        else (*_show_session_answer(request), *_show_always_answer(request, form))
    )
    return more_form(
        frame, f"requests/{request.id}", request.user, *lasting, edit,
        form=form, deny="deny-once",
    )  # fmt: skip


def _show_session_answer(request: ApprovalRequest) -> tuple[Part, ...]:
    if not (request.may_be_remembered and request.trace):
        return ()
    covers = render_phrase(summarize(request).covers)
    ends = "when the session ends"
    return (
        show_answer("Allow for this session", covers, ends, ("allow-session", "Allow this session")),
        show_answer("Deny for this session", covers, ends, ("deny-session", "Deny this session")),
    )


def _show_always_answer(request: ApprovalRequest, form: Mapping[str, str]) -> tuple[Part, ...]:
    if not request.may_be_remembered:
        return ()
    covers = "exactly this call, in every session, and the differences that you allow below"
    ends = "when you forget it on the page Answers, or when the tool or its grant changes"
    fields = widening_fields(request.params, form)
    return (show_answer("Always allow", covers, ends, ("allow-always", "Always allow"), fields),)


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
        _show_denied_access(frame, access),
        tag("h2", "Ended"),
        tag("ul", *(tag("li", describe_outcome(each)) for each in ended))
        if ended
        else tag("p", "No request has ended yet."),
        section="remembered",
        status=status,
    )


def _show_denied_access(frame: Frame, access: AccessStore) -> Html | None:
    """Return the table of permanently denied access, or None."""
    refused = access.refused()[::-1][:_MAX_ANSWERS]
    header = ("Tool", "For", "Denied", "By", "Since (UTC)", "Forget it")
    return table("Permanently denied access", header, [_show_refusal(frame, e) for e in refused]) if refused else None


def _show_refusal(frame: Frame, request: AccessRequest) -> list[Part]:
    tool = request.caller.tool
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the denial of access to {tool}")
    return [
        quote_text(tool),
        quote_text(request.caller.user),
        tag("code", quote_text(request.denied.addition.hint)),
        quote_text(request.by),
        format_time(request.decided_ms or request.created_ms),
        frame.form(f"remembered/{request.id}", button),
    ]


def _answer_row(frame: Frame, answer: Remembered) -> list[Part]:
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the answer about {answer.tool}")
    return [
        quote_text(answer.tool),
        quote_text(answer.user),
        "approved" if answer.approved else "denied",
        _describe_pattern(answer),
        quote_text(answer.by),
        format_time(answer.made_ms),
        frame.form(f"remembered/{answer.id}", button),
    ]


def _describe_pattern(answer: Remembered) -> Html:
    if answer.pattern is None:
        return tag("span", "similar calls")
    text = json.dumps(answer.pattern.params, ensure_ascii=False)
    if len(text) > _MAX_PARAMS_CHARS:
        text = f"{text[:_MAX_PARAMS_CHARS]} ... {len(text) - _MAX_PARAMS_CHARS:,} more characters"
    return tag("span", quote_text(answer.pattern.words), ": ", tag("code", quote_text(text)))
