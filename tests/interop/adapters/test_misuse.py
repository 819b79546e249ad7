"""Invalid settings, each rejected with a clear error; and conversations that reach the maximum number of turns."""

from __future__ import annotations

from typing import Any

import pytest
from wasmrt.adapters import anthropic, anthropic_runner, langchain, langgraph, openai, openai_agents
from wasmrt.adapters.pydantic_ai import RegistryToolset

from wasmrt import SchemaTool
from wasmrt.core.errors import ConfigurationError, InvalidParametersError

from .models import anthropic_client, openai_client
from .test_adapters import Desk

ASK: list[dict[str, Any]] = [{"role": "user", "content": "go"}]


@pytest.mark.parametrize(
    "give",
    [RegistryToolset, anthropic_runner.tools_for, langchain.tools_for, langgraph.tools_for, openai_agents.tools_for],
)
def test_adapters_reject_other_objects_than_registries(give: Any) -> None:
    with pytest.raises(ConfigurationError, match="expected a ToolRegistry"):
        give([Desk().registry])


def test_ask_must_be_framework_or_registry() -> None:
    with pytest.raises(ConfigurationError, match="'framework' or 'registry'"):
        openai_agents.tools_for(Desk().registry, ask="other")  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [{"tools": []}, {"stream": True}, {"max_turns": 0}])
def test_parameters_set_by_the_loop_are_rejected(more: Any) -> None:
    for adapter, (client, requests) in ((openai, openai_client(["done"])), (anthropic, anthropic_client(["done"]))):
        with client, pytest.raises(ConfigurationError):
            adapter.run(client, Desk().registry, ASK, model="m", **more)
        assert requests == []
    with openai_client(["done"])[0] as client, pytest.raises(ConfigurationError, match="expected a ToolRegistry"):
        openai.run(client, None, ASK, model="m")  # type: ignore[arg-type]


def test_conversation_can_continue_after_the_maximum_turns() -> None:
    look = [("look", {"what": "up"})]
    desk = Desk()
    client, requests = openai_client([look, look, "done"])
    with client:
        held = openai.run(client, desk.registry, ASK, model="m", max_turns=2)
        assert not held.finished and [message["role"] for message in held.messages[-2:]] == ["assistant", "tool"]
        assert len(held.answers) == 2 and held.tokens["total_tokens"] == 30
        assert openai.run(client, desk.registry, held.messages, model="m").finished
    assert requests[-1]["messages"][:5] == held.messages


def test_view_without_tools_sends_no_tools() -> None:
    client, requests = openai_client(["done"])
    with client:
        assert openai.run(client, Desk().registry.only(["nothing"]), ASK, model="m").finished
    assert "tools" not in requests[0]


def test_schema_tool_rejects_invalid_names_and_params() -> None:
    with pytest.raises(ConfigurationError, match="cannot be a tool's name"):
        SchemaTool(lambda params, _: 1, name="a\nb", description="", schema={})
    with pytest.raises(InvalidParametersError, match="must be an object"):
        SchemaTool(lambda params, _: 1, name="one", description="", schema={}).execute([])
    assert repr(SchemaTool(lambda params, _: 1, name="one", description="", schema={})) == "<SchemaTool 'one'>"
