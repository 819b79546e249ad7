"""Access requests at the command line: list, show, grant and deny them, with valid receipts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.agent.access.conftest import Agent, install
from wasmrt.capabilities.file import parse
from wasmrt.cli import cli

Run = Callable[..., Result]


@pytest.fixture
def wasmrt() -> Run:
    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(cli, list(arguments), prog_name="wasmrt")
        assert result.exit_code == code, f"{result.exit_code}: {result.stderr or result.exception!r}"
        return result

    return run


def test_a_request_is_listed_shown_and_granted_narrower(agent: Agent, wasmrt: Run) -> None:
    agent.answer("notes/a.md")
    request = agent.only()
    listed = wasmrt("approvals", "list")
    assert request.id in listed.stdout and "reader" in listed.stdout and "notes/" in listed.stdout
    [found] = json.loads(wasmrt("approvals", "list", "--json").stdout)["access"]
    assert (found["id"], found["asked"], found["scopes"]) == (request.id, 1, ["once", "session", "keep"])
    assert "entry:" in wasmrt("approvals", "show", request.id.upper()).stdout
    assert json.loads(wasmrt("approvals", "show", request.id, "--json").stdout)["state"] == "pending"
    given = ("--scope", "keep", "--narrower", "notes/a.md", "--user", "ann")
    told = wasmrt("approvals", "approve", request.id, *given).stderr
    assert "granted permanently, narrower" in told and "reader" in told
    assert agent.reads("notes/a.md") == "notes/a.md"
    explained = wasmrt("caps", "explain", "reader").stdout
    assert "notes/a.md" in explained
    assert json.loads(wasmrt("list", "--json").stdout)
    assert wasmrt("approvals", "show", request.id).stdout.count(request.id) == 1
    ended = wasmrt("approvals", "list", "--decided").stdout
    assert "granted permanently" in ended
    (receipt,) = [
        json.loads(line) for line in wasmrt("audit", "tail", "--json").stdout.splitlines() if "access" in line
    ]
    assert receipt["kind"] == "access"
    assert receipt["approval"]["scope"] == "keep"
    assert receipt["decisions"][0]["suggestion"]["entry"] == "notes/a.md"
    wasmrt("audit", "verify")


def test_stored_access_is_revoked_like_any_grant(agent: Agent, wasmrt: Run) -> None:
    agent.answer("notes/a.md")
    agent.grant("keep")
    wasmrt("grant", "reader", "--revoke", "workspace=notes/", "--yes")
    assert "notes/" not in wasmrt("caps", "explain", "reader").stdout
    wasmrt("grant", "reader", "--add", "workspace=notes/", "--yes")
    assert "notes/" in wasmrt("caps", "explain", "reader").stdout


def test_a_request_is_denied_permanently_as_json(agent: Agent, wasmrt: Run) -> None:
    agent.answer("notes/a.md")
    given = ("--scope", "keep", "--user", "ann", "--note", "no", "--json")
    denied = json.loads(wasmrt("approvals", "deny", agent.only().id, *given).stdout)
    assert (denied["state"], denied["scope"], denied["note"], denied["granted"]) == ("denied", "keep", "no", None)
    assert "denied (permanently)" in wasmrt("approvals", "show", denied["id"]).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scope", "always"), "access cannot be granted with the scope always"),
        (("--any", "path"), "--any and --like are for calls"),
        (("--narrower", "plans/"), "is wider than the requested entry"),
        (("--user", "bob"), "belongs to another user"),
    ],
)
def test_an_impossible_answer_is_reported(agent: Agent, wasmrt: Run, arguments: tuple[str, ...], said: str) -> None:
    agent.answer("notes/a.md")
    user = () if "--user" in arguments else ("--user", "ann")
    code = 1 if "--user" in arguments else 2
    assert said in wasmrt("approvals", "approve", agent.only().id, *arguments, *user, code=code).stderr
    assert agent.only()


def test_access_scopes_and_entries_do_not_apply_to_calls(wasmrt: Run) -> None:
    assert "keep is for access" in wasmrt("approvals", "approve", "aaaaa-aaaaa", "--scope", "keep", code=2).stderr
    assert "--narrower is for access" in wasmrt("approvals", "approve", "aaaaa-aaaaa", "--narrower", "x", code=2).stderr


def test_an_answer_is_valid_if_receipts_are_disabled(agent: Agent, wasmrt: Run, home: Path) -> None:
    config = home / "data" / "config.toml"
    config.write_text(config.read_text() + "[audit]\nenabled = false\n")
    agent.answer("notes/a.md")
    wasmrt("approvals", "approve", agent.only().id, "--user", "ann")
    assert agent.reads("notes/a.md") == "notes/a.md"
    assert not (home / "data" / "receipts").exists()


def test_permanently_denied_access_is_listed_and_forgotten(agent: Agent, wasmrt: Run) -> None:
    agent.answer("notes/a.md")
    request = agent.only()
    wasmrt("approvals", "deny", request.id, "--scope", "keep", "--user", "ann")
    agent.answer("notes/a.md")
    assert not agent.store.pending()
    listed = wasmrt("approvals", "list").stdout
    assert request.id in listed and "reader" in listed and "denied" in listed and "notes/" in listed
    [found] = json.loads(wasmrt("approvals", "list", "--json").stdout)["denied_access"]
    assert (found["id"], found["scope"]) == (request.id, "keep")
    assert "forgot 1 answer" in wasmrt("approvals", "forget", request.id).stderr
    assert not json.loads(wasmrt("approvals", "list", "--json").stdout)["denied_access"]
    wasmrt("approvals", "forget", request.id, code=1)
    agent.answer("notes/a.md")
    assert agent.only().id != request.id


def test_forgetting_all_denials_keeps_granted_access(agent: Agent, wasmrt: Run) -> None:
    agent.answer("plans/p.md")
    agent.grant("session")
    agent.answer("notes/a.md")
    wasmrt("approvals", "deny", agent.only().id, "--scope", "keep", "--user", "ann")
    wasmrt("approvals", "deny", "aaaaa-aaaaa", code=1)
    assert json.loads(wasmrt("approvals", "forget", "--all", "--json").stdout) == {"forgotten": 1}
    assert agent.reads("plans/p.md") == "plans/p.md"


def test_a_program_that_ends_with_its_call_has_no_session_scope(agent: Agent, wasmrt: Run, files: Path) -> None:
    call = ("tools", "run", "reader", '{"path": "notes/a.md"}', "--user", "ann", "--trace", "talk")
    refused = wasmrt(*call, "--workspace", str(files), code=3).stderr
    request = agent.only()
    assert "denied" in refused and '"notes/' in refused and f"wasmrt approvals show {request.id}" in refused
    assert [str(scope) for scope in request.scopes] == ["once", "keep"]
    told = wasmrt("approvals", "approve", request.id, "--scope", "session", "--user", "ann", code=1).stderr
    assert "the program that requested the access has ended" in told and "once or keep" in told
    assert "this session" not in wasmrt("approvals", "show", request.id).stdout
    assert "denied (this time)" in wasmrt("approvals", "deny", request.id, "--user", "ann").stderr


@pytest.mark.parametrize("added", ["workspace=notes/", "http=https://a.example/"])
def test_access_beyond_the_capability_file_is_marked(wasmrt: Run, added: str) -> None:
    asked = """{"workspace": {"allowed_prefixes": ["notes/a.md"]},
        "http": {"allowlist": [{"host": "a.example", "path_prefix": "/v1/", "methods": ["GET"]}]}}"""
    install(parse(asked).capabilities, parse(asked).capabilities)
    told = wasmrt("grant", "reader", "--add", added, "--yes", code=2).stderr
    assert f"requests only a part of {added}" in told and "already has exactly this grant" not in told
    section = added.partition("=")[0]
    wasmrt("grant", "reader", "--revoke", section, "--yes")
    told = wasmrt("grant", "reader", "--add", added, "--yes").stderr
    assert f"requests only a part of {added}; only this part is granted" in told and "changed the grant" in told
    assert "already has exactly this grant" in wasmrt("grant", "reader", "--add", section, "--yes").stderr
