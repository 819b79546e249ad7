"""Two hosts of one service, which share the approval store: a call that waits on one host continues on the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.test_approvals import ALLOW, NAME, answer, said
from tests.interop.mcp_server.world import FORMS, World
from wasmrt.core.postgres import Postgres
from wasmrt.interop.mcp.server.http import UserTokens
from wasmrt.interop.mcp.server.tools import _approver

KEY = bytes(range(32))
AGAIN = {"name": "write_note", "arguments": NAME, "_meta": FORMS}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


@pytest.fixture
def hosts(tmp_path: Path, postgres: Postgres) -> Iterator[list[Site]]:
    users = UserTokens(tmp_path / "tokens.json")
    with ExitStack() as stack:
        worlds = [World(tmp_path, place=postgres, state_key=KEY) for _ in range(2)]
        sites = [Site(world, stack.enter_context(world.serve_http(users)), users) for world in worlds]
        for site in sites:
            stack.callback(site.world.store.close)
            stack.enter_context(site.client)
        sites[0].tokens = sites[1].tokens
        yield sites


def form(host: Site) -> dict[str, Any]:
    result = host.ask("tools/call", AGAIN)
    assert result["resultType"] == "input_required", result
    return result


def settle(host: Site, asked: dict[str, Any], response: Any = ALLOW) -> dict[str, Any]:
    given = {"inputResponses": {"approval": response}, "requestState": asked["requestState"]}
    return host.ask("tools/call", AGAIN | given)


def test_a_call_that_waits_on_one_host_continues_on_the_other(hosts: list[Site]) -> None:
    here, there = hosts
    first, second = here.call("write_note", NAME), there.call("write_note", NAME)
    (waiting,) = here.world.pending()
    assert waiting in said(first) and waiting in said(second)
    answer(there.world)
    assert said(there.call("write_note", NAME)) == "wrote a"
    assert waiting not in said(here.call("write_note", NAME)), "the answer is used once"
    assert [host.world.done for host in hosts] == [[], ["a"]]


def test_a_form_of_one_host_is_answered_on_the_other_and_once(hosts: list[Site]) -> None:
    here, there = hosts
    asked = form(here)
    assert said(settle(there, asked)) == "wrote a"
    assert settle(here, asked)["resultType"] == "input_required", "the first answer was used"
    assert [host.world.done for host in hosts] == [[], ["a"]]


def test_a_call_of_another_user_or_client_does_not_continue_it(hosts: list[Site]) -> None:
    here, there = hosts
    here.call("write_note", NAME)
    answer(here.world)
    other = {"_meta": AGAIN["_meta"] | {"io.modelcontextprotocol/clientInfo": {"name": "other", "version": "1"}}}
    assert there.call("write_note", NAME, user="eve")["isError"] is True
    assert there.ask("tools/call", {"name": "write_note", "arguments": NAME} | other)["resultType"] == "input_required"
    assert there.call("write_note", {"name": "b"})["isError"] is True
    assert there.world.done == []
    assert said(there.call("write_note", NAME)) == "wrote a"


def test_a_request_outlives_the_host_that_received_it(hosts: list[Site]) -> None:
    here, there = hosts
    here.call("write_note", NAME)
    here.world.parked.close()
    answer(there.world)
    assert said(there.call("write_note", NAME)) == "wrote a"


def test_a_state_is_refused_by_a_host_with_another_key(hosts: list[Site], tmp_path: Path, postgres: Postgres) -> None:
    other = World(tmp_path, place=postgres)
    asked = form(hosts[0])
    with other.serve_http(hosts[0].users) as url:
        site = Site(other, url, hosts[0].users)
        given = {"inputResponses": {"approval": ALLOW}, "requestState": asked["requestState"]}
        with site.client, closing(other.store):
            found = site.post(site.message("tools/call", AGAIN | given))
        assert "was not issued by this server" in found.json()["error"]["message"]
        assert other.done == []
