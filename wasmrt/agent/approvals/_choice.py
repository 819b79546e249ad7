"""A person's choice about a request in the queue, as a command or a page takes it down."""

from __future__ import annotations

from dataclasses import dataclass

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalScope
from wasmrt.agent.approvals._pattern import ParamsPattern, Widening
from wasmrt.agent.approvals._rows import State
from wasmrt.agent.approvals._store import ApprovalStore
from wasmrt.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Yes or no, for how long, and for which other parameters."""

    approved: bool
    scope: ApprovalScope = ApprovalScope.ONCE
    widened: tuple[tuple[str, Widening], ...] = ()
    """With `ApprovalScope.ALWAYS`: parameters' names or JSON Pointers, and the values that they may have."""
    note: str = ""


def choose(store: ApprovalStore, request_id: str, choice: Choice, *, user: str, by: str) -> ApprovalAnswer:
    """Answer a request on behalf of the user whose call it is; return the answer.

    Args:
        store: The queue.
        request_id: The request.
        choice: What the person chose.
        user: Whose call it is.
        by: Who answers.

    Raises:
        ConfigurationError: what was to be widened cannot be, or is not remembered; nothing was changed.
        ApprovalError: as `ApprovalStore.answer` says; nothing was changed.
    """
    if choice.widened and choice.scope is not ApprovalScope.ALWAYS:
        raise ConfigurationError("parameters are widened for an answer that holds always", hint="choose that scope")
    pattern = _pattern(store, request_id, choice, user) if choice.widened else None
    answer = ApprovalAnswer(approved=choice.approved, scope=choice.scope, by=by, note=choice.note, pattern=pattern)
    store.answer(request_id, answer, user=user)
    return answer


def _pattern(store: ApprovalStore, request_id: str, choice: Choice, user: str) -> ParamsPattern | None:
    found = store.get(request_id)
    if found is None or found.state is not State.PENDING or found.user != user:
        return None  # answering it says why it cannot be, and tells nobody else's parameters
    pattern = ParamsPattern(found.request.params)
    for place, widening in choice.widened:
        pattern = pattern.widen(place, widening)
    return pattern


def reach_in_words(answer: ApprovalAnswer) -> str:
    """Return how far an answer reaches: `this once`."""
    words = "exactly these parameters" if answer.pattern is None else answer.pattern.words
    return {
        ApprovalScope.ONCE: "this once",
        ApprovalScope.SESSION: "in this session, whatever its parameters",
        ApprovalScope.ALWAYS: f"from now on ({words})",
    }[answer.scope]
