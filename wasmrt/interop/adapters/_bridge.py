"""The part that adapters share: a view's tools, a call's circumstances, its answer as data, a missing framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from wasmrt.agent.policy import ApproverKind
from wasmrt.agent.registry import ToolAnswer, ToolCall, ToolView
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.interop.adapters._questions import Answered, Ask, Question, QuestionsShown, shown_to

Named = str | Callable[[Any], str]
"""A user or a trace: the name, or a function from the framework's own context of a run to it."""


class Definition(NamedTuple):
    """A tool as every framework declares it; the name is the one that a model calls."""

    name: str
    description: str
    schema: dict[str, Any]


class Declared(TypedDict, total=False):
    """Facts about a function tool that a program declares for a registry, as `SchemaTool` takes them."""

    effects: Iterable[Effect | str] | None
    actions: Mapping[str, Iterable[Effect | str]] | None
    timeout_seconds: float


def missing(package: str) -> ConfigurationError:
    """Return the error of a framework that is not installed, or too old."""
    command = f"pip install -U '{package}'"
    # Also in the message: the traceback of a failed import shows nothing else.
    return ConfigurationError(f"this adapter needs {package}: {command}", code="missing-extra", hint=command)


def check_view(view: object) -> None:
    """Raise `ConfigurationError` unless `view` is a registry or a view."""
    if not isinstance(view, ToolView):
        raise ConfigurationError(f"{view!r:.80} is no registry and no view of one", hint="pass a ToolRegistry")


class Bridge:
    """A view for one framework, with the user, trace and approver of its calls."""

    def __init__(
        self, view: ToolView, framework: str, *, user: Named, trace: Named, data: Any = None, ask: Ask = "registry"
    ) -> None:
        check_view(view)
        if ask not in ("framework", "registry"):
            raise ConfigurationError(f"ask is framework or registry, not {ask!r:.40}")
        self.view = view
        self.framework = framework
        self._user, self._trace, self._data = user, trace, data
        # SECURITY: if the operator configured an approver, no other one answers.
        self.asks_framework = ask == "framework" and view.policy.approver is ApproverKind.AUTO

    def definitions(self) -> list[Definition]:
        """Return the current tools of the view, in the form that most providers accept."""
        declared = (each["function"] for each in self.view.definitions("openai"))
        return [Definition(each["name"], each["description"], each["parameters"]) for each in declared]

    @property
    def shown(self) -> QuestionsShown:
        """The questions of this registry that frameworks show in this process."""
        return shown_to(self.view.approvals)

    def question(self, name: str, params: Any, call_id: str, context: Any = None) -> Question | None:
        """Return the approval question that the framework must show before a call, or None."""
        if not self.asks_framework:
            return None
        request = self.view.asks(name, params, **self._circumstances(context))
        return None if request is None else Question.of(request, call_id)

    def answer(
        self, name: str, params: Any, *, call_id: str = "", context: Any = None, approver: Answered | None = None
    ) -> ToolAnswer:
        """Make a call through the view, blocking; a failure is an answer too."""
        call = ToolCall(call_id, name, params)
        return self.view.answer(call, data=self._data, approver=approver, **self._circumstances(context))

    async def aanswer(
        self, name: str, params: Any, *, call_id: str = "", context: Any = None, approver: Answered | None = None
    ) -> ToolAnswer:
        """Make a call through the view; cancelling it ends the tool."""
        call = ToolCall(call_id, name, params)
        return await self.view.aanswer(call, data=self._data, approver=approver, **self._circumstances(context))

    def _circumstances(self, context: Any) -> dict[str, Any]:
        return {"user": _named(self._user, context), "trace": _named(self._trace, context)}


def _named(value: Named, context: Any) -> str:
    return value(context) if callable(value) else value


def correctable(answer: ToolAnswer) -> bool:
    """Return whether a model can fix the call with different arguments."""
    return isinstance(answer.error, InvalidParametersError)


def answer_data(answer: ToolAnswer) -> dict[str, Any]:
    """Return metadata of a call for programs, as JSON data that is not sent to a model."""
    done = answer.output or answer.error
    usage = None if done is None else done.usage
    return {
        "call_id": "" if done is None else done.call_id,
        "outcome": "ok" if answer.error is None else answer.error.code,
        "usage": {} if usage is None else usage.as_dict(),
        "seconds": 0.0 if answer.output is None else answer.output.duration,
        "truncated": answer.truncated,
        "needs_review": answer.needs_review,
    }
