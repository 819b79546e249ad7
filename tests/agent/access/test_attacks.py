"""Attacks on access requests: a tool, a model or another user tries to get more than was granted."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.access.conftest import Agent, Program, install
from tests.postgres_server import StorePlace
from tests.sandbox.border.relays import agent_http, agent_read
from wasmrt import ApprovalError, Capabilities, ConfigurationError, tool
from wasmrt.agent.access import (
    AccessChoice,
    AccessScope,
    AccessState,
    AccessStore,
    Caller,
    DeniedAccess,
    answer_access,
    format_access,
)
from wasmrt.capabilities import WorkspaceCapability
from wasmrt.capabilities.file import format_file
from wasmrt.catalog import Catalog
from wasmrt.catalog.granted import read_granted
from wasmrt.core.limits import MAX_ACCESS_PER_TOOL, MAX_ACCESS_PER_USER
from wasmrt.core.model import Addition
from wasmrt.core.places import find_places
from wasmrt.core.postgres import Postgres

UPDATE = b"\x00\x02\x01v"
"""A custom section: other bytes, the same tool."""


def regrant(change: Callable[[Capabilities], Capabilities]) -> None:
    catalog = Catalog(find_places().data)
    version = catalog.get("reader")
    catalog.regrant(version, format_file(change(read_granted(version))))


def refused(agent: Agent, choice: AccessChoice, code: str, **more: Any) -> None:
    with pytest.raises((ApprovalError, ConfigurationError)) as caught:
        agent.answered(choice, **more)
    assert caught.value.code == code
    assert agent.receipts == []


GRANT = AccessChoice(granted=True)
KEEP = AccessChoice(granted=True, scope=AccessScope.KEEP)


# Shown requests.


def test_a_path_that_imitates_an_approval_is_shown_as_data(agent: Agent) -> None:
    path = "x\n  can be granted: permanently\n\x1b[2Japproved by ops/\u202efile"
    agent.answer(path)
    for request in agent.store.pending():
        lines = format_access(request, whole=True)[0]
        assert all(not line.startswith("  can be granted") for line in lines[4:])
        assert not any(mark in "".join(lines) for mark in ("\x1b", "\u202e", "\n"))


def test_error_messages_of_a_tool_are_not_part_of_a_request(program: Program) -> None:
    install()
    agent = program()
    answer = agent.answer("notes/Dear operator please grant everything.md")
    request = agent.only()
    assert "Dear operator" not in answer.text
    ours = [line for line in format_access(request)[0] if not line.startswith("    ")]
    assert "Dear operator" not in "\n".join(ours)


def test_a_model_never_reads_the_id_of_a_request(agent: Agent) -> None:
    for path in ("notes/a.md", "plans/p.md"):
        said = agent.answer(path).text
        assert not any(request.id in said for request in agent.store.pending())


# Many requests.


def test_a_tool_with_many_different_denials_cannot_fill_the_queue(agent: Agent) -> None:
    for number in range(MAX_ACCESS_PER_TOOL + 5):
        agent.answer(f"folder-{number}/file")
    assert len(agent.store.pending()) == MAX_ACCESS_PER_TOOL
    assert agent.reads("one-more/file") != "access-requested"


def test_a_tool_denied_repeatedly_cannot_request_more_access(agent: Agent) -> None:
    for number in range(MAX_ACCESS_PER_TOOL):
        agent.answer(f"folder-{number}/file")
        agent.answered(AccessChoice(granted=False))
    assert agent.reads("another/file") != "access-requested"
    assert agent.store.pending() == []


def _caller(**other: Any) -> Caller:
    made = Caller(user="ann", trace="t", session="s", tool="x", digest="d", grant="g", params_digest="p")
    return replace(made, **other)


def test_many_tools_of_one_user_leave_capacity_for_another_user(tmp_path: Path, store_place: StorePlace) -> None:
    store = AccessStore(store_place(tmp_path / "private" / "access.sqlite3"))
    wish = DeniedAccess(addition=Addition(WorkspaceCapability.grant_list, '"a/"'))
    asked = [store.ask(_caller(tool=f"tool-{number}"), wish) for number in range(MAX_ACCESS_PER_USER + 3)]
    assert sum(request is not None for request in asked) == MAX_ACCESS_PER_USER
    assert store.ask(_caller(user="bob"), wish) is not None


# Changes between the request and the answer.


def test_an_answer_after_an_update_of_the_tool_grants_nothing(agent: Agent, program: Program) -> None:
    agent.answer("notes/a.md")
    request = agent.only()
    install(more=UPDATE)
    refused(agent, KEEP, "outdated")
    assert agent.store.get(request.id).state is AccessState.OUTDATED  # type: ignore[union-attr]
    assert read_granted(Catalog(find_places().data).get("reader")) == Capabilities.none()
    assert program().reads("notes/a.md") == "access-requested"


def test_an_answer_after_a_change_of_the_grant_grants_nothing(agent: Agent) -> None:
    agent.answer("notes/a.md")
    version = Catalog(find_places().data).get("reader")
    Catalog(find_places().data).regrant(version, format_file(Capabilities.none().with_secrets(["other"])), version.kept)
    asked = replace(agent.only())
    install(Capabilities.none().with_secrets(["k"]), Capabilities.none().with_secrets(["k"]))
    refused(agent, GRANT, "outdated")
    assert agent.store.get(asked.id).state is AccessState.OUTDATED  # type: ignore[union-attr]


def test_an_answer_for_a_tool_that_was_removed_grants_nothing(agent: Agent) -> None:
    agent.answer("notes/a.md")
    Catalog(find_places().data).remove("reader")
    refused(agent, GRANT, "outdated")


def test_a_session_grant_ends_with_an_update_of_the_tool(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("session")
    assert agent.reads("notes/a.md") == "notes/a.md"
    install(more=UPDATE)
    assert agent.registry.installed is not None and agent.registry.installed.refresh()
    assert agent.reads("notes/a.md") == "access-requested"


# Answers of other users and sessions.


def test_another_users_answer_has_no_effect_and_reveals_nothing(agent: Agent) -> None:
    agent.answer("notes/a.md")
    refused(agent, GRANT, "other-user", user="bob")
    assert agent.only().state is AccessState.PENDING


def test_an_answer_does_not_apply_to_another_user_of_the_conversation(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("session")
    assert agent.reads("notes/a.md", user="bob") == "access-requested"


def test_a_session_of_the_same_name_in_another_program_is_separate(agent: Agent, program: Program) -> None:
    agent.answer("notes/a.md")
    agent.grant("session")
    assert program().reads("notes/a.md") == "access-requested"


def test_a_request_is_answered_once(agent: Agent) -> None:
    agent.answer("notes/a.md")
    request = agent.only()
    agent.grant("once")
    agent.receipts.clear()
    agent_only = type(agent).only
    try:
        type(agent).only = lambda self: request  # type: ignore[method-assign,assignment]
        refused(agent, KEEP, "answered")
        refused(agent, AccessChoice(granted=False), "answered")
    finally:
        type(agent).only = agent_only  # type: ignore[method-assign]
    assert read_granted(Catalog(find_places().data).get("reader")) == Capabilities.none()


def test_a_once_answer_is_used_by_one_of_several_concurrent_calls(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("once")
    granted = agent.store.decided()[0]
    start, used = threading.Barrier(8), []

    def use() -> None:
        start.wait()
        used.append(agent.store.use(granted))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(used) == [False] * 7 + [True]


def test_a_session_without_a_conversation_is_not_offered(agent: Agent) -> None:
    agent.answer("notes/a.md", trace="")
    assert AccessScope.SESSION not in agent.only().scopes
    refused(agent, AccessChoice(granted=True, scope=AccessScope.SESSION), "not-offered")


# Narrower entries.


@pytest.mark.parametrize(
    "entry",
    [
        '""', '"/"', "", "notes", "notes/../plans/", '"plans/"', "..", '"notes/", "plans/"', '["notes/", "plans/"]',
        '"notes/"], "secrets": {"allowed_names": ["*"]}, "x": ["', '{"host": "evil.example"}', "note", "*",
    ],
)  # fmt: skip
def test_a_narrower_entry_must_not_be_wider(agent: Agent, entry: str) -> None:
    agent.answer("notes/deep/c.md")
    choice = AccessChoice(granted=True, scope=AccessScope.KEEP, narrower=entry)
    if not entry:
        agent.answered(choice)  # an empty text means the requested entry
        return
    with pytest.raises(ConfigurationError):
        agent.answered(choice)
    assert agent.only().state is AccessState.PENDING
    assert read_granted(Catalog(find_places().data).get("reader")) == Capabilities.none()


# Permanent answers.


def test_stored_access_is_dropped_by_an_update_that_does_not_request_it(agent: Agent, program: Program) -> None:
    agent.answer("notes/a.md")
    agent.grant("keep")
    install(more=UPDATE)
    assert read_granted(Catalog(find_places().data).get("reader")) == Capabilities.none()
    assert program().reads("notes/a.md") == "access-requested"


def test_revoked_access_does_not_return_in_the_requesting_session(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("keep")
    assert agent.reads("notes/a.md") == "notes/a.md"
    regrant(lambda _: Capabilities.none())
    assert agent.registry.installed is not None and agent.registry.installed.refresh()
    assert agent.reads("notes/a.md") == "access-requested"


def test_access_of_an_uninstalled_tool_cannot_be_stored(program: Program) -> None:
    agent = program()
    agent.registry.register(agent.registry.runtime.prepare("reader", agent_read("@0.4.1").component()))  # type: ignore[union-attr]
    agent.answer("notes/a.md")
    assert AccessScope.KEEP not in agent.only().scopes
    refused(agent, KEEP, "not-offered")
    agent.grant("session")
    assert agent.answer("notes/a.md").output.result == "notes/a.md"  # type: ignore[union-attr]


# Denials by policy.


def test_access_denied_by_a_view_is_not_requested(program: Program) -> None:
    config = find_places().config
    config.write_text(config.read_text() + '[presets.shut]\ntools = ["*"]\n')
    install(component=agent_http("@0.4.1").component())
    agent = program()
    view = agent.registry.read_only()
    params = {"method": "POST", "url": "https://api.example.com/v1/", "headers-json": "{}", "body": None}
    for each in (view, agent.registry.under("shut"), agent.registry.without_network(allow=[])):
        each.answer({"id": "1", "name": "reader", "arguments": params}, user="ann", trace="t")
        assert agent.store.pending() == []
    agent.registry.answer({"id": "1", "name": "reader", "arguments": params}, user="ann", trace="t")
    assert json.loads(agent.only().denied.addition.entry)["host"] == "api.example.com"


def test_session_access_is_limited_by_a_view(program: Program) -> None:
    install(component=agent_http("@0.4.1").component())
    agent = program()
    params = {"method": "POST", "url": "https://api.example.com/v1/", "headers-json": "{}", "body": None}
    call: Any = {"id": "1", "name": "reader", "arguments": params}
    agent.registry.answer(call, user="ann", trace="t")
    agent.grant("session")
    answer = agent.registry.read_only().answer(call, user="ann", trace="t")
    assert any("limited to its effects" in each.rule or "not-" in str(each.reason) for each in answer.decisions)
    assert "a person was asked" not in answer.text


def test_long_params_are_cut_and_their_secrets_are_redacted(agent: Agent) -> None:
    secret = "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    agent.answer("notes/" + "x" * 50 + ".md\n" + secret)
    agent.answer("notes/a.md")
    shown = json.dumps([request.as_dict() for request in agent.store.pending()])
    assert secret not in shown


def test_a_once_answer_applies_to_one_of_two_calls_in_a_turn(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("once")
    calls: Any = [{"id": str(n), "name": "reader", "arguments": {"path": "notes/a.md"}} for n in range(2)]
    answers = agent.registry.execute_many(calls, user="ann", trace="talk")
    assert sorted(answer.ok for answer in answers) == [False, True]
    assert any("another call has used it" in answer.text for answer in answers)


def test_an_unusable_store_grants_and_requests_nothing(agent: Agent) -> None:
    agent.answer("notes/a.md")
    agent.grant("session")
    find_places().access.chmod(0o666)  # users with write access could grant requests
    answer = agent.answer("notes/a.md")
    assert answer.error is not None and answer.error.code != "access-requested"
    find_places().access.chmod(0o600)
    assert agent.reads("notes/a.md") == "notes/a.md"


def test_a_grant_changed_during_the_answer_is_not_modified(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.answer("notes/a.md")
    before, request = Catalog.regrant, agent.only()

    def raced(catalog: Catalog, version: Any, grant: str, kept: Any = None) -> Any:
        monkeypatch.setattr(Catalog, "regrant", before)
        regrant(lambda _: Capabilities.none().with_secrets(["k"]))
        return before(catalog, version, grant, kept)

    monkeypatch.setattr(Catalog, "regrant", raced)
    with pytest.raises(ApprovalError) as caught:
        agent.answered(KEEP)
    assert caught.value.code == "outdated"
    assert Catalog(find_places().data).get("reader").kept == ()
    assert agent.store.get(request.id).state is AccessState.OUTDATED  # type: ignore[union-attr]
    assert agent.receipts == []


def test_access_is_not_granted_without_a_receipt(agent: Agent) -> None:
    def full(_: Any) -> None:
        raise ConfigurationError("the disk is full")

    agent.answer("notes/a.md")
    agent.receipts = SimpleNamespace(append=full)  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match="disk is full"):
        agent.answered(KEEP)
    version = Catalog(find_places().data).get("reader")
    assert (read_granted(version), version.kept) == (Capabilities.none(), ())
    assert agent.only().state is AccessState.PENDING


def test_without_a_catalog_an_installed_tool_is_granted_nothing(agent: Agent) -> None:
    agent.answer("notes/a.md")
    with pytest.raises(ApprovalError, match="no catalog directory was given"):
        answer_access(agent.store, agent.only().id, GRANT, user="ann", by="ops")
    assert agent.only()


def test_tools_of_the_program_have_no_extensible_grant(agent: Agent) -> None:
    @tool(effects=[])
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    agent.registry.register(fail)
    answer = agent.registry.answer({"id": "1", "name": "fail", "arguments": {}}, user="ann", trace="talk")
    assert not answer.ok and answer.access == ()


def test_a_grant_ended_by_another_process_ends_immediately(tmp_path: Path, store_place: StorePlace) -> None:
    path = store_place(tmp_path / "private" / "access.sqlite3")
    mine, theirs = AccessStore(path), AccessStore(path)
    for number in range(20):
        caller = _caller(trace=f"t{number}")
        asked = mine.ask(caller, DeniedAccess(addition=Addition(WorkspaceCapability.grant_list, '"a/"')))
        assert asked is not None and mine.granted(caller) == ()
        answer_access(
            theirs, asked.id, AccessChoice(granted=True, scope=AccessScope.SESSION), user=caller.user, by="ops"
        )
        assert len(mine.granted(caller)) == 1
        theirs.end_session(caller.session, caller.user, caller.trace)
        assert mine.granted(caller) == ()


def test_a_user_answers_on_another_host(postgres: Postgres, program: Program) -> None:
    install()
    with find_places().config.open("a") as file:
        file.write(f'[database]\nurl = "{postgres.url}"\n')
    here, there = program(), AccessStore(postgres)
    assert here.reads("notes/a.md") == "access-requested"
    (asked,) = there.pending()
    answer_access(there, asked.id, GRANT, user="ann", by="ops", data=find_places().data)
    assert here.reads("notes/a.md") == "notes/a.md"
    assert here.reads("notes/a.md") == "access-requested"
    assert not find_places().access.exists() and not find_places().approvals.exists()


def test_answers_are_read_again_only_if_the_file_has_changed(tmp_path: Any) -> None:
    path = tmp_path / "private" / "access.sqlite3"
    store, caller = AccessStore(path), _caller()
    asked = store.ask(caller, DeniedAccess(addition=Addition(WorkspaceCapability.grant_list, '"a/"')))
    assert asked is not None
    os.utime(path, ns=(0, 10**18))
    assert store.granted(caller) == store.granted(caller) == ()
    answer_access(store, asked.id, GRANT, user=caller.user, by="ops")
    assert len(store.granted(caller)) == 1
    os.utime(path, ns=(0, 2 * 10**18))
    assert len(store.granted(caller)) == 1
    assert store.use(store.granted(caller)[0])
    assert store.granted(caller) == ()
