"""The page of remembered answers and ended requests."""

from __future__ import annotations

import json

from wasmrt.agent.access import AccessRequest, AccessStore
from wasmrt.agent.approvals import ApprovalStore, Remembered
from wasmrt.interop.pages._html import Frame, Html, Part, foreign, table, tag
from wasmrt.interop.pages._waiting import outcome
from wasmrt.interop.web import Response
from wasmrt.runtime.audit.report import format_time

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
        return tag("span", "similar calls")
    text = json.dumps(answer.pattern.params, ensure_ascii=False)
    if len(text) > _MAX_PARAMS_CHARS:
        text = f"{text[:_MAX_PARAMS_CHARS]} ... {len(text) - _MAX_PARAMS_CHARS:,} more characters"
    return tag("span", foreign(answer.pattern.words), ": ", tag("code", foreign(text)))
