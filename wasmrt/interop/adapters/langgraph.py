"""LangGraph: a registry's tools in a graph that is interrupted if a call requires approval.

    graph = create_agent(model, tools_for(registry), checkpointer=InMemorySaver())

The interrupt's value is the question. To resume the graph, in this or a different process, pass
`Command(resume={"question": value["question"], "approved": True})`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.registry import ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.interop.adapters._bridge import FrameworkBridge, NameOrFunction, missing_framework_error
from wasmrt.interop.adapters._questions import Ask, FrameworkApprover, Question
from wasmrt.interop.adapters.langchain import RegistryTool, content

try:
    from langchain_core.runnables.config import ensure_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import interrupt
except ImportError as error:
    raise missing_framework_error("langgraph>=1.2") from error


class InterruptingTool(RegistryTool):
    """A registry's tool, whose calls interrupt the graph if they require approval."""

    def _run(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        key = self._call_key(call_id, params)
        answer = self.bridge.shown.kept(key)
        if answer is None:
            approver, config = self._request_approval(call_id, params), ensure_config()
            answer = self.bridge.answer(self.name, params, call_id=call_id, context=config, approver=approver)
        return self._store(key, answer)

    async def _arun(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        key = self._call_key(call_id, params)
        answer = self.bridge.shown.kept(key)
        if answer is None:
            approver, config = self._request_approval(call_id, params), ensure_config()
            answer = await self.bridge.aanswer(self.name, params, call_id=call_id, context=config, approver=approver)
        return self._store(key, answer)

    def _call_key(self, call_id: str, params: Any) -> tuple[str, ...]:
        """Return the identity of a call within a graph step, or an empty tuple outside a graph.

        An interrupted step repeats all its calls when the graph resumes.
        """
        step = ensure_config().get("configurable", {}).get("checkpoint_ns")
        return (str(step), call_id, self.name, repr(params)) if step and call_id else ()

    def _store(self, key: tuple[str, ...], answer: ToolAnswer) -> tuple[str, dict[str, Any]]:
        if key:
            self.bridge.shown.keep(key, answer)
        return content(answer)

    def _request_approval(self, call_id: str, params: Any) -> FrameworkApprover | None:
        """Interrupt the graph if the call requires approval; return the answer after the graph is resumed."""
        question = self.bridge.question(self.name, params, call_id, ensure_config())
        if question is None:
            return None
        shown = self.bridge.shown
        response: Any = shown.take_passed_on(question)
        # SECURITY: the calls of one step receive the resume values in any order. An answer is valid only for the
        # question that it names, and is passed on otherwise.
        while not (isinstance(response, Mapping) and question.is_meant_by(response.get("question"))):
            response = _interrupt(question)
            if isinstance(response, Mapping) and isinstance(response.get("question"), str):
                shown.pass_on(response["question"], response)
                response = shown.take_passed_on(question)
        token, answer = response["question"], _read_answer(response, self.bridge.framework)
        return FrameworkApprover(lambda now: now.is_meant_by(token), answer, call_id)


def _interrupt(question: Question) -> Any:
    try:
        return interrupt(question.as_dict())
    except GraphBubbleUp:
        raise
    except (RuntimeError, KeyError) as error:
        hint = "run the tool in a graph with a checkpointer, or use wasmrt.adapters.langchain"
        raise ConfigurationError(
            "an approval interrupts a LangGraph graph, but no graph is running", hint=hint
        ) from error


def _read_answer(response: Mapping[str, Any], framework: str) -> ApprovalAnswer:
    """Return the answer with which a graph was resumed; an incomplete answer is a denial."""
    by, note, params = response.get("by"), response.get("note"), response.get("parameters")
    try:
        return ApprovalAnswer(
            approved=response.get("approved") is True,
            by=by if isinstance(by, str) and by else framework,
            note=note if isinstance(note, str) else "",
            params=params if isinstance(params, Mapping) else None,
            way="framework",
        )
    except InvalidParametersError as error:
        raise ConfigurationError(f"invalid answer to the interrupt: {error.message}") from error


def tools_for(
    view: ToolView,
    *,
    user: NameOrFunction = "local",
    trace: NameOrFunction = "",
    data: Any = None,
    ask: Ask = "framework",
) -> list[InterruptingTool]:
    """Return the tools of a registry or view; `user` and `trace` are names, or functions of the `RunnableConfig`.

    With `ask="registry"`, or if the operator configured an approver, the registry's approver decides instead.
    """
    bridge = FrameworkBridge(view, "langgraph", user=user, trace=trace, data=data, ask=ask)
    return [
        InterruptingTool(name=each.name, description=each.description, args_schema=each.schema, bridge=bridge)
        for each in bridge.definitions()
    ]
