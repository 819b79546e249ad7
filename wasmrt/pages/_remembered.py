"""The page of remembered answers, which can be forgotten, and of the requests that have ended."""

from __future__ import annotations

import json

from wasmrt.approvals import ApprovalStore, Remembered
from wasmrt.audit.words import in_words
from wasmrt.pages._frame import Frame, table
from wasmrt.pages._html import Html, Part, foreign, tag
from wasmrt.pages._waiting import outcome
from wasmrt.web import Response

_MAX_ENDED = 50
_MAX_ANSWERS = 500
_MAX_PARAMS_CHARS = 300


def remembered_page(frame: Frame, store: ApprovalStore, *, problem: Html | None = None, status: int = 200) -> Response:
    """Return the page of what is remembered, the newest first, and of the latest requests that have ended."""
    answers, ended = store.answers()[::-1], store.decided(_MAX_ENDED)
    header = ("Tool", "For", "Answer", "Parameters", "By", "Since (UTC)", "Forget it")
    rows = [_row(frame, answer) for answer in answers[:_MAX_ANSWERS]]
    more = len(answers) - _MAX_ANSWERS
    return frame.page(
        "Remembered",
        problem,
        tag("p", "A call that one of these answers fits is not asked about again. One that is forgotten asks again."),
        table("Answers that hold always", header, rows) if rows else tag("p", "No answer is remembered."),
        tag("p", f"{more:,} older ones are left out; wasmrt approvals list shows all.") if more > 0 else None,
        tag("h2", "Ended"),
        tag("ul", *(tag("li", outcome(each)) for each in ended)) if ended else tag("p", "No request has ended yet."),
        section="remembered",
        status=status,
    )


def _row(frame: Frame, answer: Remembered) -> list[Part]:
    button = tag("button", "Forget", type="submit", aria_label=f"Forget the answer about {answer.tool}")
    return [
        foreign(answer.tool),
        foreign(answer.user),
        "approved" if answer.approved else "denied",
        _params(answer),
        foreign(answer.by),
        in_words(answer.made_ms),
        frame.form(f"remembered/{answer.id}", button),
    ]


def _params(answer: Remembered) -> Html:
    if answer.pattern is None:
        return tag("span", "any parameters")
    text = json.dumps(answer.pattern.params, ensure_ascii=False)
    if len(text) > _MAX_PARAMS_CHARS:
        text = f"{text[:_MAX_PARAMS_CHARS]} ... {len(text) - _MAX_PARAMS_CHARS:,} more characters"
    return tag("span", foreign(answer.pattern.words), ": ", tag("code", foreign(text)))
