"""`tool_search` in the operator's lists, and `tool_install` of what it returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response

from tests.agent.extensions.conftest import HTTP, Agent, MakeAgent
from tests.sandbox.border.conftest import HOST, Site, site  # noqa: F401  a fixture
from wasmrt.agent.builtin.extensions.lists import lists_for_agent, search_lists
from wasmrt.agent.flows import Label
from wasmrt.capabilities import Capabilities
from wasmrt.catalog.bundled import FOLDER
from wasmrt.catalog.granted import read_granted
from wasmrt.catalog.policy import InstallPolicy
from wasmrt.catalog.registry._artifact import write_component
from wasmrt.core.effects import Effect
from wasmrt.core.lifetime import Lifetime
from wasmrt.egress.gateway import EgressGateway

COMPONENT = (FOLDER / "echo.wasm").read_bytes()
DIGEST = f"sha256:{sha256(COMPONENT).hexdigest()}"
CONFIG, MANIFEST = write_component(COMPONENT, json.dumps(HTTP).encode(), imports=(), exports=())


class Lists:
    """A host with an index file, a file of a tool, and a registry."""

    def __init__(self, start: Callable[..., Site]) -> None:
        self.site = start(self._respond)
        self.host = f"{HOST}:{self.site.server.port}"
        self.entries: list[dict[str, Any]] = []
        self.index: bytes | None = None
        self.requires_login = False

    @property
    def sent(self) -> str:
        """All requests so far."""
        return "".join(
            f"{each.method} {each.target} {each.headers} {each.body!r}" for each in self.site.server.requests
        )

    def add(self, name: str, reference: str, **others: str) -> None:
        self.entries.append({"name": name, "reference": reference.replace("HOST", self.host)} | others)

    def policy(self) -> str:
        return f'[install]\nsearch = ["https://{self.host}/tools.json", "oci://{self.host}/acme"]\n'

    def _respond(self, request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        path = request.target.partition("?")[0]
        if self.requires_login and path.startswith("/v2/"):
            return http_response(b"{}", status=401, headers=(("WWW-Authenticate", 'Basic realm="a"'),))
        bodies = {
            "/tools.json": self.index or json.dumps({"tools": self.entries}).encode(), "/parrot.wasm": COMPONENT,
            "/v2/_catalog": b'{"repositories": ["acme/birds/parrot", "other/parrot"]}',
            "/v2/acme/birds/parrot/tags/list": b'{"tags": ["1.2.0", "1.10.0"]}',
            "/v2/acme/birds/parrot/manifests/1.10.0": MANIFEST,
            f"/v2/acme/birds/parrot/blobs/{DIGEST}": COMPONENT,
            f"/v2/acme/birds/parrot/blobs/sha256:{sha256(CONFIG).hexdigest()}": CONFIG,
        }  # fmt: skip
        return http_response(bodies[path]) if path in bodies else http_response(b"{}", status=404)


@pytest.fixture
def lists(site: Callable[..., Site]) -> Iterator[Lists]:  # noqa: F811
    yield Lists(site)


def make(lists: Lists, make_agent: MakeAgent, *hosts: str, more: str = "") -> Agent:
    return make_agent(hosts, lists.site.network, lists.policy() + more)


def search(agent: Agent, query: str = "parrot") -> dict[str, Any]:
    found: dict[str, Any] = agent.call("tool_search", query=query, discover=True)
    return found


@pytest.mark.ci("slow")
def test_tools_of_the_operators_lists_are_found_and_installed(lists: Lists, make_agent: MakeAgent) -> None:
    lists.add("parrot", "https://HOST/parrot.wasm", digest=DIGEST, description="A bird.")
    agent = make(lists, make_agent, lists.host)
    assert agent.call("tool_search", query="bird") == {"tools": [], "total": 0} and lists.sent == ""
    found = search(agent, "a bird that talks, or a parrot")
    assert [(row["name"], row["state"], row["url"]) for row in found["tools"]] == [
        ("parrot", "not installed", f"oci://{lists.host}/acme/birds/parrot:1.10.0"),
        ("parrot", "not installed", f"https://{lists.host}/parrot.wasm#sha256={DIGEST[7:]}"),
    ]
    assert (found["tools"][1]["description"], found["total"], found["problems"]) == ("A bird.", 2, ())
    for number, row in enumerate(found["tools"], start=1):
        kept = agent.call("tool_install", name=f"parrot{number}", url=row["url"])
        assert (kept["granted"], kept["waits"]) == ("nothing", False) and row["url"] in (agent.asked[-1].preview or "")
        assert read_granted(agent.catalog.get(f"parrot{number}")) == Capabilities.none()


def test_a_listed_tool_on_a_host_that_is_not_allowed_is_shown_so_and_refused(
    lists: Lists, make_agent: MakeAgent
) -> None:
    lists.add("parrot", "oci://evil.example.com/parrot:1")
    agent = make(lists, make_agent)
    rows = search(agent)["tools"]
    assert [row["state"] for row in rows] == ["the operator has not allowed its host"] * 2
    for row in rows:
        with pytest.raises(Exception, match="has not allowed models to use addresses"):
            agent.call("tool_install", name="parrot", url=row["url"])
    assert agent.asked == [] and agent.catalog.tools() == ()


def test_the_operators_hosts_also_limit_the_lists(lists: Lists, make_agent: MakeAgent) -> None:
    agent = make(lists, make_agent, lists.host, more='hosts = ["other.example.com"]\n')
    found = search(agent)
    assert found["tools"] == [] and len(found["problems"]) == 2
    assert all("has not allowed" in problem for problem in found["problems"]) and lists.sent == ""


def test_the_query_and_logins_are_not_sent(
    lists: Lists, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auths": {lists.host: {"auth": "YW5u" + "OmE="}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    agent = make(lists, make_agent)
    assert len(search(agent, "the secret of a parrot")["tools"]) == 1
    lists.requires_login = True
    assert "requires a login" in search(agent)["problems"][-1]
    assert "secret" not in lists.sent and "authorization" not in lists.sent.lower()


def test_results_of_lists_are_untrusted_and_bounded_and_searching_them_uses_the_network(
    lists: Lists, make_agent: MakeAgent
) -> None:
    for number in range(300):
        lists.add(f"parrot{number}", "oci://evil.example.com/parrot:1", description="x" * 100_000 if number < 5 else "")
    agent = make(lists, make_agent)
    trace = agent.registry.trace("t")
    found = agent.registry.execute("tool_search", {"query": "parrot", "discover": True}, trace="t").result
    assert Label.UNTRUSTED in trace.labels
    assert (len(found["tools"]), found["total"]) == (20, 301)
    assert max(len(row["description"]) for row in found["tools"]) <= 500
    assert agent.registry.traits("tool_search").effects == {Effect.NETWORK}
    lists.index = b" " * 2_000_000
    assert "cannot be searched" in search(agent)["problems"][0]


def test_without_lists_searching_uses_no_network(agent: Agent) -> None:
    assert agent.registry.traits("tool_search").effects == set()
    assert search(agent) == {"tools": [], "total": 0}


def test_no_list_is_read_when_little_time_is_left(lists: Lists) -> None:
    policy = InstallPolicy(search=(f"https://{lists.host}/tools.json", f"oci://{lists.host}"))
    with EgressGateway(lists.site.network) as gateway:
        found = search_lists("parrot", lists_for_agent(gateway, policy, "ann", Lifetime(5)))
    assert not found.is_readable and all("took too long" in problem for problem in found.problems)
    assert len(found.problems) == 2 and lists.sent == ""
