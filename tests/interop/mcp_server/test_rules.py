"""The rules of the protocol for servers, over lines: one test for each row of the table in RULES.md."""

from __future__ import annotations

import json

import pytest

from tests.interop.mcp_server.world import CAPABILITIES, FORMS, META, SUBSCRIPTION, VERSION, Line, World
from wasmrt import tool
from wasmrt.interop.mcp.server.protocol import LEGACY, SUPPORTED

# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, -7, 2**53 - 1, "", "a b", "7"])
def test_a_response_has_its_requests_id_with_the_same_type(line: Line, number: int | str) -> None:
    line.request("server/discover", {"_meta": META}, number=number)
    answer = line.read()
    assert answer["id"] == number and type(answer["id"]) is type(number)


def test_every_modern_result_has_its_type_and_the_server_info(line: Line) -> None:
    for method, params in (
        ("server/discover", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}}),
        ("tools/call", {"name": "broken"}),
    ):
        result = line.ask(method, params)
        assert result["resultType"] == "complete"
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {
            "name": "wasmrt",
            "title": "wasmrt",
            "version": "1",
        }


def test_notifications_are_never_answered(line: Line) -> None:
    for method in ("notifications/initialized", "notifications/cancelled", "notifications/unknown", "tools/list"):
        line.send({"jsonrpc": "2.0", "method": method, "params": {"requestId": 99}})
    number = line.request("ping")
    assert line.read() == {"jsonrpc": "2.0", "id": number, "result": {}}


def test_modern_requests_share_no_state(line: Line) -> None:
    line.ask("server/discover")
    assert line.error("tools/list", {})["code"] == -32602
    line.initialize(elicitation={})
    assert "isError" in line.call("write_note", {"name": "a"}), "the session's capability is not the request's"


@pytest.mark.parametrize("missing", [VERSION, CAPABILITIES])
def test_a_request_without_required_metadata_is_refused(line: Line, missing: str) -> None:
    meta = {key: value for key, value in META.items() if key != missing}
    error = line.error("tools/list", {"_meta": meta})
    assert error["code"] == -32602 and missing in error["message"]


def test_client_information_may_be_left_out(line: Line) -> None:
    line.ask("tools/list", {"_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}})


def test_a_capability_that_was_not_declared_is_not_used(world: World, line: Line) -> None:
    result = line.call("write_note", {"name": "a"})
    assert result["resultType"] == "complete" and result["isError"] is True
    url_alone = META | {CAPABILITIES: {"elicitation": {"url": {}}}}
    assert line.call("write_note", {"name": "b"}, meta=url_alone)["resultType"] == "complete"


def test_error_codes_avoid_the_reserved_range(line: Line) -> None:
    seen = [
        line.error(method, params)["code"]
        for method, params in (
            ("nothing", {"_meta": META}),
            ("tools/call", {"_meta": META, "name": "no"}),
            ("tools/list", {"_meta": META, "cursor": "x"}),
            ("tools/list", {"_meta": META | {VERSION: "1"}}),
            ("tools/list", {}),
            ("resources/read", {"_meta": META, "uri": "a:b"}),
        )
    ]
    assert seen == [-32601, -32602, -32602, -32022, -32602, -32601]


# -- versions ----------------------------------------------------------------------------------------------------------


def test_an_unknown_version_is_refused_with_the_supported_ones(line: Line) -> None:
    error = line.error("tools/list", {"_meta": META | {VERSION: "2099-01-01"}})
    assert (error["code"], error["data"]) == (-32022, {"supported": list(SUPPORTED), "requested": "2099-01-01"})


def test_discover_reports_versions_and_capabilities(line: Line) -> None:
    found = line.ask("server/discover")
    assert found["supportedVersions"] == list(SUPPORTED)
    assert found["capabilities"] == {"tools": {"listChanged": True}}
    assert found["ttlMs"] >= 0 and found["cacheScope"] == "private"


def test_both_eras_are_served_in_any_order_on_one_connection(line: Line) -> None:
    line.ask("server/discover")
    assert line.initialize()["protocolVersion"] == "2025-11-25"
    assert line.ask("tools/list")["resultType"] == "complete"
    assert "resultType" not in line.legacy("tools/list")
    line.ask("server/discover")
    line.works()


@pytest.mark.parametrize("asked", [*LEGACY, "2026-07-28", "1999-01-01"])
def test_initialize_negotiates_the_requested_or_latest_legacy_version(line: Line, asked: str) -> None:
    found = line.initialize(asked)
    assert found["protocolVersion"] == (asked if asked in LEGACY else "2025-11-25")
    assert found["capabilities"] == {"tools": {"listChanged": True}} and found["serverInfo"]["name"] == "wasmrt"
    assert not found.keys() & {"resultType", "_meta", "ttlMs"}


def test_methods_of_the_other_era_are_unknown(line: Line) -> None:
    for method in ("ping", "initialize"):
        assert line.error(method, {"_meta": META})["code"] == -32601
    line.initialize()
    for method in ("logging/setLevel", "resources/list", "prompts/list", "completion/complete"):
        assert line.error(method, {})["code"] == -32601


def test_ping_always_gets_an_empty_result(line: Line) -> None:
    assert line.legacy("ping") == {}
    line.initialize()
    assert line.legacy("ping") == {}


# -- stdio -------------------------------------------------------------------------------------------------------------


def test_every_message_is_one_line(line: Line) -> None:
    result = line.call("tell", {"text": "one\ntwo\r\nthree\u2028four"})
    assert result["structuredContent"] == {"text": "one\ntwo\r\nthree\u2028four"}


def test_windows_line_ends_and_empty_lines_are_accepted(line: Line) -> None:
    line.raw(b"\r\n\n  \n" + json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"}).encode() + b"\r\n")
    assert line.read()["id"] == 5


def test_modern_clients_receive_no_requests(world: World, line: Line) -> None:
    seen: list[dict[str, object]] = []
    number = line.request("tools/call", {"name": "write_note", "arguments": {"name": "a"}, "_meta": FORMS})
    assert line.until(number, seen)["result"]["resultType"] == "input_required"
    assert seen == []


def test_at_the_end_of_input_the_server_finishes_running_calls(world: World, line: Line) -> None:
    number = line.request("tools/call", {"name": "wait", "_meta": META})
    assert world.started.wait(20)
    line.end_input()
    world.go.set()
    assert line.until(number)["result"]["structuredContent"] == "waited"
    assert world.server_ended.wait(20)


def test_a_last_line_without_a_line_end_is_read(world: World, line: Line) -> None:
    line.raw(json.dumps({"jsonrpc": "2.0", "id": 5, "method": "ping"}).encode())
    line.end_input()
    assert line.read()["id"] == 5


# -- cancellation, progress, subscriptions -----------------------------------------------------------------------------


@pytest.mark.parametrize("meta", [META, None])
def test_cancelling_ends_the_tool_without_a_response(world: World, line: Line, meta: dict[str, object] | None) -> None:
    line.initialize()
    number = line.request("tools/call", {"name": "wait"} | ({"_meta": meta} if meta else {}))
    assert world.started.wait(20)
    line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert world.ended.wait(20)
    seen: list[dict[str, object]] = []
    line.until(line.request("ping"), seen)
    assert seen == []
    assert [receipt.outcome for receipt in world.receipts] == ["cancelled"]


def test_cancelling_an_unknown_request_changes_nothing(line: Line) -> None:
    for known in (12345, "x", None, True, [1], 1.5):
        line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": known}})
    line.works()


@pytest.mark.parametrize("token", ["t", 7])
def test_progress_increases_and_stops_with_the_call(line: Line, token: str | int) -> None:
    seen: list[dict[str, object]] = []
    meta = META | {"progressToken": token}
    number = line.request("tools/call", {"name": "steps", "arguments": {"count": 3}, "_meta": meta})
    line.until(number, seen)
    told = [message["params"] for message in seen]
    assert [(each["progressToken"], each["progress"], each["total"]) for each in told] == [
        (token, n, 3) for n in (1, 2, 3)
    ]
    line.works()


def test_without_a_progress_token_no_progress_is_sent(line: Line) -> None:
    seen: list[dict[str, object]] = []
    line.until(line.request("tools/call", {"name": "steps", "arguments": {"count": 3}, "_meta": META}), seen)
    assert seen == []


def test_a_subscription_is_acknowledged_and_then_notified(world: World, line: Line) -> None:
    number = line.request(
        "subscriptions/listen", {"notifications": {"toolsListChanged": True, "promptsListChanged": True}, "_meta": META}
    )
    first = line.read()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"] == {"notifications": {"toolsListChanged": True}, "_meta": {SUBSCRIPTION: number}}
    line.works()
    world.registry.remove("media")
    world.refresh()
    changed = line.read()
    assert changed["method"] == "notifications/tools/list_changed"
    assert changed["params"] == {"_meta": {SUBSCRIPTION: number}}


def test_an_empty_subscription_gets_no_notifications(world: World, line: Line) -> None:
    line.request("subscriptions/listen", {"notifications": {"toolsListChanged": False}, "_meta": META})
    assert line.read()["params"]["notifications"] == {}
    world.registry.remove("media")
    world.refresh()
    line.works()


def test_a_subscription_ends_on_cancellation_and_on_shutdown(world: World, line: Line) -> None:
    first = line.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META})
    line.read()
    line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}})
    second = line.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META})
    line.read()
    line.end_input()
    last = line.until(second)["result"]
    assert (last["resultType"], last["_meta"][SUBSCRIPTION]) == ("complete", second)


def test_initialized_legacy_clients_are_notified_of_changes(world: World, line: Line) -> None:
    world.registry.remove("media")
    world.refresh()
    line.initialize()
    line.legacy("ping")
    world.registry.remove("steps")
    world.refresh()
    assert line.read() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_list_is_stable_across_connections(world: World, line: Line) -> None:
    names = [each["name"] for each in line.ask("tools/list")["tools"]]
    assert names == sorted(names) and "add" in names
    line.initialize()
    assert [each["name"] for each in line.legacy("tools/list")["tools"]] == names


def test_every_page_of_a_list_has_a_lifetime_and_a_scope(world: World, line: Line) -> None:
    for number in range(250):
        world.registry.register(numbered(number))
    world.refresh()
    pages, cursor = [], {}
    while True:
        page = line.ask("tools/list", cursor)
        pages.append(page)
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    names = [each["name"] for page in pages for each in page["tools"]]
    assert len(pages) == 2 and len(names) == len(set(names)) == 259 and names == sorted(names)
    assert {(page["ttlMs"], page["cacheScope"]) for page in pages} == {(0, "private")}


@pytest.mark.parametrize("cursor", ["", "x", "after:", "after:../x", 7, None, {}])
def test_a_foreign_cursor_is_refused(line: Line, cursor: object) -> None:
    answer = line.until(line.request("tools/list", {"_meta": META, "cursor": cursor}))
    assert ("result" in answer) if cursor is None else answer["error"]["code"] == -32602


def test_an_unknown_tool_is_a_protocol_error_and_leaves_a_receipt(world: World, line: Line) -> None:
    for name in ("nothing", "ADD", "add ", ""):
        assert line.error("tools/call", {"_meta": META, "name": name})["code"] == -32602
    assert {receipt.outcome for receipt in world.receipts} == {"unknown-tool"} and len(world.receipts) == 4


def test_invalid_input_is_a_tool_error_with_the_reason(world: World, line: Line) -> None:
    result = line.call("add", {"a": "x", "b": 2})
    assert result["isError"] is True and "a" in result["content"][0]["text"]
    assert "b" in line.call("add", {"a": 1})["content"][0]["text"]
    assert line.error("tools/call", {"_meta": META, "name": "add", "arguments": [1]})["code"] == -32602


def test_a_failed_tool_is_a_result(line: Line) -> None:
    result = line.call("broken")
    assert result["isError"] is True and "it is broken" in result["content"][0]["text"]


def test_structured_content_and_text_contain_the_same_data(line: Line) -> None:
    result = line.call("tell", {"text": "hi"})
    assert result["structuredContent"] == {"text": "hi"} == json.loads(result["content"][0]["text"])
    assert line.call("add", {"a": 1, "b": 2})["structuredContent"] == 3


@pytest.mark.parametrize("version", LEGACY)
def test_legacy_results_are_objects_with_the_fields_of_their_version(line: Line, version: str) -> None:
    line.initialize(version)
    result = line.legacy("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert result["content"] == [{"type": "text", "text": "3"}] and "resultType" not in result
    assert result.get("structuredContent") == ({"result": 3} if version >= "2025-06-18" else None)
    listed = line.legacy("tools/list")["tools"][0]
    assert ("annotations" in listed, "title" in listed) == (version >= "2025-03-26", version >= "2025-06-18")


def test_output_is_sanitized_in_text_and_structured_content(line: Line) -> None:
    result = line.call("tell", {"text": "a\u200bb\x1b[31mred <|im_start|>"})
    said = result["structuredContent"]["text"]
    assert "\u200b" not in said and "\x1b" not in said and "<|im_start|>" not in said
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_a_truncated_result_has_no_structured_content(line: Line) -> None:
    result = line.call("tell", {"text": "x" * 40_000})
    assert "structuredContent" not in result and len(result["content"][0]["text"]) < 20_000


def test_images_audio_resources_and_links_are_passed_on(line: Line) -> None:
    content = line.call("media")["content"]
    assert [each["type"] for each in content] == ["text", "image", "audio", "resource_link", "resource"]
    assert content[0]["text"].startswith("look\n[image/png, 2 bytes]")
    assert content[3] == {"type": "resource_link", "uri": "https://example.com/a", "name": "a"}


def numbered(number: int):  # type: ignore[no-untyped-def]
    @tool(name=f"tool_{number}", effects=[])
    def one() -> str:
        """Do nothing."""
        return ""

    return one
