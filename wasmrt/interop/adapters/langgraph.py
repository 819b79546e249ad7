"""LangGraph: a registry's tools in a graph that is interrupted where a person has to approve a call.

    graph = create_agent(model, tools_for(registry), checkpointer=InMemorySaver())

The interrupt's value says what is asked. The graph goes on with
`Command(resume={"question": value["question"], "approved": True})`, in this process or another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.agent.registry import ToolAnswer, ToolView
from wasmrt.core.errors import ConfigurationError, InvalidParametersError
from wasmrt.interop.adapters._bridge import Bridge, Named, missing
from wasmrt.interop.adapters._questions import Answered, Ask, Question
from wasmrt.interop.adapters.langchain import RegistryTool, content

try:
    from langchain_core.runnables.config import ensure_config
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import interrupt
except ImportError as error:
    raise missing("langgraph>=1.2") from error


class InterruptingTool(RegistryTool):
    """One tool of a registry, whose calls interrupt the graph where a person has to approve them."""

    def _run(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        made = self._made(call_id, params)
        answer = self.bridge.shown.kept(made)
        if answer is None:
            approver, config = self._asked(call_id, params), ensure_config()
            answer = self.bridge.answer(self.name, params, call_id=call_id, context=config, approver=approver)
        return self._kept(made, answer)

    async def _arun(self, call_id: str, params: Any) -> tuple[str, dict[str, Any]]:
        made = self._made(call_id, params)
        answer = self.bridge.shown.kept(made)
        if answer is None:
            approver, config = self._asked(call_id, params), ensure_config()
            answer = await self.bridge.aanswer(self.name, params, call_id=call_id, context=config, approver=approver)
        return self._kept(made, answer)

    def _made(self, call_id: str, params: Any) -> tuple[str, ...]:
        """Return the identity of a call within a graph step, empty outside a graph.

        An interrupted step repeats all its calls when the graph resumes.
        """
        step = ensure_config().get("configurable", {}).get("checkpoint_ns")
        return (str(step), call_id, self.name, repr(params)) if step and call_id else ()

    def _kept(self, made: tuple[str, ...], answer: ToolAnswer) -> tuple[str, dict[str, Any]]:
        if made:
            self.bridge.shown.keep(made, answer)
        return content(answer)

    def _asked(self, call_id: str, params: Any) -> Answered | None:
        """Interrupt the graph where a person has to be asked; after it, return their answer."""
        question = self.bridge.question(self.name, params, call_id, ensure_config())
        if question is None:
            return None
        shown = self.bridge.shown
        said: Any = shown.passed_on(question)
        # SECURITY: the tools of one step share what the graph is resumed with, in no certain order: an answer counts
        # only for the question that it names; answers to different ones are skipped.
        while not (isinstance(said, Mapping) and question.is_meant_by(said.get("question"))):
            said = _interrupted(question)
            if isinstance(said, Mapping) and isinstance(said.get("question"), str):
                shown.pass_on(said["question"], said)
                said = shown.passed_on(question)
        token, answer = said["question"], _read(said, self.bridge.framework)
        return Answered(lambda now: now.is_meant_by(token), answer, call_id)


def _interrupted(question: Question) -> Any:
    try:
        return interrupt(question.as_dict())
    except GraphBubbleUp:
        raise
    except (RuntimeError, KeyError) as error:
        hint = "run it in a graph with a checkpointer, or take the tools of wasmrt.interop.adapters.langchain"
        raise ConfigurationError("there is no graph here that could be interrupted", hint=hint) from error


def _read(said: Mapping[str, Any], framework: str) -> ApprovalAnswer:
    """Return the answer that a graph was resumed with; an incomplete one is a denial."""
    by, note, params = said.get("by"), said.get("note"), said.get("parameters")
    try:
        return ApprovalAnswer(
            approved=said.get("approved") is True,
            by=by if isinstance(by, str) and by else framework,
            note=note if isinstance(note, str) else "",
            params=params if isinstance(params, Mapping) else None,
            way="framework",
        )
    except InvalidParametersError as error:
        raise ConfigurationError(f"the answer cannot be used: {error.message}") from error


def tools_for(
    view: ToolView, *, user: Named = "local", trace: Named = "", data: Any = None, ask: Ask = "framework"
) -> list[InterruptingTool]:
    """Return the tools of a registry or view; `user` and `trace` are names, or functions of the `RunnableConfig`.

    With `ask="registry"`, or where the operator's configuration names an approver, that one is asked.
    """
    bridge = Bridge(view, "langgraph", user=user, trace=trace, data=data, ask=ask)
    return [
        InterruptingTool(name=each.name, description=each.description, args_schema=each.schema, bridge=bridge)
        for each in bridge.definitions()
    ]
