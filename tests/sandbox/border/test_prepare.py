"""Preparing a component: it is described without a grant and within limits."""

from __future__ import annotations

import traceback

import pytest
import wasmtime
from wasmrt.testing.attacks import Body, tool

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import Relay
from tests.sandbox.border.worlds import Offer, provider
from wasmrt import Capabilities, EndpointPattern, Isolation, ResourceLimits
from wasmrt.capabilities import ToolGrant
from wasmrt.core.errors import (
    BudgetExceededError,
    InstantiationError,
    InternalError,
    MemoryLimitError,
    UnknownWorldError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_LIFTED_VALUES, MAX_LOG_ENTRIES, MAX_TOOLS_PER_COMPONENT, MIB
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.replies import HostFailure
from wasmrt.sandbox.guest.requests import HttpCheck, HttpOpen, InvokeTool, SecretExists, WorkspaceList, WorkspaceRead
from wasmrt.sandbox.guest.services import NoServices

REFUSED = "not-granted: nothing is granted while a tool is prepared"
GRANT = (
    Capabilities.none()
    .with_http([EndpointPattern.host("api.example.com")])
    .with_workspace_read([""])
    .with_secrets(["*"])
    .with_tool_invoke({"on": "other"})
)


def built(body: Body) -> bytes:
    return bytes(wasmtime.wat2wasm(tool(body)))


# -- describing --------------------------------------------------------------------------------------------------------

_ERROR_AS_TEXT = """(i32.store (i32.const 128) (i32.load (i32.const 260)))
  (i32.store (i32.const 132) (i32.load (i32.const 264))) (i32.const 128)"""


@pytest.mark.parametrize(
    ("name", "ask"),
    [
        (
            "http-request",
            "(call $http-request (i32.const 1024) (i32.const 3) (i32.const 1027) (i32.const 24) (i32.const 1051) "
            "(i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))",
        ),
        (
            "tool-invoke",
            "(call $tool-invoke (i32.const 1053) (i32.const 2) (i32.const 1051) (i32.const 2) (i32.const 256))",
        ),
    ],
)
def test_requests_during_description_are_refused_despite_a_grant(start: Start, name: str, ask: str) -> None:
    body = Body(imports=(name,), text=b"GEThttps://api.example.com/{}on", description=f"{ask} {_ERROR_AS_TEXT}")
    prepared = start().prepare("asks", built(body), GRANT)
    assert (prepared.description, prepared.problems) == (REFUSED, ())


def test_no_services_are_available_before_a_call() -> None:
    none = NoServices()
    for ask in (
        lambda: none.handle(HttpOpen("GET", "https://api.example.com/")),
        lambda: none.handle(WorkspaceRead("a.md")),
        lambda: none.handle(WorkspaceList("")),
        lambda: none.handle(InvokeTool("on", "{}")),
    ):
        with pytest.raises(HostFailure) as caught:
            ask()
        assert (caught.value.kind, caught.value.code, caught.value.denied) == ("network-denied", "not-granted", True)
    assert none.handle(SecretExists("token")) is False
    assert none.has_workspace is False
    refusal = none.handle(HttpCheck("GET", "https://api.example.com/"))
    assert refusal is not None and refusal.denied


ASKS = "(drop (call $secret-exists (i32.const 1024) (i32.const 3)))"
WHILE = {
    "described": Body(imports=("secret-exists",), description=f"{ASKS} (call $text-result)"),
    "started": Body(imports=("secret-exists",), start=ASKS),
}


def break_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(self: NoServices, request: object) -> None:
        raise error

    monkeypatch.setattr(NoServices, "handle", fail)


def test_host_errors_during_start_are_reported_without_their_text(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_with(monkeypatch, LookupError("a text of the host"))
    with pytest.raises(InternalError) as caught:
        start(isolation=Isolation.IN_PROCESS).prepare("broken", built(WHILE["started"]))
    assert "a text of the host" not in str(caught.value) + str(caught.value.hint)
    assert "a text of the host" in "".join(traceback.format_exception(caught.value))


def test_host_errors_during_description_become_problems_without_text(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_with(monkeypatch, LookupError("a text of the host"))
    prepared = start(isolation=Isolation.IN_PROCESS).prepare("broken", built(WHILE["described"]))
    assert prepared.problems == ("describing it failed: a host function failed",)
    monkeypatch.undo()
    assert prepared.execute({}).result == {"ok": True}


@pytest.mark.parametrize("when", WHILE)
def test_a_wasmrt_error_during_description_keeps_its_message(
    start: Start, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setenv("WASMRT_HOME", "/nonexistent")
    break_with(monkeypatch, BudgetExceededError("too much", limit=1, used=2, setting="a setting"))
    if when == "described":
        assert start(isolation=Isolation.IN_PROCESS).prepare("broken", built(WHILE[when])).problems == (
            "describing it failed: too much",
        )
        return
    with pytest.raises(InstantiationError, match="cannot be started: too much"):
        start(isolation=Isolation.IN_PROCESS).prepare("broken", built(WHILE[when]))


@pytest.mark.parametrize("when", WHILE)
def test_an_interrupt_during_prepare_reaches_the_caller(
    start: Start, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    break_with(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        start(isolation=Isolation.IN_PROCESS).prepare("interrupted", built(WHILE[when]))


# -- instantiation -----------------------------------------------------------------------------------------------------


def test_a_failing_start_function_is_not_reported_as_memory(start: Start) -> None:
    limits = ResourceLimits(memory_bytes=16 * MIB)
    with pytest.raises(MemoryLimitError):
        start().prepare("large", built(Body(pages=320)), limits=limits)
    with pytest.raises(InstantiationError) as caught:
        start().prepare("large", built(Body(pages=320, start="(unreachable)")), limits=limits)
    assert not isinstance(caught.value, MemoryLimitError)


@pytest.mark.parametrize("memories", [2, 8])
def test_several_memories_share_one_budget(start: Start, memories: int) -> None:
    modules = "".join(
        f"(core module $m{n} (memory 1)) (core instance (instantiate $m{n}))" for n in range(memories - 1)
    )
    assert start().prepare("several", built(Body(more_modules=modules))).execute({}).result == {"ok": True}


# -- functions ---------------------------------------------------------------------------------------------------------

_HANDLE = """(component
  (core module $main (func (export "f") (param i32)) {more_core})
  (core instance $main (instantiate $main))
  (type $thing' (resource (rep i32)))
  (export $thing "thing" (type $thing'))
  (func (export "use") (param "it" (own $thing)) (canon lift (core func $main "f")))
  {more})"""


def test_a_function_that_json_cannot_call_is_left_out(start: Start) -> None:
    plain = '(func (export "one") (result u32) (canon lift (core func $main "one")))'
    core = '(func (export "one") (result i32) (i32.const 1))'
    component = bytes(wasmtime.wat2wasm(_HANDLE.format(more=plain, more_core=core)))
    prepared = start().prepare("some", component)
    assert [spec.name for spec in prepared.tools] == ["one"]
    assert prepared.execute({}).result == 1


def test_a_component_with_only_unsupported_functions_has_a_reason(start: Start) -> None:
    component = bytes(wasmtime.wat2wasm(_HANDLE.format(more="", more_core="")))
    with pytest.raises(UnknownWorldError, match=r"it exports use; problem of use: .*handle"):
        start().prepare("none", component)


def test_a_component_without_functions_exports_nothing(start: Start) -> None:
    with pytest.raises(UnknownWorldError, match="it exports nothing"):
        start().prepare("none", bytes(wasmtime.wat2wasm("(component)")))


def test_only_the_first_functions_up_to_the_limit_become_tools(start: Start) -> None:
    count = MAX_TOOLS_PER_COMPONENT + 1
    exports = "".join(f'(func (export "f{n}") (canon lift (core func $main "f")))' for n in range(count))
    component = f"""(component (core module $main (func (export "f")))
      (core instance $main (instantiate $main)) {exports})"""
    prepared = start().prepare("many", bytes(wasmtime.wat2wasm(component)))
    assert [spec.name for spec in prepared.tools] == [f"f{n}" for n in range(count - 1)]


# -- usage of one call -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "passes"), [(MAX_LIFTED_VALUES // 3, True), (MAX_LIFTED_VALUES + 1, False)])
def test_the_number_of_values_in_a_call_is_limited(start: Start, count: int, passes: bool) -> None:
    body = Body(
        imports=("fetch",),
        execute=f"""(drop (memory.grow (i32.const 200)))
          (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const {count})
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256)) (call $ok)""",
    )
    prepared = start().prepare("passes", built(body), limits=ResourceLimits(timeout_seconds=120, memory_bytes=64 * MIB))
    if passes:
        assert prepared.execute({}).result == {"ok": True}
        return
    with pytest.raises(BudgetExceededError) as caught:
        prepared.execute({})
    assert (caught.value.limit, caught.value.setting) == (MAX_LIFTED_VALUES, "limits.MAX_LIFTED_VALUES")


def test_each_tool_of_a_component_has_its_part_of_the_grant(start: Start) -> None:
    reads, asks = Capabilities.none().with_workspace_read(["notes/"]), Capabilities.none().with_secrets(["token"])
    grant = reads.with_secrets(["token"]).with_tools([ToolGrant("reads", reads), ToolGrant("asks", asks)])
    several = start().prepare("several", provider([Offer("reads"), Offer("asks"), Offer("rests")]), grant)
    assert [several.tool(name).capabilities for name in ("reads", "asks", "rests")] == [reads, asks, Capabilities()]


def a_guest_call() -> GuestCall:
    return GuestCall(Lifetime(60), ResourceLimits(), NoServices(), SystemClock())


def test_the_first_of_two_failures_is_kept() -> None:
    call = a_guest_call()
    first = LookupError("first")
    call.fail(first)
    call.fail(LookupError("second"))
    assert call.failure is first


def test_log_entries_over_the_limit_are_counted() -> None:
    call = a_guest_call()
    for _ in range(MAX_LOG_ENTRIES + 2):
        call.log(LogLevel.INFO, "a line")
    assert (len(call.logs), call.log_entries_dropped) == (MAX_LOG_ENTRIES, 2)


def test_values_are_counted_over_all_lists_of_a_call() -> None:
    call = a_guest_call()
    for _ in range(2):
        call.charge_values(MAX_LIFTED_VALUES // 2)
    with pytest.raises(BudgetExceededError) as caught:
        call.charge_values(1)
    assert (caught.value.limit, caught.value.used) == (MAX_LIFTED_VALUES, MAX_LIFTED_VALUES + 1)


@pytest.mark.parametrize("function", ["now", "monotonic"])
def test_clocks_of_a_guest_advance(start: Start, function: str) -> None:
    clock = Relay(
        interface="wasmrt:tool/clock@0.1.0", function=function, params="", result="u64", flat="", in_memory=False
    )
    read = only_tool(start(), clock.component())
    first, second = (int(read.execute({}).result) for _ in range(2))
    assert 0 < first <= second
