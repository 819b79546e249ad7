"""Function tools of the frameworks in a registry: its policy applies, with the declared effects."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from agents import RunContextWrapper, function_tool
from anthropic import beta_async_tool, beta_tool
from langchain_core.tools import ToolException
from langchain_core.tools import tool as langchain_tool
from pydantic_ai import ModelRetry, RunContext, Tool
from wasmrt.adapters import anthropic, anthropic_runner, langchain, openai, openai_agents, pydantic_ai

from wasmrt import ToolPolicy, ToolRegistry
from wasmrt.agent.policy import Permission, ToolRule
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, NotAuthorizedError, ToolError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def double(n: int) -> str:
    """Double a number."""
    if n < 0:
        raise ValueError("below zero")
    return str(2 * n)


async def adouble(n: int) -> str:
    """Double a number."""
    return double(n)


def ctx_double(ctx: RunContext[int], n: int) -> str:
    """Double a number."""
    return str(2 * n + (ctx.deps or 0))


def agents_double(wrapper: RunContextWrapper[Any], n: int) -> str:
    """Double a number."""
    return double(n)


MAKE: dict[str, Callable[..., Any]] = {
    "pydantic-ai": lambda **e: pydantic_ai.tool_from(Tool(double), **e),
    "pydantic-ai-async": lambda **e: pydantic_ai.tool_from(Tool(adouble, name="double"), **e),
    "pydantic-ai-context": lambda **e: pydantic_ai.tool_from(Tool(ctx_double, name="double"), **e),
    "openai-agents": lambda **e: openai_agents.tool_from(function_tool(double), **e),
    "openai-agents-context": lambda **e: openai_agents.tool_from(
        function_tool(agents_double, name_override="double"), **e
    ),
    "langchain": lambda **e: langchain.tool_from(langchain_tool(double), **e),
    "langchain-async": lambda **e: langchain.tool_from(langchain_tool("double")(adouble), **e),
    "anthropic-runner": lambda **e: anthropic_runner.tool_from(beta_tool(double), **e),
    "anthropic-runner-async": lambda **e: anthropic_runner.tool_from(beta_async_tool(name="double")(adouble), **e),
    "anthropic": lambda **e: anthropic.tool_from(
        {"name": "double", "description": "Double a number.", "input_schema": SCHEMA}, double, **e
    ),
    "openai": lambda **e: openai.tool_from(
        {"type": "function", "function": {"name": "double", "description": "Double a number.", "parameters": SCHEMA}},
        double,
        **e,
    ),
    "openai-responses": lambda **e: openai.tool_from(
        {"type": "function", "name": "double", "description": "Double a number.", "parameters": SCHEMA}, adouble, **e
    ),
}
every_tool = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)


@every_tool
def test_tool_runs_with_its_declared_effects(make: Callable[..., Any]) -> None:
    registry = ToolRegistry()
    registry.register(make(effects=[]))
    assert registry.execute("double", {"n": 21}).result == "42"
    assert asyncio.run(registry.aexecute("double", {"n": "21"})).result == "42"  # models sometimes do this
    [definition] = registry.definitions("openai")
    assert definition["function"]["description"] == "Double a number."
    assert definition["function"]["parameters"]["properties"]["n"]["type"] == "integer"
    assert registry.read_only().tool_names() == ["double"]


@every_tool
def test_tool_without_declared_effects_requires_approval(make: Callable[..., Any]) -> None:
    registry = ToolRegistry()
    registry.register(make())
    with pytest.raises(NotAuthorizedError):
        registry.execute("double", {"n": 21})
    assert registry.read_only().tool_names() == []


@every_tool
def test_invalid_arguments_do_not_reach_the_tool(make: Callable[..., Any]) -> None:
    registry = ToolRegistry()
    registry.register(make(effects=[]))
    with pytest.raises(InvalidParametersError):
        registry.execute("double", {"n": "many"})


@pytest.mark.parametrize("name", [name for name in MAKE if "context" not in name and "openai-agents" not in name])
def test_exception_of_a_framework_tool_is_a_failure(name: str) -> None:
    registry = ToolRegistry()
    registry.register(MAKE[name](effects=[]))
    with pytest.raises(ToolError, match="below zero"):
        registry.execute("double", {"n": -1})


def test_error_text_of_the_agents_sdk_is_the_result() -> None:
    registry = ToolRegistry()
    registry.register(MAKE["openai-agents"](effects=[]))
    assert "An error occurred" in registry.execute("double", {"n": -1}).result
    raising = function_tool(double, name_override="raising", failure_error_function=None)
    registry.register(openai_agents.tool_from(raising, effects=[]))
    with pytest.raises(ToolError, match="below zero"):
        registry.execute("raising", {"n": -1})


def test_model_retry_of_pydantic_ai_is_an_invalid_parameters_error() -> None:
    def picky(n: int) -> int:
        raise ModelRetry("take a larger one")

    registry = ToolRegistry()
    registry.register(pydantic_ai.tool_from(Tool(picky), effects=[]))
    with pytest.raises(InvalidParametersError, match="take a larger one"):
        registry.execute("picky", {"n": 1})


def test_deps_are_passed_in_the_run_context() -> None:
    registry = ToolRegistry()
    registry.register(pydantic_ai.tool_from(Tool(ctx_double, name="double"), deps=8, effects=[]))
    assert registry.execute("double", {"n": 21}).result == "50"


@pytest.mark.parametrize("handled", [True, False])
def test_tool_exception_of_langchain_is_a_tool_error(handled: bool) -> None:
    @langchain_tool
    def breaks() -> str:
        """Break."""
        raise ToolException("out of paper")

    breaks.handle_tool_error = handled
    registry = ToolRegistry()
    registry.register(langchain.tool_from(breaks, effects=[]))
    with pytest.raises(ToolError, match="out of paper"):
        registry.execute("breaks", {})


def test_framework_tool_that_requires_approval_requires_it_in_the_registry() -> None:
    policy = ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),))
    for made in (
        pydantic_ai.tool_from(Tool(double, requires_approval=True), effects=[]),
        openai_agents.tool_from(function_tool(double, needs_approval=True), effects=[]),
    ):
        registry = ToolRegistry(policy=policy)
        registry.register(made)
        with pytest.raises(NotAuthorizedError):
            registry.execute("double", {"n": 1})


@pytest.mark.parametrize("adapter", [pydantic_ai, openai_agents, langchain, anthropic_runner])
def test_tool_from_rejects_other_objects(adapter: Any) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        adapter.tool_from(double)


@pytest.mark.parametrize("definition", [{}, {"type": "custom", "name": "x"}, {"type": "function", "function": 3}, 3])
def test_tool_from_rejects_invalid_definitions(definition: Any) -> None:
    for adapter in (openai, anthropic):
        with pytest.raises(ConfigurationError):
            adapter.tool_from(definition, double)


@pytest.mark.parametrize(
    ("adapter", "module"),
    [
        ("pydantic_ai", "pydantic_ai"), ("openai_agents", "agents"), ("langchain", "langchain_core"),
        ("langgraph", "langgraph"), ("openai", "openai"), ("anthropic", "anthropic"), ("anthropic_runner", "anthropic"),
    ],
)  # fmt: skip
def test_missing_framework_error_has_the_install_command(
    adapter: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"wasmrt.adapters.{adapter}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for loaded in [each for each in sys.modules if each == module or each.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=r"this adapter needs .*: pip install -U ") as caught:
        __import__(name)
    assert caught.value.code == "missing-extra" and (caught.value.hint or "").startswith("pip install -U '")


@pytest.mark.ci("slow")
def test_frameworks_are_imported_only_by_their_adapters() -> None:
    names = "sys, wasmrt, wasmrt.adapters, wasmrt.agent.registry, wasmrt.core.telemetry"
    script = f"import {names}; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    known = {"pydantic_ai", "agents", "langchain_core", "langgraph", "openai", "anthropic", "opentelemetry"}
    assert not known & set(loaded)
