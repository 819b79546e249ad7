"""The host's results and failures in the types of each world, as a guest receives them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasmrt.testing import ReceivedRequest, ServerConnection, http_response
from wasmrt.testing.attacks import Body
from wasmrt.testing.attacks import tool as component_of

from tests.sandbox.border.conftest import Site, Start, only_tool
from tests.sandbox.border.relays import (
    FETCH,
    INVOKE,
    KINDS,
    LIST,
    READ,
    Relay,
    agent_http,
    agent_invoke,
    agent_read,
    reporter,
)
from tests.sandbox.border.worlds import Failure, agent_tool
from wasmrt import Capabilities, PreparedTool, RateLimitConfig, Reason, ResourceLimits, ToolInvokeCapability
from wasmrt.core.errors import BudgetExceededError, GuestError
from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_PROGRESS_REPORTS

VERSIONS = ["", "@0.2.0", "@0.3.0", "@0.4.1"]


def refused(tool: PreparedTool, params: dict[str, Any]) -> dict[str, Any]:
    """The guest's result in place of a reply, in terms of its world."""
    with pytest.raises(GuestError) as caught:
        tool.execute(params)
    text = caught.value.message
    if not text.startswith("["):
        code, _, message = text.partition(": ")
        return {"code": code, "message": message}
    kind, code, message, *sent = json.loads(text)
    return {"kind": KINDS[kind], "code": code, "message": message} | ({"sent": sent[0]} if sent else {})


# -- HTTP --------------------------------------------------------------------------------------------------------------


def pages(request: ReceivedRequest, connection: ServerConnection) -> bytes:
    """Return the method and the header X-Ask in the body, with a repeated header."""
    body = f"{request.method} {request.header('X-Ask')} ".encode() + request.body
    return http_response(body, status=203, headers=(("X-Two", "a"), ("x-two", "b")))


@pytest.mark.parametrize("version", VERSIONS)
def test_repeated_headers_are_joined_for_near_agent(start: Start, site: Callable[..., Site], version: str) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), agent_http(version).component(), here.grant())
    params = {"method": "post", "url": here.url(), "headers-json": '{"X-Ask": "1"}', "timeout-ms": 60_000}
    params["body"] = base64.b64encode(b"sent").decode()
    status, headers, body = ask.execute(params).result
    assert (status, base64.b64decode(body)) == (203, b"POST 1 sent")
    assert json.loads(headers)["x-two"] == "a, b"


@pytest.mark.parametrize("headers", ["", " \n", "{}"])
def test_headers_are_optional_for_near_agent(start: Start, site: Callable[..., Site], headers: str) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), agent_http("").component(), here.grant())
    params = {"method": "GET", "url": here.url(), "headers-json": headers}
    assert base64.b64decode(ask.execute(params).result[2]) == b"GET None "


def object_of(size: int) -> str:
    """A JSON object of one header, of so many bytes."""
    return '{"X-Ask": "' + "x" * (size - 13) + '"}'


@pytest.mark.parametrize("version", ["@0.3.0", "@0.4.1"])
@pytest.mark.parametrize(
    ("headers", "message"),
    [
        *((text, "an object of strings") for text in ("{", "[]", '"x"', "null", '{"a": 1}', '{"a": null}', "[" * 9999)),
        (object_of(MAX_HEADER_BYTES + 1), f"over {MAX_HEADER_BYTES} bytes"),
    ],
)
def test_invalid_headers_are_an_input_failure(
    start: Start, site: Callable[..., Site], version: str, headers: str, message: str
) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), agent_http(version).component(), here.grant())
    failure = refused(ask, {"method": "GET", "url": here.url(), "headers-json": headers})
    assert failure["code"] == "invalid-headers"
    assert message.replace("an object", "a JSON object") in failure["message"]
    assert version == "@0.3.0" or (failure["kind"], failure["sent"]) == ("input", False)
    assert here.server.requests == []


def test_headers_of_maximum_size_are_accepted(start: Start, site: Callable[..., Site]) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), agent_http("").component(), here.grant())
    asked = object_of(MAX_HEADER_BYTES)
    assert ask.execute({"method": "GET", "url": here.url(), "headers-json": asked}).result[0] == 203
    assert here.server.requests[0].header("X-Ask") == json.loads(asked)["X-Ask"]


def test_a_fetch_keeps_every_header_in_its_order(start: Start, site: Callable[..., Site]) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), FETCH.component(), here.grant())
    status, headers, body = ask.execute({"request": [0, here.url(), [["X-Ask", "1"]], None, None]}).result
    assert (status, base64.b64decode(body)) == (203, b"GET 1 ")
    assert [pair for pair in headers if pair[0].lower() == "x-two"] == [["X-Two", "a"], ["x-two", "b"]]


def test_a_guests_timeout_is_in_milliseconds(start: Start, site: Callable[..., Site]) -> None:
    here = site(lambda request, connection: connection.closing.wait() and None)
    runtime = start(network=here.network)
    agent = only_tool(runtime, agent_http("@0.4.1").component(), here.grant())
    asked = {"method": "GET", "url": here.url(), "headers-json": "", "timeout-ms": 100}
    failure = refused(agent, asked)
    assert (failure["kind"], failure["code"], failure["sent"]) == ("operation-failed", "timeout", True)
    assert "0.1" in failure["message"]
    fetch = only_tool(runtime, FETCH.component(), here.grant())
    failure = refused(fetch, {"request": [0, here.url(), [], None, 100]})
    assert (failure["kind"], failure["code"]) == ("operation-failed", "timeout")


@pytest.mark.parametrize("relay", [FETCH, *map(agent_http, VERSIONS)], ids=lambda relay: relay.interface)
def test_a_denied_request_has_a_hint(start: Start, site: Callable[..., Site], relay: Relay) -> None:
    here = site(pages)
    ask = only_tool(start(network=here.network), relay.component())
    if relay is FETCH:
        params: dict[str, Any] = {"request": [2, here.url(), [], None, None]}
    else:
        params = {"method": "post", "url": here.url(), "headers-json": ""}
    failure = refused(ask, params)
    assert failure["code"] == str(Reason.NOT_GRANTED)
    assert failure["message"].startswith(f"POST {here.url()}")
    assert '"allowlist"' in failure["message"]
    assert failure.get("kind", "network-denied") == "network-denied"
    assert here.server.connections == 0


# -- the workspace -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes/a.md").write_text("grüße")
    (folder / "notes/raw").write_bytes(b"\xff\x00")
    (folder / "notes/deep").mkdir()
    (folder / "other.md").write_text("not for you")
    return folder


NOTES = Capabilities.none().with_workspace_read(["notes/"])


@pytest.mark.parametrize("version", VERSIONS)
def test_near_agent_reads_text_and_gets_none_for_failures(start: Start, folder: Path, version: str) -> None:
    runtime = start(workspace=folder)
    read = only_tool(runtime, agent_read(version).component(), NOTES)
    assert read.execute({"path": "notes/a.md"}).result == "grüße"
    for path in ("notes/raw", "notes/none.md", "notes/deep", "other.md", "notes/../other.md", "", "/etc/passwd"):
        assert read.execute({"path": path}).result is None
    assert [d.reason for d in read.execute({"path": "other.md"}).decisions] == [Reason.PREFIX_NOT_ALLOWED]
    without = only_tool(runtime, agent_read(version).component())
    output = without.execute({"path": "notes/a.md"})
    assert output.result is None
    assert [d.reason for d in output.decisions] == [Reason.NOT_GRANTED]


def test_a_tool_reads_bytes_and_lists_entries(start: Start, folder: Path) -> None:
    runtime = start(workspace=folder)
    read = only_tool(runtime, READ.component(), NOTES)
    assert base64.b64decode(read.execute({"path": "notes/raw"}).result) == b"\xff\x00"
    entries = only_tool(runtime, LIST.component(), NOTES).execute({"path": "notes/"}).result
    assert sorted(entries) == [["a.md", 0, 7], ["deep", 1, 0], ["raw", 0, 2]]


@pytest.mark.parametrize("relay", [READ, LIST], ids=["read", "list"])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("other.md", Reason.PREFIX_NOT_ALLOWED),
        ("notes/../other.md", Reason.INVALID_PATH),
        ("notes/none", Reason.NOT_FOUND),
    ],
)
def test_denials_in_wasmrt_tool_are_typed(start: Start, folder: Path, relay: Relay, path: str, reason: Reason) -> None:
    tool = only_tool(start(workspace=folder), relay.component(), NOTES)
    with pytest.raises(GuestError) as caught:
        tool.execute({"path": path})
    assert [(d.allowed, d.reason) for d in caught.value.decisions] == [(False, reason)]
    failure = refused(tool, {"path": path})
    assert (failure["kind"], failure["code"]) == ("network-denied", str(reason))
    without = refused(only_tool(start(workspace=folder), relay.component()), {"path": path})
    assert without["code"] in (str(Reason.NOT_GRANTED), str(Reason.INVALID_PATH))


@pytest.mark.parametrize("relay", [READ, LIST], ids=["read", "list"])
def test_a_runtime_without_a_workspace_has_a_hint(start: Start, relay: Relay) -> None:
    failure = refused(only_tool(start(), relay.component(), NOTES), {"path": "notes/a.md"})
    assert failure["code"] == str(Reason.NOT_GRANTED)
    assert "this runtime has no workspace" in failure["message"]
    assert "--workspace DIR" in failure["message"]


# -- other tools -------------------------------------------------------------------------------------------------------

ON = Capabilities.none().with_tool_invoke({"on": "other"})
RELAYED = {"output-too-large": "executor", "network-denied": "auth-required"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_of_an_invoked_tool_is_typed_in_the_callers_world(start: Start, kind: str) -> None:
    runtime = start()
    runtime.prepare("other", agent_tool("@0.4.1", Failure(kind, "full", "no room")))
    failure = refused(only_tool(runtime, INVOKE.component(), ON), {"alias": "on", "params": "{}"})
    assert failure == {"kind": RELAYED.get(kind, kind), "code": "tool:full", "message": "no room"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failure_of_an_invoked_tool_is_a_string_for_near_agent(start: Start, version: str) -> None:
    runtime = start()
    runtime.prepare("other", agent_tool("@0.4.1", Failure("client", "full", "no room")))
    failing = refused(only_tool(runtime, agent_invoke(version).component(), ON), {"alias": "on", "params-json": "{}"})
    assert failing == {"code": "tool:full", "message": "no room"}


def test_the_result_of_an_invoked_tool_is_its_text(start: Start) -> None:
    runtime = start()
    runtime.prepare("other", agent_tool("@0.3.0", '{"n": 1}'))
    tool = only_tool(runtime, INVOKE.component(), ON)
    assert json.loads(tool.execute({"alias": "on", "params": "{}"}).result) == {"n": 1}
    wrong = refused(tool, {"alias": "on", "params": "{"})
    assert (wrong["kind"], wrong["code"]) == ("input", "invalid-parameters")
    unknown = refused(tool, {"alias": "off", "params": "{}"})
    assert (unknown["kind"], unknown["code"]) == ("network-denied", str(Reason.ALIAS_NOT_ALLOWED))


def test_an_invoked_tool_uses_the_callers_workspace(start: Start, folder: Path) -> None:
    runtime = start()
    runtime.prepare("other", READ.component(), NOTES)
    tool, params = only_tool(runtime, INVOKE.component(), ON), {"alias": "on", "params": '{"path": "notes/raw"}'}
    assert base64.b64decode(json.loads(tool.execute(params, workspace=folder).result)) == b"\xff\x00"
    with pytest.raises(GuestError, match="this runtime has no workspace"):
        tool.execute(params)


def test_a_timeout_of_an_invoked_tool_is_reported_to_the_caller(start: Start) -> None:
    runtime = start()
    loop = bytes(wasmtime.wat2wasm(component_of(Body(execute="(loop (br 0)) (unreachable)"))))
    runtime.prepare("other", loop, limits=ResourceLimits(fuel=2**60, timeout_seconds=0.05))
    failure = refused(only_tool(runtime, INVOKE.component(), ON), {"alias": "on", "params": "{}"})
    assert (failure["kind"], failure["code"]) == ("executor", "deadline-exceeded")


def test_an_exceeded_rate_limit_is_reported_to_the_caller(start: Start) -> None:
    runtime = start()
    runtime.prepare("other", agent_tool("", "{}"))
    once = RateLimitConfig(requests_per_minute=1, requests_per_hour=1)
    tool = only_tool(
        runtime,
        INVOKE.component(),
        Capabilities.none().with_tool_invoke(ToolInvokeCapability((("on", "other"),), once)),
    )
    assert tool.execute({"alias": "on", "params": "{}"}).result == "{}"
    failure = refused(tool, {"alias": "on", "params": "{}"})
    assert (failure["kind"], failure["code"]) == ("executor", "rate-limited")


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_reports_are_limited(start: Start) -> None:
    runtime = start()
    seen: list[tuple[int, int | None, str | None]] = []

    def note(done: int, total: int | None, message: str | None) -> None:
        seen.append((done, total, message))

    assert only_tool(runtime, reporter(times=MAX_PROGRESS_REPORTS)).execute({}, on_progress=note).result is True
    assert seen == [(1, None, None)] * MAX_PROGRESS_REPORTS
    with pytest.raises(BudgetExceededError) as caught:
        only_tool(runtime, reporter(times=MAX_PROGRESS_REPORTS + 1)).execute({})
    error = caught.value
    assert (error.limit, error.used) == (MAX_PROGRESS_REPORTS, MAX_PROGRESS_REPORTS + 1)
