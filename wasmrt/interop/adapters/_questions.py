"""Approval questions that a framework shows to its users, and their answers.

A framework's answer arrives in a later call, possibly in a different process. It is valid only for the shown question:
the same tool version, grant, parameters, user and reason, for the same call of the model, before it expires.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from blake3 import blake3

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approvals, headline_text, request_lines
from wasmrt.agent.registry import ToolAnswer
from wasmrt.core.limits import MAX_PENDING_APPROVALS

Ask = Literal["framework", "registry"]
"""Who approves calls: the users of the framework, or the approver of the registry."""


@dataclass(frozen=True, slots=True)
class Question:
    """An approval request of the registry for one call of a model."""

    request: ApprovalRequest
    call_id: str
    expires_ms: int

    @classmethod
    def of(cls, request: ApprovalRequest, call_id: str, expires_ms: int | None = None) -> Question:
        """Create a question. To compare it with a shown question, pass the `expires_ms` of that question."""
        return cls(request, call_id, request.expires_ms if expires_ms is None else expires_ms)

    @property
    def version(self) -> str:
        """Everything to which an approval is bound except the parameters; empty if the tool has no digest."""
        request = self.request
        parts = (request.user, request.tool, request.digest, request.grant, *request.effects, request.why.rule)
        parts += tuple(sorted(request.destinations))  # an approval covers only these destinations
        return "\n".join(parts) if request.may_be_remembered else ""

    @property
    def token(self) -> str:
        """The expiry time, and a digest of everything to which the answer is bound."""
        bound = f"{self.call_id}\n{self.request.binding}\n{self.expires_ms}".encode("utf-8", "surrogatepass")
        return f"{self.expires_ms}-{blake3(bound).hexdigest()}"

    def is_meant_by(self, token: Any) -> bool:
        """Return whether a returned token is for this question and has not expired."""
        expires = token.partition("-")[0] if isinstance(token, str) else ""
        if not (expires.isascii() and expires.isdecimal() and len(expires) < 16) or _get_now_ms() >= int(expires):
            return False
        meant: bool = Question.of(self.request, self.call_id, int(expires)).token == token
        return meant

    def as_dict(self) -> dict[str, Any]:
        """Return the question as JSON data for a user; `lines` is its full text, escaped for a terminal."""
        request = self.request
        return {
            "question": self.token,
            "headline": headline_text(request),
            "tool": request.tool,
            "parameters": dict(request.params),
            "effects": [str(each) for each in request.effects],
            "risk": request.risk,
            "why": request.why.sentence,
            "user": request.user,
            "lines": request_lines(request, whole=True)[0][1:],
        }


class QuestionsShown:
    """The questions that frameworks have shown. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: dict[tuple[str, str], Question] = {}
        self._answered: dict[str, None] = {}
        self._passed_on: dict[str, Mapping[str, Any]] = {}
        self._ended: dict[tuple[str, ...], ToolAnswer] = {}

    def add(self, question: Question) -> None:
        """Remember a question that was shown. If there are too many, forget the oldest one; it is then shown again."""
        with self._lock:
            now = _get_now_ms()
            self._shown = {key: each for key, each in self._shown.items() if each.expires_ms > now}
            _put(self._shown, (question.call_id, question.request.binding), question)

    def has(self, question: Question) -> bool:
        """Return whether a question was shown and has not expired."""
        with self._lock:
            found = self._shown.get((question.call_id, question.request.binding))
        return found is not None and found.expires_ms > _get_now_ms()

    def take(self, question: Question) -> bool:
        """Remove a question, so that its answer is used once; return whether it was shown and has not expired."""
        with self._lock:
            found = self._shown.pop((question.call_id, question.request.binding), None)
            if found is None or found.expires_ms <= _get_now_ms():
                return False
            _put(self._answered, question.version, None)
        return True

    def was_answered(self, question: Question) -> bool:
        """Return whether a question about the same tool version was answered, whatever its parameters."""
        with self._lock:
            return bool(question.version) and question.version in self._answered

    def pass_on(self, token: str, response: Mapping[str, Any]) -> None:
        """Store an answer that arrived with a different call than the one that `token`, of its question, identifies."""
        with self._lock:
            _put(self._passed_on, token, response)

    def take_passed_on(self, question: Question) -> Mapping[str, Any] | None:
        """Remove and return an answer that arrived with a different call, or None."""
        with self._lock:
            token = next((token for token in self._passed_on if question.is_meant_by(token)), None)
            return None if token is None else self._passed_on.pop(token)

    def keep(self, call: tuple[str, ...], answer: ToolAnswer) -> None:
        """Store the answer of a call, for a framework that repeats calls."""
        with self._lock:
            _put(self._ended, call, answer)

    def kept(self, call: tuple[str, ...]) -> ToolAnswer | None:
        """Return the stored answer of a call, or None."""
        with self._lock:
            return self._ended.get(call)

    def params_of(self, call_id: str) -> Mapping[str, Any] | None:
        """Return the parameters that were last shown for a call, or None."""
        with self._lock:
            found = [each.request.params for (call, _), each in self._shown.items() if call == call_id]
        return found[-1] if found else None


def _put(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Store a value, and remove the oldest entry if there are too many."""
    if key not in entries and len(entries) >= MAX_PENDING_APPROVALS:
        del entries[next(iter(entries))]
    entries[key] = value


class FrameworkApprover:
    """An approver that gives the answer of a framework's user to one shown question.

    SECURITY: it receives the request of the current call. If that differs from the shown request, because the tool, its
    grant or the policy has changed since then, the call is denied.
    """

    for_one_call = True
    """The answer is not used for inner calls of a program: the question did not show them."""

    def __init__(self, fits: Callable[[Question], bool], answer: ApprovalAnswer, call_id: str) -> None:
        self._fits = fits
        self._answer = answer
        self._call_id = call_id

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """Return the answer if the request is the one that the framework showed, otherwise a denial."""
        if self._fits(Question.of(request, self._call_id)):
            return self._answer
        return ApprovalAnswer(approved=False, note="the approval was for a different call")


_shown: WeakKeyDictionary[Approvals, QuestionsShown] = WeakKeyDictionary()
_lock = threading.Lock()


def get_questions(approvals: Approvals) -> QuestionsShown:
    """Return the shown questions of a registry, shared by all its adapters."""
    with _lock:
        return _shown.setdefault(approvals, QuestionsShown())


def _get_now_ms() -> int:
    return time.time_ns() // 1_000_000
