"""Code shared by the adapters: definitions of tools, calls with their user and trace, and call metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypedDict

from wasmrt.agent.policy import ApproverKind
from wasmrt.agent.registry import ToolAnswer, ToolCall, ToolView, preview_approval
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.interop.adapters._questions import Ask, FrameworkApprover, Question, QuestionsShown, get_questions

NameOrFunction = str | Callable[[Any], str]
"""The name of a user or trace, or a function that returns it for the framework's context of a run."""


class Definition(NamedTuple):
    """A tool's definition for a framework. `name` is the name for models."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolDeclaration(TypedDict, total=False):
    """Properties of a function tool that a program declares for a registry; see `SchemaTool`."""

    effects: Iterable[Effect | str] | None
    actions: Mapping[str, Iterable[Effect | str]] | None
    timeout_seconds: float


def missing_framework_error(package: str) -> ConfigurationError:
    """Create the error for a framework that is not installed or too old."""
    command = f"pip install -U '{package}'"
    # The message contains the command, too: the traceback of a failed import does not show the hint.
    return ConfigurationError(f"this adapter needs {package}: {command}", code="missing-extra", hint=command)


def check_view(view: object) -> None:
    """Raise `ConfigurationError` unless `view` is a registry or a view."""
    if not isinstance(view, ToolView):
        problem = f"expected a ToolRegistry or a view of one, got {view!r:.80}"
        raise ConfigurationError(problem, hint="pass a ToolRegistry")


class FrameworkBridge:
    """A view for one framework, with the user, trace and approver of its calls."""

    def __init__(
        self,
        view: ToolView,
        framework: str,
        *,
        user: NameOrFunction,
        trace: NameOrFunction,
        data: Any = None,
        ask: Ask = "registry",
    ) -> None:
        check_view(view)
        if ask not in ("framework", "registry"):
            raise ConfigurationError(f"ask: expected 'framework' or 'registry', got {ask!r:.40}")
        self.view = view
        self.framework = framework
        self._user, self._trace, self._data = user, trace, data
        # SECURITY: if the operator configured an approver, no other approver can answer.
        self.asks_framework = ask == "framework" and view.policy.approver is ApproverKind.AUTO

    def definitions(self) -> list[Definition]:
        """Return the current tools of the view, in the form that most providers accept."""
        declared = (each["function"] for each in self.view.definitions("openai"))
        return [Definition(each["name"], each["description"], each["parameters"]) for each in declared]

    @property
    def shown(self) -> QuestionsShown:
        """The questions of this registry that frameworks have shown in this process."""
        return get_questions(self.view.approvals)

    def question(self, name: str, params: Any, call_id: str, context: Any = None) -> Question | None:
        """Return the approval question that the framework must show before a call, or None."""
        if not self.asks_framework:
            return None
        request = preview_approval(self.view, name, params, **self._caller(context))
        return None if request is None else Question.of(request, call_id)

    def answer(
        self,
        name: str,
        params: Any,
        *,
        call_id: str = "",
        context: Any = None,
        approver: FrameworkApprover | None = None,
    ) -> ToolAnswer:
        """Make a call through the view, and return its result or failure."""
        call = ToolCall(call_id, name, params)
        return self.view.answer(call, data=self._data, approver=approver, **self._caller(context))

    async def aanswer(
        self,
        name: str,
        params: Any,
        *,
        call_id: str = "",
        context: Any = None,
        approver: FrameworkApprover | None = None,
    ) -> ToolAnswer:
        """Make a call through the view, and return its result or failure; cancelling it ends the tool."""
        call = ToolCall(call_id, name, params)
        return await self.view.aanswer(call, data=self._data, approver=approver, **self._caller(context))

    def _caller(self, context: Any) -> dict[str, Any]:
        names = {"user": self._user, "trace": self._trace}
        return {key: value(context) if callable(value) else value for key, value in names.items()}


def is_correctable(answer: ToolAnswer) -> bool:
    """Return whether the model can correct the call with different arguments."""
    return isinstance(answer.error, InvalidParametersError)


def answer_data(answer: ToolAnswer) -> dict[str, Any]:
    """Return metadata of a call as JSON data, for programs; it is not sent to a model."""
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
