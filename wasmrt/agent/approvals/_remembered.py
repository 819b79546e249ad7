"""Remembered answers: what each is bound to, and the quick search for the one that fits a request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from blake3 import blake3

from wasmrt.agent.approvals._model import ApprovalAnswer, ApprovalRequest, ApprovalScope, new_request_id
from wasmrt.agent.approvals._pattern import ParamsPattern
from wasmrt.core.effects import Effect
from wasmrt.core.limits import MAX_REMEMBERED_ANSWERS

Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """An answer that holds for later requests too, and everything that these have to have in common with the first."""

    id: str
    approved: bool
    scope: ApprovalScope
    user: str
    tool: str
    digest: str
    grant: str
    trace: str
    """Empty unless the scope is a session."""
    asked: str
    """The reason and the rule for which a person was asked: a request for another reason asks again."""
    effects: frozenset[Effect]
    pattern: ParamsPattern | None
    """None for any parameters."""
    by: str
    note: str
    made_ms: int

    @classmethod
    def of(cls, request: ApprovalRequest, answer: ApprovalAnswer, *, now_ms: int) -> Remembered:
        """Return what is remembered of an answer that holds for more than its request."""
        pattern = answer.pattern
        if pattern is None and answer.scope is not ApprovalScope.SESSION:
            pattern = ParamsPattern(request.params if answer.params is None else answer.params)
        return cls(
            id=new_request_id(),
            approved=answer.approved,
            scope=answer.scope,
            user=request.user,
            tool=request.tool,
            digest=request.digest,
            grant=request.grant,
            trace=request.trace if answer.scope is ApprovalScope.SESSION else "",
            asked=_asked(request),
            effects=frozenset(request.effects),
            pattern=pattern,
            by=answer.by,
            note=answer.note,
            made_ms=now_ms,
        )

    @property
    def key(self) -> Key:
        """Everything that has to be equal before the rest is compared."""
        return self.user, self.tool, self.digest, self.grant

    @property
    def binding(self) -> tuple[Any, ...]:
        """All that it is bound to: of two with the same binding the later one replaces the earlier."""
        pattern = None if self.pattern is None else repr(self.pattern.as_dict())
        return (*self.key, self.scope, self.trace, self.asked, self.effects, pattern)

    def matches(self, request: ApprovalRequest) -> bool:
        """Return whether the answer holds for this request.

        SECURITY: everything has to be what the person saw. A tool without a digest may be another one each time.
        """
        return (
            request.may_be_remembered
            and self.key == request_key(request)
            and (self.scope is not ApprovalScope.SESSION or self.trace == request.trace != "")
            and self.asked == _asked(request)
            and self.effects.issuperset(request.effects)
            and (self.pattern is None or self.pattern.matches(request.params))
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the answer, and what it is bound to, as JSON data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        effects = sorted(str(effect) for effect in self.effects)
        return data | {"effects": effects, "pattern": None if self.pattern is None else self.pattern.as_dict()}

    @property
    def answer(self) -> ApprovalAnswer:
        """The answer that a matching request gets."""
        return ApprovalAnswer(
            approved=self.approved, scope=self.scope, by=self.by, note=self.note, pattern=self.pattern, remembered=True
        )


class Answers:
    """Remembered answers by what they are bound to. Not safe from threads by itself."""

    def __init__(self, answers: Iterable[Remembered] = (), *, limit: int = MAX_REMEMBERED_ANSWERS) -> None:
        self._limit = limit
        self._by_key: dict[Key, dict[tuple[Any, ...], Remembered]] = {}
        self._order: dict[str, Remembered] = {}
        for answer in answers:
            self.add(answer)

    def __iter__(self) -> Iterator[Remembered]:
        return iter(self._order.values())

    def add(self, answer: Remembered) -> None:
        """Keep an answer; the oldest goes where there are too many, and its tool asks again."""
        same = self._by_key.setdefault(answer.key, {})
        binding = answer.binding
        if (replaced := same.get(binding)) is not None:
            del self._order[replaced.id]
        same[binding] = answer
        self._order[answer.id] = answer
        if len(self._order) > self._limit:
            self.drop(next(iter(self._order.values())))

    def drop(self, answer: Remembered) -> None:
        """Forget an answer."""
        del self._order[answer.id]
        same = self._by_key[answer.key]
        del same[answer.binding]
        if not same:
            del self._by_key[answer.key]

    def find(self, request: ApprovalRequest) -> Remembered | None:
        """Return the answer that holds for a request. SECURITY: of two that disagree the denial."""
        same = self._by_key.get(request_key(request))
        if not same:
            return None
        found = None
        for answer in same.values():
            if answer.matches(request):
                if not answer.approved:
                    return answer
                found = answer
        return found


def request_key(request: ApprovalRequest) -> Key:
    """Return what a remembered answer and a request have to have in common."""
    return request.user, request.tool, request.digest, request.grant


def _asked(request: ApprovalRequest) -> str:
    asked = f"{request.why.reason}: {request.why.rule}"
    if not request.destinations:
        return asked
    # SECURITY: a yes to one destination is none to another.
    text = "\n".join(sorted(request.destinations))
    return f"{asked} [{blake3(text.encode('utf-8', 'replace')).hexdigest()}]"
