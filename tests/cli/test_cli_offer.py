"""Consent to an installation offers the tool to agents, unless the user or the operator decides otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal
from tests.interop.mcp_server.processes import serving

Run = Callable[..., Result]
Write = Callable[..., Path]
SIDECAR = {"workspace": {"allowed_prefixes": ["notes/"]}}
WIDER = {"workspace": {"allowed_prefixes": ["notes/", "mail/"]}}


def offered(wasmrt: Run) -> bool:
    """Return whether the registry of the installation offers parrot to agents."""
    rows: list[dict[str, Any]] = json.loads(wasmrt("tools", "list", "--json").stdout)
    return "parrot" in [row["name"] for row in rows]


def test_an_mcp_client_gets_a_new_tool_after_one_command(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=SIDECAR), "--yes")
    with serving() as (line, _):
        line.initialize()
        assert "parrot" in [tool["name"] for tool in line.ask("tools/list")["tools"]]
        assert line.call("parrot", {"message": "hi"})["structuredContent"] == "hi"


@pytest.mark.parametrize(
    ("answer", "code", "known", "given"), [(b"y\n", 0, True, True), (b"me\n", 0, True, False), (b"\n", 3, False, False)]
)
def test_the_question_offers_the_narrower_answer(
    wasmrt: Run, tool_file: Write, answer: bytes, code: int, known: bool, given: bool
) -> None:
    ended, said = on_a_terminal(answer, "install", tool_file(sidecar=SIDECAR))
    said = " ".join(said.split())
    assert ended == code and "offer it to the agents of this installation?" in said and "[y/me/N]" in said
    assert bool(json.loads(wasmrt("list", "--json").stdout)) is known
    assert offered(wasmrt) is given
    if known:
        assert ("agents can use parrot" if given else "wasmrt grant parrot --offer") in said
        assert wasmrt("run", "parrot", '{"message": "hi"}').stdout


def test_an_unknown_answer_is_asked_again(wasmrt: Run, tool_file: Write) -> None:
    code, said = on_a_terminal(b"all\nme\n", "install", tool_file())
    assert code == 0 and "expected y, me or n, got 'all'" in said and not offered(wasmrt)


def test_a_tool_that_was_installed_without_consent_is_not_offered(wasmrt: Run, tool_file: Write) -> None:
    assert "wasmrt grant parrot --offer" in wasmrt("install", tool_file()).stderr
    assert not offered(wasmrt)
    refused = wasmrt("grant", "parrot", "--offer", code=3)
    assert "wasmrt grant parrot --offer --yes" in refused.stderr and not offered(wasmrt)
    assert on_a_terminal(b"y\n", "grant", "parrot", "--offer")[0] == 0
    assert offered(wasmrt)


@pytest.mark.parametrize("given", [True, False])
def test_an_update_keeps_the_decision_and_waits_if_it_asks_for_more(wasmrt: Run, tool_file: Write, given: bool) -> None:
    wasmrt("install", tool_file(sidecar=SIDECAR), "--yes", "--offer" if given else "--no-offer")
    wasmrt("install", tool_file(sidecar=WIDER), code=3)
    assert offered(wasmrt) is given
    wasmrt("grant", "parrot", "--yes")
    assert offered(wasmrt) is given
    wasmrt("install", tool_file(of="time", sidecar=WIDER), "--yes")
    assert offered(wasmrt) is given


def test_an_offer_ends_with_the_tool(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(), "--yes")
    wasmrt("remove", "parrot", "--yes")
    wasmrt("install", tool_file())
    assert not offered(wasmrt)


def test_a_rollback_does_not_undo_a_refusal(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(), "--yes")
    wasmrt("install", tool_file(of="time"), "--yes", "--no-offer")
    assert "wasmrt grant parrot --offer" in wasmrt("rollback", "parrot").stderr
    assert not offered(wasmrt)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("[tools.filter]\nallow_external = false\n", "external tools are denied"),
        ('[tools.filter]\nexternal_allow_list = ["other"]\n', "not in external_allow_list"),
        ('[tools.rules.parrot]\npermission = "deny"\n', "a rule of the policy denies the tool"),
        ('[tools]\npreset = "small"\n[presets.small]\ntools = ["time"]\n', "does not list the tool"),
    ],
)
def test_the_operators_configuration_overrides_an_offer(
    wasmrt: Run, tool_file: Write, home: Path, config: str, told: str
) -> None:
    (home / "data/config.toml").write_text(config)
    wasmrt("install", tool_file(), "--yes")
    listed = wasmrt("tools", "list")
    assert not offered(wasmrt) and told in listed.stderr
    wasmrt("tools", "run", "parrot", '{"message": "hi"}', code=3)


def test_a_decision_applies_to_every_tool_of_a_component(wasmrt: Run, tool_file: Write) -> None:
    def names() -> list[str]:
        rows = json.loads(wasmrt("tools", "list", "--json").stdout)
        return [row["name"] for row in rows if row["name"].startswith("pair.")]

    wasmrt("install", tool_file("pair", of="files"), "--yes")
    assert len(names()) > 1
    wasmrt("grant", "pair", "--no-offer")
    assert not names()
    told = [line for line in wasmrt("tools", "list").stderr.splitlines() if line.startswith("pair.")]
    assert len(told) == 1 and told[0].endswith("not offered to agents; offer it: wasmrt grant pair --offer")
