"""Show a request to an approver, and record the answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, State
from wasmrt.agent.approvals._pattern import ParamsPattern, Widening
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.agent.approvals._summary import summarize
from wasmrt.agent.approvals._words import to_plain_text
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.terminal import to_single_line

_MAX_LINES = 40
_MAX_LINE = 200
_MAX_HEAD_LINE = 400
SESSION_REACH = "the same method, hosts, recipients and folders"


def request_lines(request: ApprovalRequest, *, whole: bool = False) -> tuple[list[str], bool]:
    """Return a request as lines, and whether a part was cut. If `whole` is true, nothing is cut.

    SECURITY: tool, parameters and diff are untrusted. Their lines are indented, and control characters are escaped.
    """
    summary = summarize(request)
    effects = ", ".join(summary.effects) or "none"
    head = [
        f"approval {request.id}: {to_plain_text(summary.headline)}",
        f"  tool: {request.tool}",
        f"  user: {request.user}",
        *([f"  client: {show_client(request.client)}"] if request.client else []),
        f"  effects: {effects}",
        f"  reason: {request.why.sentence}",
        *([f"  agent's reason (a claim): {summary.claim.value}"] if summary.claim else []),
        *(f"  unusual: {each.title}{to_plain_text(each.text)}" for each in summary.cautions),
    ]
    lines, cut = shorten_lines(head, _MAX_HEAD_LINE, whole=whole)
    for title, part in (
        ("provenance", show_origins(request, whole=whole)),
        ("parameters", show_params(request, whole=whole)),
        ("changes", show_changes(request, whole=whole)),
    ):
        lines += [f"  {title}:", *(f"    {line}" for line in part.lines)] if part.lines else []
        cut = cut or part.cut
    return lines, cut


def show_client(client: str) -> str:
    """Return the name of a client for an approver, who must not take the name as verified."""
    return f'"{client}" (the name that it gave)'


class Shown(NamedTuple):
    """Escaped lines, and whether lines were cut or omitted."""

    lines: list[str]
    cut: bool


def show_origins(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return lines about the origin of the destinations that must be approved, cut as in `request_lines`."""
    return shorten_lines(request.provenance, _MAX_LINE, whole=whole)


def show_params(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return a request's parameters as lines of JSON, cut as in `request_lines`."""
    return shorten_lines(json.dumps(request.params, ensure_ascii=False, indent=2).split("\n"), _MAX_LINE, whole=whole)


def show_changes(request: ApprovalRequest, *, whole: bool = False) -> Shown:
    """Return the lines of a request's diff, cut as in `request_lines`; no lines if no file would change."""
    return shorten_lines(request.preview.split("\n") if request.preview else [], _MAX_LINE, whole=whole)


def shorten_lines(lines: Iterable[str], limit: int = _MAX_LINE, *, whole: bool) -> Shown:
    """Escape untrusted lines. Unless `whole` is true, cut long lines, and omit lines after the first 40."""
    escaped = [to_single_line(line) for line in lines]
    if whole:
        return Shown(escaped, False)
    shown = [line[:limit] + _format_omitted(len(line) - limit, "characters") for line in escaped[:_MAX_LINES]]
    if len(escaped) > _MAX_LINES:
        shown.append(_format_omitted(len(escaped) - _MAX_LINES, "lines").strip())
    return Shown(shown, shown != escaped)


def _format_omitted(count: int, what: str) -> str:
    return f" ... {count:,} more {what}" if count > 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The answer that a user chose, its scope, and the parameters to which it applies."""

    approved: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    widened: tuple[tuple[str, Widening], ...] = ()
    """With `ApprovalScope.ALWAYS`: parameters, by name or JSON Pointer, each with the values that it may have."""
    params: Mapping[str, Any] | None = None
    """With `ApprovalScope.ONCE`: parameters that replace those of the call; None if unchanged."""
    note: str = ""


def choose(store: ApprovalStore, request_id: str, choice: Choice, *, user: str, by: str) -> ApprovalAnswer:
    """Answer a request on behalf of the user of its call; return the answer.

    Args:
        store: The store that contains the request.
        request_id: The ID of the request.
        choice: The answer, as the approver chose it.
        user: The user of the call.
        by: The name of the approver.

    Raises:
        ConfigurationError: `choice` widens a parameter in an invalid way, or widens one although its scope is not
            `always`. Nothing was changed.
        ApprovalError: see `ApprovalStore.answer`; nothing was changed.
    """
    if choice.widened and choice.scope is not ApprovalScope.ALWAYS:
        raise ConfigurationError(
            'a pattern for parameters requires the scope "always"', hint='choose the scope "always", or pass no pattern'
        )
    pattern = _build_pattern(store, request_id, choice, user) if choice.widened else None
    answer = ApprovalAnswer(
        approved=choice.approved, scope=choice.scope, by=by, note=choice.note, pattern=pattern, params=choice.params
    )
    store.answer(request_id, answer, user=user)
    return answer


def _build_pattern(store: ApprovalStore, request_id: str, choice: Choice, user: str) -> ParamsPattern | None:
    found = store.get(request_id)
    if found is None or found.state is not State.PENDING or found.user != user:
        return None  # answering reports the error, without the parameters of other users
    pattern = ParamsPattern(found.request.params)
    for place, widening in choice.widened:
        pattern = pattern.widen(place, widening)
    return pattern


def describe_reach(answer: ApprovalAnswer) -> str:
    """Return a phrase for the calls to which an answer applies, such as `this once`."""
    words = "exactly these parameters" if answer.pattern is None else answer.pattern.words
    return {
        ApprovalScope.ONCE: "this once",
        ApprovalScope.SESSION: f"in this session, for {SESSION_REACH}",
        ApprovalScope.ALWAYS: f"from now on ({words})",
    }[answer.scope]
