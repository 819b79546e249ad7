"""Consent to an MCP server offers its tools to agents, unless the user or the operator decides otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal
from tests.interop.mcp_client import hostile
from wasmrt.core.places import find_places

Run = Callable[..., Result]
SERVER = ("--", sys.executable, str(Path(hostile.__file__).resolve()), "fine")


def offered(wasmrt: Run) -> bool:
    """Return whether the registry of the installation offers the server's tool to agents."""
    return "site_get_thing" in [row["name"] for row in json.loads(wasmrt("tools", "list", "--json").stdout)]


def listed(wasmrt: Run) -> bool:
    (row,) = json.loads(wasmrt("mcp", "list", "--json").stdout)
    assert ("offered" in wasmrt("mcp", "list").stdout) is row["for_agents"]
    return bool(row["for_agents"])


def configure(text: str) -> None:
    find_places().config.write_text(text)


@pytest.mark.parametrize(("answer", "code", "given"), [(b"y\n", 0, True), (b"me\n", 0, False), (b"\n", 3, None)])
def test_the_question_states_that_agents_get_the_tools(
    wasmrt: Run, answer: bytes, code: int, given: bool | None
) -> None:
    ended, said = on_a_terminal(answer, "mcp", "add", "site", *SERVER)
    said = " ".join(said.split())
    assert ended == code and "and offer its tools to the agents of this installation?" in said and "[y/me/N]" in said
    if given is None:
        assert "nothing was changed" in said and json.loads(wasmrt("mcp", "list", "--json").stdout) == []
        return
    assert listed(wasmrt) is given and offered(wasmrt) is given
    assert ("agents can use" if given else "wasmrt mcp trust site --offer") in said


def test_tools_of_a_server_that_are_not_offered_can_be_called_by_their_user(wasmrt: Run) -> None:
    wasmrt("mcp", "add", "site", "--yes", "--no-offer", "--trust", "local", *SERVER)
    configure('[tools.rules."site_*"]\npermission = "allow"\n')
    assert not offered(wasmrt)
    assert wasmrt("run", "site.get_thing", "{}").stdout
    explained = wasmrt("policy", "explain", "site_get_thing", code=1)
    assert "wasmrt mcp trust site --offer" in explained.output


def test_the_offer_of_a_server_is_changed_without_a_connection(wasmrt: Run) -> None:
    wasmrt("mcp", "add", "site", "--yes", "--no-offer", *SERVER)
    refused = wasmrt("mcp", "trust", "site", "--offer", code=3)
    assert "get_thing" in refused.stderr and not offered(wasmrt)
    assert wasmrt("mcp", "trust", "site", "--offer", "--yes", "--json").stdout and offered(wasmrt)
    wasmrt("mcp", "trust", "site", "--yes", "--level", "verified")
    assert offered(wasmrt), "reviewing the tools keeps the decision"
    wasmrt("mcp", "trust", "site", "--no-offer")
    assert not offered(wasmrt)
    wasmrt("mcp", "trust", "site", "--offer", "--level", "local", code=2)


def test_adding_a_server_again_asks_about_the_offer_again(wasmrt: Run) -> None:
    wasmrt("mcp", "add", "site", "--yes", *SERVER)
    wasmrt("mcp", "add", "site", "--yes", "--replace", "--no-offer", *SERVER)
    assert not offered(wasmrt)


def test_a_server_with_an_edited_command_cannot_be_offered(wasmrt: Run) -> None:
    wasmrt("mcp", "add", "site", "--yes", "--no-offer", *SERVER)
    path = find_places().mcp_servers
    path.write_text(path.read_text().replace('"fine"', '"invisible"'))
    assert "wasmrt mcp trust site" in wasmrt("mcp", "trust", "site", "--offer", "--yes", code=3).stderr
    assert not listed(wasmrt)


def test_a_server_that_was_added_before_is_offered_only_after_a_decision(wasmrt: Run) -> None:
    wasmrt("mcp", "add", "site", "--yes", *SERVER)
    path = find_places().mcp_trust
    text = path.read_text()
    assert '"for_agents": true,' in text
    for value in ("", '"for_agents": 1,', '"for_agents": "true",', '"for_agents": null,'):
        path.write_text(text.replace('"for_agents": true,', value))
        assert not offered(wasmrt)
    assert "wasmrt mcp trust NAME --offer" in wasmrt("mcp", "list").stderr
    configure("[tools.filter]\nallow_external = true\n")
    assert offered(wasmrt), "the operator's setting counts as before"


@pytest.mark.parametrize(
    ("setting", "given", "said"),
    [
        ("allow_external = false", False, "external tools are denied"),
        ('external_allow_list = ["other"]', False, "external_allow_list"),
        ('external_allow_list = ["site_*"]', True, "agents can use the tools of site"),
    ],
)
def test_the_operators_settings_take_precedence_over_an_offer(
    wasmrt: Run, setting: str, given: bool, said: str
) -> None:
    configure(f"[tools.filter]\n{setting}\n")
    assert said in wasmrt("mcp", "add", "site", "--yes", *SERVER).stderr
    assert offered(wasmrt) is given
