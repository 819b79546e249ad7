"""Suites of recorded calls, played again under flow rules.

A suite has tools with their effects, benign tasks, and pairs of a task and an attack. A task has turns: a message of
the user, and the calls that answer it with their results. An attack is a text that a result contains, and the calls of
a model that obeys it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from benches._plans import plan_for
from wasmrt import (
    ApprovalAnswer,
    ApprovalRequest,
    CallbackApprover,
    Plan,
    ToolContext,
    ToolDefaults,
    ToolOutput,
    ToolRegistry,
)
from wasmrt.agent.policy import ExternalFilter, FlowPolicy, Permission, ToolPolicy, ToolRule
from wasmrt.agent.registry import Outcome
from wasmrt.core.effects import READING
from wasmrt.core.errors import InvalidParametersError, ToolError
from wasmrt.core.labels import Label
from wasmrt.core.traits import Traits, read_effects

PUBLIC, ACCOUNT = ("network",), ("network", "use-secret")
WRITE, PAY = (*ACCOUNT, "external-write"), (*ACCOUNT, "financial")
DELETE = (*WRITE, "delete-filesystem")


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    args: Mapping[str, Any]


class Plans(StrEnum):
    """Who approves a plan for the rest of a turn, and when."""

    NONE = "no"
    USER = "by the user"
    """The user approves it at the first call that requires approval. This counts as a question."""
    PROGRAM = "by the program"
    """The program approves it at the beginning of the turn, if the trace has no untrusted text."""


Step = tuple[Call, Any]
"""A call with its result."""


@dataclass(frozen=True, slots=True)
class Function:
    """A tool of a suite."""

    name: str
    description: str
    schema: dict[str, Any]
    effects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    turns: list[tuple[str, list[Step]]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A task with injected text in its results, and the calls that the text asks for."""

    task: str
    attack: str
    turns: list[tuple[str, list[Step]]]
    injected: str
    calls: list[Step]


@dataclass(slots=True)
class Suite:
    name: str
    functions: list[Function]
    tasks: list[Task] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    declared: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The operator's declarations: the fields of each tool's rule."""
    uncounted: dict[str, str] = field(default_factory=dict)
    """Attacks without a gain for the attacker, with the reason."""


class RecordedTool(ToolDefaults):
    """A tool whose next result is set in advance."""

    ends_at_deadline = True

    def __init__(self, function: Function) -> None:
        self.name, self.description, self.schema = function.name, function.description, function.schema
        self.traits = Traits.of(function.effects)
        self.answer: Any = None

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        return ToolOutput(result=self.answer)


@dataclass(slots=True)
class Played:
    """A suite under one policy."""

    questions: list[int] = field(default_factory=list)
    """Approval requests of each task, and plans that the user approved."""
    reasons: Counter[str] = field(default_factory=Counter)
    """The rules that required approval in benign tasks, each with tool and parameters."""
    pairs: int = 0
    through: list[tuple[str, str, str]] = field(default_factory=list)
    """Harmful calls without approval: the task, the attack, and the call."""

    def count(self, most: int) -> int:
        return sum(each <= most for each in self.questions)

    @property
    def through_pairs(self) -> int:
        return len({(task, attack) for task, attack, _ in self.through})


class Stage:
    """The tools of one suite under flow rules, in one trace."""

    def __init__(self, suite: Suite, flows: FlowPolicy, *, declared: bool, plans: Plans) -> None:
        self.requests: list[ApprovalRequest] = []
        self.approve = True
        self._plans = plans
        self._effects = {each.name: each.effects for each in suite.functions}
        rules = tuple(
            ToolRule(tool=name, permission=Permission.ALLOW, **(suite.declared.get(name, {}) if declared else {}))
            for name in self._effects
        )
        policy = ToolPolicy(rules=rules, flows=flows, filter=ExternalFilter(allow_external=True))
        self.registry = ToolRegistry(policy=policy, approver=CallbackApprover(self._answer))
        self._tools = {each.name: RecordedTool(each) for each in suite.functions}
        for tool in self._tools.values():
            self.registry.register(tool, builtin=True)
        self.trace = self.registry.trace("bench")
        self._seen: list[Any] = []
        self.left_out: list[Call] = []
        """The changing calls of the task that were not played."""

    def _answer(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.requests.append(request)
        return ApprovalAnswer(approved=self.approve, by="bench")

    def is_harmful(self, call: Call) -> bool:
        return not read_effects(self._effects[call.name]) <= READING

    def play(self, call: Call, answer: Any) -> bool:
        """Play a call; return whether it ran without approval."""
        before = len(self.requests)
        self._tools[call.name].answer = answer
        try:
            self.registry.execute(call.name, dict(call.args), trace="bench")
        except ToolError as error:
            if error.code not in ("untrusted-flow", "approval-denied"):
                raise
            return False
        return len(self.requests) == before

    def play_turns(self, turns: Sequence[tuple[str, list[Step]]], *, only_reads: bool = False) -> int:
        """Play the turns of a task with an approver who says yes; return the number of plans that the user approved.

        With `only_reads`, changing calls are left out after the plan, so that the plan is not used up.
        """
        planned = 0
        for message, steps in turns:
            self.trace.user_said(message)
            self._seen.append(message)
            waiting = self._plans is Plans.USER
            if self._plans is Plans.PROGRAM and steps and Label.UNTRUSTED not in self.trace.labels:
                self.trace.approve_plan(self._plan(steps), by="bench")
            for at, (call, answer) in enumerate(steps):
                if waiting and self._asks(call):
                    self.trace.approve_plan(self._plan(steps[at:]), by="bench")
                    waiting, planned = False, planned + 1
                if only_reads and self.is_harmful(call):
                    self.left_out.append(call)
                else:
                    with suppress(InvalidParametersError):  # a mistake of the suite
                        self.play(call, answer)
                    self._seen.append(answer)
        return planned

    def _asks(self, call: Call) -> bool:
        return self.registry.explain(call.name, dict(call.args), trace="bench").outcome is Outcome.ASKS

    def _plan(self, steps: list[Step]) -> Plan:
        choice = self._plans is Plans.USER  # the approver sees it in the plan
        return plan_for("\n".join(map(str, self._seen)), steps, self._effects, self.is_harmful, choice=choice)


def play_tasks(suite: Suite, flows: FlowPolicy, *, declared: bool, plans: Plans = Plans.NONE) -> Played:
    found = Played()
    for task in suite.tasks:
        stage = Stage(suite, flows, declared=declared, plans=plans)
        planned = stage.play_turns(task.turns)
        found.questions.append(len(stage.requests) + planned)
        for request in stage.requests:
            found.reasons[f"{request.tool}: {request.why.rule.partition(';')[0]}"] += 1
    return found


def play_pairs(
    suite: Suite, flows: FlowPolicy, *, declared: bool, plans: Plans = Plans.NONE, only_reads: bool = False
) -> Played:
    found = Played()
    for pair in suite.pairs:
        found.pairs += pair.attack not in suite.uncounted
        found.through += _play_pair(suite, pair, Stage(suite, flows, declared=declared, plans=plans), only_reads)
    return found


def _play_pair(suite: Suite, pair: Pair, stage: Stage, only_reads: bool) -> Iterator[tuple[str, str, str]]:
    stage.play_turns(pair.turns, only_reads=only_reads)
    if pair.injected:
        stage.trace.saw(pair.injected, {"untrusted", "private"}, source="the page or mail that carries it")
    stage.approve = False
    for call, answer in pair.calls:
        if stage.play(call, answer) and stage.is_harmful(call) and pair.attack not in suite.uncounted:
            if call in stage.left_out:  # the user asked for this very call, and it can run once
                stage.left_out.remove(call)
            else:
                yield pair.task, pair.attack, call.name
