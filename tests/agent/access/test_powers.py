"""Access requests for HTTP with a real server, for invoked tools, and for the tools of one component."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme
from wasmrt.testing import http_response

from tests.agent.access.conftest import Agent
from tests.sandbox.border.conftest import HOST, Site, site  # noqa: F401  a fixture
from tests.sandbox.border.relays import Relay, agent_http, agent_invoke
from wasmrt import Capabilities, CredentialLocation, CredentialMapping, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.agent.access import AccessStore, format_access
from wasmrt.agent.policy import Permission, ToolPolicy, ToolRule
from wasmrt.core.places import find_places

Made = Callable[..., tuple[Agent, Site, list[str]]]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def made(site: Callable[..., Site]) -> Iterator[Made]:  # noqa: F811
    """Creates a component `reader`, and the list of requests that reach the server."""
    opened: list[WasmToolRuntime] = []

    def make(relay: Relay, grant: Capabilities | None = None, **more: Any) -> tuple[Agent, Site, list[str]]:
        seen: list[str] = []

        def answer(request: Any, _: Any) -> bytes:
            seen.append(f"{request.method} {request.target}")
            return http_response(b"hello")

        here = site(answer)
        runtime = WasmToolRuntime(WasmRuntimeConfig(network=here.network, isolation="in-process", cache_compiled=False))
        opened.append(runtime)
        store = AccessStore(find_places().access)
        policy = ToolPolicy(rules=(ToolRule(tool="*", permission=Permission.ALLOW),))
        registry = ToolRegistry(runtime, access=store, policy=policy)
        registry.register(runtime.prepare("reader", relay.component(), grant, **more))
        return Agent(registry, store), here, seen

    yield make
    for runtime in opened:
        runtime.close()


def get(agent: Agent, url: str, method: str = "GET") -> bool:
    params = {"method": method, "url": url, "headers-json": "{}", "body": None, "timeout-ms": None}
    call: Any = {"id": "1", "name": "reader", "arguments": params}
    return agent.registry.answer(call, user="ann", trace="talk").ok


def test_a_host_is_granted_only_for_path_and_method(made: Made) -> None:
    agent, here, seen = made(agent_http(""))
    assert not get(agent, here.url("/v1/items?q=secret"))
    shown = "\n".join(format_access(agent.only())[0])
    assert "may GET https://api.example.com" in shown and "60 times a minute" in shown
    agent.grant("session")
    assert get(agent, here.url("/v1/items?q=other"))
    assert not get(agent, here.url("/v1/other"))
    assert not get(agent, here.url("/v1/items"), "POST")
    assert seen == ["GET /v1/items?q=other"]


def test_a_request_lists_the_credentials_that_would_be_sent(made: Made) -> None:
    bearer = CredentialMapping(secret_name="api_key", location=CredentialLocation.bearer(), host_patterns=(HOST,))
    agent, here, _ = made(agent_http(""))
    grant = here.grant(bearer)
    assert grant.http is not None
    agent.registry.runtime.prepare("reader", agent_http("").component(), grant)  # type: ignore[union-attr]
    agent.registry.remove("reader")
    agent.registry.register(agent.registry.runtime.prepared("reader"))  # type: ignore[union-attr,arg-type]
    get(agent, f"https://api.example.com:{here.server.port + 1}/")
    assert any("api_key" in line for line in agent.only().denied.limited)


def test_the_approver_chooses_the_tool_of_an_alias(made: Made) -> None:
    agent, _, _ = made(agent_invoke(""))
    assert agent.registry.runtime is not None
    agent.registry.runtime.prepare_installed("echo")
    call: Any = {"id": "1", "name": "reader", "arguments": {"alias": "say", "params-json": '{"message": "hi"}'}}
    assert not agent.registry.answer(call, user="ann", trace="talk").ok
    assert json.loads(agent.only().denied.addition.entry) == {"say": "NAME-OF-THE-TOOL"}
    with pytest.raises(Exception, match="does not say which tool"):
        agent.grant("session")
    agent.grant("session", narrower="echo")
    answer = agent.registry.answer(call, user="ann", trace="talk")
    assert answer.ok and "hi" in answer.text
