"""The host refuses every request that has no grant or no backend."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.runtime.call.conftest import until
from tests.sandbox.border.conftest import a_call as bare_call
from wasmrt import Capabilities, EndpointPattern, Reason, ResourceLimits
from wasmrt.capabilities import WorkspaceWriteCapability, within_effects, within_write_paths
from wasmrt.core.effects import Effect
from wasmrt.core.errors import CapabilityDeniedError
from wasmrt.core.limits import MAX_DECISIONS, MAX_HTTP_REQUESTS, MAX_REFUSALS, MAX_TOOL_INVOCATIONS
from wasmrt.core.model import Decision
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.backends import GuestHttp
from wasmrt.runtime.call import Backends, Call, CallServices, ToolRunner
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.workspace import WorkspaceReader, WorkspaceWriter
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import (
    HttpCheck,
    HttpClose,
    HttpOpen,
    InvokeTool,
    Refuse,
    SecretExists,
    WorkspaceCopy,
    WorkspaceList,
    WorkspaceRead,
    WorkspaceRemove,
    WorkspaceStat,
    WorkspaceWrite,
)

ALL = (
    Capabilities.none()
    .with_http([EndpointPattern.host("api.example.com")])
    .with_workspace_read([""])
    .with_secrets(["*"])
    .with_tool_invoke({"on": "other"})
)
GET = HttpOpen("GET", "https://api.example.com/")


def a_call(grant: Capabilities = ALL, parent: Call | None = None, **backends: Any) -> Call:
    """A call with a grant for everything and without backends."""
    return bare_call(grant, parent=parent, backends=backends)


def test_granted_but_missing_backends_are_refused() -> None:
    call = a_call()
    host = CallServices(call)
    refusals = []
    for ask in (
        lambda: host.handle(GET),
        lambda: host.handle(WorkspaceRead("a.md")),
        lambda: host.handle(WorkspaceList("")),
        lambda: host.handle(InvokeTool("on", "{}")),
    ):
        with pytest.raises(HostFailure) as caught:
            ask()
        assert (caught.value.kind, caught.value.code, caught.value.denied) == ("network-denied", "not-granted", True)
        refusals.append(caught.value.message)
    assert "no network" in refusals[0] and "no workspace" in refusals[1] and "tool invocations" in refusals[3]
    assert [(d.allowed, d.capability, d.subject) for d in call.decisions] == [
        (False, "http", "GET"),
        (False, "workspace", "a.md"),
        (False, "workspace", ""),
        (False, "tool_invoke", "on"),
    ]
    assert host.handle(SecretExists("token")) is False
    assert (refusal := host.handle(HttpCheck("GET", GET.url))) is not None
    assert refusal.code == "not-granted"


def test_a_guest_gets_the_recorded_reason_of_a_denial() -> None:
    call = Call(
        call_id="1", tool="notes", limits=ResourceLimits(), grant=Capabilities.none(),
        full_grant=Capabilities.none(), backends=Backends(LeakDetector()), find_amendment=lambda addition: addition.to,
    )  # fmt: skip
    host = CallServices(call)
    asked = host.handle(HttpCheck("GET", GET.url))
    assert asked is not None
    told = [asked.message]
    for ask in (
        lambda: host.handle(WorkspaceWrite("out/a.md", b"x")),
        lambda: host.handle(WorkspaceStat("b.md")),
        lambda: host.handle(WorkspaceRead("c.md", probe=True)),
    ):
        with pytest.raises(HostFailure) as caught:
            ask()
        told.append(caught.value.message)
    assert told == [decision.sentence for decision in call.decisions]
    assert all("grant it: wasmrt grant notes" in sentence for sentence in told)


def test_a_granted_write_without_a_folder_is_refused_with_a_hint() -> None:
    call = a_call(ALL.with_workspace_write(["out/"]))
    with pytest.raises(HostFailure) as caught:
        CallServices(call).handle(WorkspaceWrite("out/a.md", b"x"))
    assert (caught.value.code, caught.value.denied) == ("not-granted", True)
    (decision,) = call.decisions
    assert (decision.allowed, decision.capability, decision.subject) == (False, "workspace_write", "out/a.md")
    assert decision.rule == "this runtime has no workspace" and "--workspace DIR" in decision.hint


def test_folders_of_a_preset_are_listed_only_if_they_deny_a_write() -> None:
    grant = Capabilities.none().with_workspace_read(["notes/"]).with_workspace_write(["out/", "top.md"])
    call = Call(
        call_id="1", tool="tool", limits=ResourceLimits(), grant=within_write_paths(grant, ["out/deep/"]),
        full_grant=grant, backends=Backends(LeakDetector()), context=ToolContext(write_paths=(("out/deep/",),)),
    )  # fmt: skip
    writing, beyond = call.grant.explain_workspace_write("out/a.md"), call.grant.explain_workspace_write("private/a.md")
    top, reading = call.grant.explain_workspace_write("top.md"), call.grant.explain_workspace("out/a.md")
    removing = Decision(False, Reason.REMOVE_NOT_ALLOWED, "no", capability="workspace_write", subject="out/deep/a.md")
    assert {each.reason for each in (writing, top, beyond, reading)} == {Reason.PREFIX_NOT_ALLOWED}
    for held, folder in ((writing, "out"), (top, "top.md")):
        told = call.redact(held)
        assert told.rule == "the preset does not allow tools to write to this path"
        assert told.hint == f'add "{folder}" to allow_write_paths of the preset'
    assert [call.redact(each) for each in (beyond, reading, removing)] == [beyond, reading, removing]


@pytest.mark.parametrize(
    ("effects", "named"), [((), "none"), ((Effect.NETWORK, Effect.EXTERNAL_WRITE), "external-write, network")]
)
def test_effects_of_a_call_are_listed_only_if_they_deny_a_request(effects: tuple[Effect, ...], named: str) -> None:
    grant = Capabilities.none().with_workspace_read(["notes/"])
    terms = ToolContext(effects=frozenset(effects))
    call = Call(
        call_id="1", tool="tool", limits=ResourceLimits(), grant=within_effects(grant, frozenset(effects)),
        full_grant=grant, backends=Backends(LeakDetector()), context=terms,
    )  # fmt: skip
    reading, writing = call.grant.explain_workspace("notes/a.md"), call.grant.explain_workspace_write("out/a.md")
    assert (reading.reason, writing.reason) == (Reason.NOT_GRANTED, Reason.NOT_GRANTED)
    assert call.redact(reading).rule == f"the call is limited to its effects ({named})"
    assert call.redact(writing) == writing  # nobody granted it


def test_a_call_is_limited_to_its_own_and_its_callers_effects() -> None:
    def opened(terms: ToolContext, parent: Call | None = None) -> Call:
        return Call(
            call_id="1", tool="tool", limits=ResourceLimits(), grant=ALL, full_grant=ALL,
            backends=Backends(LeakDetector()), context=terms, parent=parent,
        )  # fmt: skip

    some = ToolContext(effects=frozenset({Effect.NETWORK, Effect.READ_FILESYSTEM}), write_paths=(("out/",),))
    other = ToolContext(effects=frozenset({Effect.NETWORK, Effect.USE_SECRET}), write_paths=(("out/",), ("out/deep/",)))
    alone, free = opened(some), opened(ToolContext())
    assert (free.effects, free.write_paths) == (None, ())
    for call in (alone, opened(ToolContext(), alone), opened(some, free)):
        assert (call.effects, call.write_paths) == (some.effects, some.write_paths)
    both = opened(other, alone)
    assert (both.effects, both.write_paths) == (frozenset({Effect.NETWORK}), (("out/",), ("out/deep/",)))
    outer = opened(ToolContext(may_invoke=lambda _tool: None))
    inner = opened(ToolContext(may_invoke=lambda tool: f"{tool} is another's to refuse"), outer)
    assert outer.may_invoke is not None
    assert (inner.may_invoke, free.may_invoke) == (outer.may_invoke, None)


def test_copy_writes_the_same_bytes_and_replaces_no_file(tmp_path: Path) -> None:
    writing = WorkspaceWriteCapability(("out/",))
    call = a_call(
        Capabilities.none().with_workspace_read(["notes/"]).with_workspace_write(writing),
        workspace=WorkspaceReader(tmp_path, ("notes/",)), writer=WorkspaceWriter(tmp_path, writing),
    )  # fmt: skip
    host = CallServices(call)
    for folder in ("notes", "out"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notes/a").write_bytes(b"\xff\0a")
    assert host.handle(WorkspaceCopy("notes/a", "out/a")) == 3
    assert (tmp_path / "out/a").read_bytes() == b"\xff\0a"
    for path, to, reason in (
        ("notes/a", "out/a", Reason.ALREADY_EXISTS),
        ("notes/a", "notes/b", Reason.PREFIX_NOT_ALLOWED),
        ("out/a", "out/b", Reason.PREFIX_NOT_ALLOWED),
    ):
        with pytest.raises(HostFailure) as caught:
            host.handle(WorkspaceCopy(path, to))
        assert caught.value.code == str(reason)
    host.close()
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["a", "a"]


def test_a_denial_that_cannot_be_scanned_in_time_has_no_details() -> None:
    call = bare_call(timeout_seconds=0.001)
    until(lambda: call.lifetime.is_over)
    told = call.decide(call.grant.explain_http("GET", "https://api.example.com/open-sesame"))
    assert (told.allowed, told.reason, told.capability) == (False, Reason.NOT_GRANTED, "http")
    assert (told.rule, told.suggestion, told.subject) == ("[withheld: it could not be scanned in time]", None, "")
    assert call.decisions == [told]


def test_the_gateway_refuses_a_call_without_a_grant() -> None:
    call = a_call(Capabilities.none())
    with EgressGateway(NetworkConfig()) as gateway, pytest.raises(HostFailure) as caught:
        GuestHttp(gateway).open(call, GET)
    assert (caught.value.code, caught.value.denied, caught.value.limit_bytes) == ("not-granted", True, None)
    assert [d.reason for d in call.decisions] == [Reason.NOT_GRANTED]


@pytest.mark.parametrize(
    ("grant", "reason"), [(Capabilities.none(), Reason.NOT_GRANTED), (ALL, Reason.ALIAS_NOT_ALLOWED)]
)
def test_an_unknown_alias_is_refused(grant: Capabilities, reason: Reason) -> None:
    tools = ToolRunner(lambda name, params, call: pytest.fail(f"{name} ran"), RateLimiter())
    call = a_call(grant, tools=tools)
    with pytest.raises(HostFailure):
        CallServices(call).handle(InvokeTool("off", "{}"))
    (decision,) = call.decisions
    assert decision == grant.explain_tool("off")
    assert (decision.allowed, decision.reason, decision.subject) == (False, reason, "off")


def test_tool_invocations_are_charged_to_all_callers() -> None:
    first = a_call()
    second = a_call(parent=first)
    third = a_call(parent=second)
    assert second.tool_chain == ("tool", "tool") and third.tool_chain == ("tool", "tool", "tool")
    for _ in range(MAX_TOOL_INVOCATIONS - 1):
        assert third.charge_tool_invocation()
    assert second.charge_tool_invocation()
    assert not second.charge_tool_invocation()
    assert not a_call(parent=first).charge_tool_invocation()  # a fresh one, whose caller has none left
    assert not first.charge_tool_invocation()


def test_http_requests_are_charged_to_all_callers() -> None:
    first = a_call()
    second = a_call(parent=first)
    paid = 0
    while second.charge_http_request():
        paid += 1
    assert paid == first.http_requests == second.http_requests == MAX_HTTP_REQUESTS
    fresh = a_call(parent=first)
    assert not fresh.charge_http_request()
    assert fresh.http_requests == 0
    assert not first.charge_http_request()


def test_a_failure_without_a_decision_is_a_failed_operation() -> None:
    class Broken:
        def read(self, path: str) -> bytes:
            raise CapabilityDeniedError("the folder went away")

    call = a_call(workspace=cast(WorkspaceReader, Broken()))
    for looking in (False, True):
        with pytest.raises(HostFailure) as caught:
            CallServices(call).handle(WorkspaceRead("a.md", probe=looking))
        assert (caught.value.kind, caught.value.code) == ("operation-failed", "capability-denied")
    assert call.decisions == []


def test_probing_for_a_file_is_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    call = a_call(workspace=WorkspaceReader(tmp_path, ("notes/",)))
    host = CallServices(call)
    with pytest.raises(HostFailure):
        host.handle(WorkspaceRead("notes/none", probe=True))
    assert call.decisions == []
    for _ in range(3):
        with pytest.raises(HostFailure):
            host.handle(WorkspaceRead("other", probe=True))
    assert [d.reason for d in call.decisions] == [Reason.PREFIX_NOT_ALLOWED]
    with pytest.raises(HostFailure) as caught:
        host.handle(WorkspaceRead("notes", probe=True))
    assert caught.value.code == str(Reason.NOT_A_FILE)
    with pytest.raises(HostFailure):
        host.handle(WorkspaceList("notes/none", probe=True))
    assert [d.reason for d in call.decisions] == [Reason.PREFIX_NOT_ALLOWED]
    for request in (WorkspaceRead("notes/none"), WorkspaceList("notes/none")):
        with pytest.raises(HostFailure):
            host.handle(request)
    assert [d.reason for d in call.decisions] == [Reason.PREFIX_NOT_ALLOWED, Reason.NOT_FOUND, Reason.NOT_FOUND]


def test_denials_are_recorded_once_for_each_target_up_to_a_limit() -> None:
    call = a_call()
    host = CallServices(call)
    for turn in range(2 * MAX_REFUSALS):
        for _ in range(2):
            host.handle(Refuse(Reason.SOCKETS_DENIED, f"tcp {turn}"))
    assert [d.subject for d in call.decisions] == [f"tcp {turn}" for turn in range(MAX_REFUSALS)]


def test_decisions_over_the_limit_are_counted() -> None:
    call = a_call()
    for _ in range(MAX_DECISIONS + 3):
        call.decide(Decision(True, Reason.ALLOWED, "yes"))
    assert (len(call.decisions), call.decisions_dropped) == (MAX_DECISIONS, 3)


def test_the_old_value_of_a_renewed_secret_is_still_redacted() -> None:
    call = a_call()
    old, new = "Zq9kT7abvX2m" + "B4nC6pD8eFgH", "pL5rW8cdyU1n" + "D3mE9qF2gHjK"
    for value in (old, old, new, new):
        call.watch("token", value)
    for value in (old, new):
        assert value not in call.scanner.redact(f"it is {value}.")


def test_guest_text_in_a_denial_is_truncated() -> None:
    call = a_call()
    host = CallServices(call)
    for ask in (lambda: host.handle(WorkspaceRead("p" * 300)), lambda: host.handle(InvokeTool("a" * 300, "{}"))):
        with pytest.raises(HostFailure):
            ask()
    granted = a_call(Capabilities.none().with_tool_invoke({"a" * 64: "other"}))
    with pytest.raises(HostFailure):
        CallServices(granted).handle(InvokeTool("a" * 64, "{}"))
    ready = a_call(granted.grant, tools=ToolRunner(lambda name, params, call: None, RateLimiter()))
    with pytest.raises(HostFailure):
        CallServices(ready).handle(InvokeTool("b" * 300, "{}"))
    decided = (call.decisions[0], granted.decisions[0], ready.decisions[0])
    subjects = [each.redacted(str).subject for each in decided]
    assert subjects == ["p" * 200 + "...", "a" * 64, ""]  # what no alias can be is not quoted at all


class Opened:
    """A response that a guest has open."""

    status = 200
    headers = ()

    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def test_open_responses_of_a_guest_are_closed_with_the_services() -> None:
    opened = [Opened() for _ in range(4)]
    left = iter(opened)

    class Gateway:
        networks = ()

        def open(self, call: Call, request: HttpOpen) -> Opened:
            return next(left)

    host = CallServices(a_call(http=Gateway()))
    for response in opened:
        head = host.handle(GET)
        if response is opened[1]:
            host.handle(HttpClose(head.handle))
            assert not response.is_open
    host.close()
    assert [response.is_open for response in opened] == [False] * 4


def test_a_call_without_usage_reports_zero() -> None:
    before = time.monotonic()
    call = a_call()
    usage = call.usage()
    assert 0 <= usage.wall_seconds <= time.monotonic() - before
    assert set(usage._replace(wall_seconds=0.0)) == {0}
    call.charge_http_bytes(sent=3, received=4)
    call.charge_http_bytes(sent=30, received=40)
    assert (call.usage().http_sent_bytes, call.usage().http_received_bytes) == (33, 44)
    assert call.usage(output_bytes=5).output_bytes == 5


def test_a_change_prevented_by_existing_files_is_not_a_denial(tmp_path: Path) -> None:
    writing = WorkspaceWriteCapability(("out/",), remove=True)
    grant = Capabilities.none().with_workspace_write(writing)
    call = a_call(grant, writer=WorkspaceWriter(tmp_path, writing))
    host = CallServices(call)
    (tmp_path / "out/full").mkdir(parents=True)
    (tmp_path / "out/full/a").write_bytes(b"a")
    for change, reason in (
        (lambda: host.handle(WorkspaceRemove("out/none")), Reason.NOT_FOUND),
        (lambda: host.handle(WorkspaceWrite("out/full", b"x")), Reason.NOT_A_FILE),
        (lambda: host.handle(WorkspaceWrite("out/full/a", b"x", new=True)), Reason.ALREADY_EXISTS),
        (lambda: host.handle(WorkspaceRemove("out/full", directory=True)), Reason.NOT_EMPTY),
    ):
        with pytest.raises(HostFailure) as caught:
            change()
        assert caught.value.code == str(reason)
    assert call.decisions == []
    with pytest.raises(HostFailure):
        host.handle(WorkspaceWrite("notes/a", b"x"))
    assert [decision.reason for decision in call.decisions] == [Reason.PREFIX_NOT_ALLOWED]


def test_a_guest_gets_only_recorded_hints() -> None:
    call = Call(
        call_id="1", tool="notes", limits=ResourceLimits(), grant=Capabilities.none(),
        full_grant=Capabilities.none(), backends=Backends(LeakDetector()), find_amendment=lambda addition: addition.to,
    )  # fmt: skip
    host, told = CallServices(call), []
    for number in range(300):
        for ask in (
            lambda number=number: host.handle(WorkspaceWrite(f"out/{number}.md", b"x")),
            lambda number=number: host.handle(WorkspaceList(f"in/{number}", probe=False)),
            lambda number=number: host.handle(GET._replace(url=f"https://{number}.example/")),
        ):
            with pytest.raises(HostFailure) as caught:
                ask()
            told.append(caught.value.message)
    recorded = {decision.sentence for decision in call.decisions}
    with_a_step = [sentence for sentence in told if "wasmrt grant notes" in sentence]
    assert 64 <= len(with_a_step) <= len(recorded) and recorded.issuperset(with_a_step)
