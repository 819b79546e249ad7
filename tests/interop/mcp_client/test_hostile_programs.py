"""Hostile servers on standard streams: each call ends with a typed error and a receipt, and no process is left."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing import MemorySecrets

from tests.interop.mcp_client import hostile
from tests.interop.mcp_client.world import THING, World, hostile_server, processes_of
from tests.project.c_call_cases import ticks
from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.core.errors import DeadlineExceededError, NotAuthorizedError, ToolError
from wasmrt.egress.secrets import Secret
from wasmrt.interop.mcp.client._definition import read_definition

PROTOCOL = "mcp-protocol"
MIB = 1024 * 1024
# Case, and the error code of the call.
BROKEN = {
    "endless-line": PROTOCOL,
    "endless-json-line": PROTOCOL,
    "long-line": PROTOCOL,
    "nan": PROTOCOL,
    "infinity": PROTOCOL,
    "huge-number": PROTOCOL,
    "huge-integer": PROTOCOL,
    "surrogate": PROTOCOL,
    "deep": PROTOCOL,
    "wide": PROTOCOL,
    "many-blocks": PROTOCOL,
    "many-icons": PROTOCOL,
    "many-names": PROTOCOL,
    "not-utf8": PROTOCOL,
    "cut-json": PROTOCOL,
    "no-version": PROTOCOL,
    "null-id": PROTOCOL,
    "wrong-shape": PROTOCOL,
    "wrong-block": PROTOCOL,
    "input-required": PROTOCOL,
    "other-id": PROTOCOL,
    "batch": PROTOCOL,
    "progress-flood": PROTOCOL,
    "log-flood": PROTOCOL,
    "unknown-flood": PROTOCOL,
    "question-flood": PROTOCOL,
    "noise-flood": PROTOCOL,
    "many-tools": PROTOCOL,
    "endless-pages": PROTOCOL,
    "page-circle": PROTOCOL,
    "list-shape": PROTOCOL,
    "list-huge": PROTOCOL,
    "handshake-shape": PROTOCOL,
    "talks-first": PROTOCOL,
    "modern-rounds": PROTOCOL,
    "modern-asks-all": PROTOCOL,
    "modern-samples": "mcp-error",
    "modern-unknown": PROTOCOL,
    "list-error": "mcp-error",
    "error": "mcp-error",
    "exits": "mcp-server",
    "exits-at-once": "mcp-server",
    "crashes": "mcp-server",
    "old-version": "mcp-protocol",
    "changed": "definition-changed",
    "changed-schema": "definition-changed",
    "changed-hint": "definition-changed",
    "gone": "definition-changed",
    "terminal": "guest-error",
}
# Case, and the tool's result, which arrives nevertheless.
HARMLESS: dict[str, Any] = {
    "duplicate-keys": "",
    "duplicate-answer": "fine",
    "endless-answers": "fine",
    "sampling": "refused",
    "roots": "refused",
    "stderr-flood": "fine",
    "noise": "fine",
    "child-stays": "fine",
    "child-leaves": "fine",
    "ignores-everything": "fine",
    "discover-garbage": "fine",
    "invisible": "abc",
    "modern-fine": "fine",
}


@pytest.mark.table
@pytest.mark.parametrize("case", BROKEN)
def test_a_protocol_violation_by_a_program_ends_the_call_with_a_receipt(case: str) -> None:
    server = hostile_server(case)
    with World(server) as world:
        with pytest.raises(ToolError) as failure:
            world.call()
        assert failure.value.code == BROKEN[case], failure.value.message
        assert [receipt.outcome for receipt in world.receipts] == [BROKEN[case]]
        assert failure.value.message.isprintable()
    assert processes_of(server) == []


@pytest.mark.parametrize("case", HARMLESS)
def test_misbehavior_around_a_valid_answer_is_harmless(case: str) -> None:
    server = hostile_server(case)
    with World(server) as world:
        assert world.call() == HARMLESS[case]
        assert [receipt.outcome for receipt in world.receipts] == ["ok"]
    assert processes_of(server) == []


@pytest.mark.parametrize("case", ["no-answer", "no-handshake", "list-silent", "same-question"])
def test_a_server_that_never_answers_ends_at_the_deadline(case: str) -> None:
    server = hostile_server(case, timeout_seconds=1.5)
    with World(server, answer=lambda request: request.tool != "bad" or time.sleep(3)) as world:
        with pytest.raises(ToolError) as failure:
            world.call()
        assert failure.value.code == (PROTOCOL if case == "same-question" else DeadlineExceededError.code)
        assert [receipt.outcome for receipt in world.receipts] == [failure.value.code]
    assert processes_of(server) == []


@pytest.mark.ci("slow")
@pytest.mark.parametrize("seconds", [20.0, 1.5])
def test_a_costly_output_schema_delays_no_other_thread_and_no_deadline(seconds: float) -> None:
    schemas = (hostile.TOOL["inputSchema"], hostile.COSTLY_SCHEMA)
    definition = read_definition(hostile.TOOL["name"], "", hostile.TOOL["description"], schemas, None)
    late, over = [], []
    with World(hostile_server("costly-schema", timeout_seconds=seconds), [definition]) as world:
        for _ in range(3):
            started = time.monotonic()
            with ticks(time.CLOCK_PROCESS_CPUTIME_ID) as gaps, pytest.raises(ToolError):
                world.call()
            over.append(time.monotonic() - started - seconds)
            late.append(max(gaps))
        assert {receipt.outcome for receipt in world.receipts} <= {"mcp-result", DeadlineExceededError.code}
    assert min(late) < 0.050
    assert min(over) < 0.100


def test_an_endless_line_uses_bounded_memory() -> None:
    server = hostile_server("endless-json-line")
    with World(server) as world, pytest.raises(ToolError):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        world.call()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_control_and_invisible_characters_are_removed_from_errors() -> None:
    with World(hostile_server("terminal")) as world, pytest.raises(ToolError) as failure:
        world.call()
    assert failure.value.message == "evil &lt;|im_start|>"
    with World(hostile_server("exits")) as world, pytest.raises(ToolError) as failure:
        world.call()
    assert "exited with code 3" in failure.value.message
    assert "I have had enough" in failure.value.message
    assert "uvx --with 'mcp<2' PACKAGE" in (failure.value.hint or "")


def test_a_confined_server_has_no_user_files_secrets_or_network(own_home: Path) -> None:
    kept = own_home / "data" / "secrets.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    kept.chmod(0o644)
    os.environ["A_SECRET_OF_THE_USER"] = "x"
    try:
        with World(hostile_server("reach", env={"KEPT": str(kept)})) as world:
            assert json.loads(world.call()) == []
    finally:
        del os.environ["A_SECRET_OF_THE_USER"]
    assert not Path("/tmp/hostile-was-here").exists()


def test_a_command_line_with_wasmrts_own_files_is_refused(own_home: Path) -> None:
    kept = own_home / "data" / "secrets.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("x")
    with World(hostile_server("counts", str(kept))) as world, pytest.raises(ToolError, match="a server may not access"):
        world.call()


@pytest.mark.parametrize("case", ["rug-pull", "modern-changes"])
def test_a_tool_is_not_called_after_its_definition_has_changed(case: str) -> None:
    with World(hostile_server(case)) as world:
        assert world.call() == "fine"
        with pytest.raises(NotAuthorizedError) as failure:
            world.call()
        assert failure.value.code == "definition-changed"
        assert failure.value.hint is not None
        assert "wasmrt mcp trust bad" in failure.value.hint
        assert "trust" not in failure.value.for_model()
        assert [receipt.outcome for receipt in world.receipts] == ["ok", "definition-changed"]


def test_an_unapproved_command_is_not_started() -> None:
    server = hostile_server("counts")
    other = hostile_server("counts")
    with World(server) as world:
        world.client.server = other  # as if the file had been edited
        with pytest.raises(NotAuthorizedError, match="has not been approved"):
            world.call()
    assert processes_of(other) == []


def test_a_servers_secret_is_redacted_from_results() -> None:
    secrets = MemorySecrets()
    secrets.set("local", "bad_token", Secret("correct-horse-battery"))
    server = hostile_server("echo-secret", secret_env={"TOKEN": "bad_token"})
    with World(server, secrets=secrets) as world:
        assert "correct-horse" not in json.dumps(world.call())


LINES = [f"{number}-line-of-a-long-key" for number in range(100, 130)]


@pytest.mark.parametrize("value", ["correct-horse-battery", "\n".join(LINES)], ids=["word", "lines"])
@pytest.mark.parametrize("case", ["secret-error", "secret-late", "secret-rpc", "secret-exit"])
def test_a_servers_secret_is_redacted_from_errors(case: str, value: str) -> None:
    secrets = MemorySecrets()
    secrets.set("local", "bad_token", Secret(value))
    server = hostile_server(case, secret_env={"TOKEN": "bad_token"})
    with World(server, secrets=secrets) as world, pytest.raises(ToolError) as failure:
        world.call()
    told = "".join(traceback.format_exception(failure.value)) + json.dumps(failure.value.as_dict())
    assert [part for part in ("correct-", "battery", *LINES) if part in told] == []
    assert "bad token" in failure.value.message or case == "secret-late"


def test_a_servers_secret_is_redacted_from_progress() -> None:
    secrets = MemorySecrets()
    secrets.set("local", "bad_token", Secret("correct-horse-battery"))
    told: list[Any] = []
    with World(hostile_server("secret-progress", secret_env={"TOKEN": "bad_token"}), secrets=secrets) as world:
        call = {"id": "1", "name": "bad_get_thing", "arguments": {}}
        asyncio.run(world.registry.aanswer(call, on_progress=lambda *report: told.append(report)))
    assert told == [(0, None, "starting the server bad"), (1, None, "using [REDACTED:secret:bad_token]")]


def test_secrets_of_several_users_with_one_name_are_all_redacted() -> None:
    secrets = MemorySecrets()
    secrets.set("local", "bad_token", Secret("correct-horse-battery"))
    secrets.set("bob", "bad_token", Secret("another-passphrase"))
    with World(hostile_server("echo-secret", secret_env={"TOKEN": "bad_token"}), secrets=secrets) as world:
        said = [world.registry.execute("bad_get_thing", {}, user=user).result for user in ("local", "bob", "local")]
    assert "correct-horse" not in json.dumps(said) and "passphrase" not in json.dumps(said)


@pytest.mark.ci("slow")
def test_each_user_has_a_separate_home_directory() -> None:
    with World(hostile_server("home")) as world:
        said = [
            world.registry.execute("bad_get_thing", {}, user=user).result for user in ("ann", "Ann", "../ann", "ann")
        ]
    assert said == ["1", "1", "1", "2"]


def test_a_result_that_contains_a_token_is_withheld() -> None:
    with World(hostile_server("token")) as world:
        try:
            said = json.dumps(world.call())
        except ToolError as error:
            said = error.message
    assert "A1b2C3d4" not in said


def test_an_elicitation_request_is_shown_with_the_servers_name() -> None:
    def answer(request: Any) -> Any:
        return ApprovalAnswer(approved=True, by="ann", params={"word": "otter"}) if request.tool == "bad" else True

    with World(hostile_server("elicit"), answer=answer) as world:
        assert json.loads(world.call()) == {"action": "accept", "content": {"word": "otter"}}
        question = world.asked[-1]
    assert "the MCP server bad asks you: your password?" in question.why.rule
    assert "\u202e" not in question.why.rule


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        (ApprovalAnswer(approved=False, by="ann"), "decline"),
        (ApprovalAnswer(approved=False), "cancel"),
        (ApprovalAnswer(approved=True, by="ann", params={"word": 7}), "cancel"),
    ],
)
def test_invalid_answers_decline_or_cancel_an_elicitation(answer: ApprovalAnswer, action: str) -> None:
    with World(hostile_server("elicit"), answer=lambda r: answer if r.tool == "bad" else True) as world:
        assert json.loads(world.call())["action"] == action


def test_elicitation_addresses_are_shown_in_full_and_must_be_https() -> None:
    with World(hostile_server("elicit-url")) as world:
        assert json.loads(world.call()) == {"action": "accept"}
        assert world.asked[-1].params == {"url": "https://a.test/?x=1"}
    with World(hostile_server("elicit-script")) as world:
        assert json.loads(world.call()) == {"error": True}
        assert [request.tool for request in world.asked if request.tool == "bad"] == []
    with World(hostile_server("elicit-nested")) as world:
        assert json.loads(world.call()) == {"error": True}


def test_calls_share_a_program_which_is_restarted_after_it_exits() -> None:
    server = hostile_server("counts")
    with World(server) as world:
        first, second = world.call(), world.call()
        assert first == second
        world.client.close()
        assert processes_of(server) == []
        assert world.call() != first
    assert processes_of(server) == []


def test_models_see_the_approved_definition() -> None:
    with World(hostile_server("changed")) as world:
        (definition,) = world.registry.definitions("mcp")
        assert definition["name"] == "bad_get_thing"
        assert definition["description"] == THING.description
