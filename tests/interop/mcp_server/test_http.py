"""Streamable HTTP: the rules of both eras, authentication, and hostile clients."""

from __future__ import annotations

import asyncio
import base64
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.interop.mcp_server.site import BOTH, Site, events
from tests.interop.mcp_server.test_hostile_clients import KINDS
from tests.interop.mcp_server.world import FORMS, META, SUBSCRIPTION, VERSION
from wasmrt.agent.approvals import ApprovalAnswer
from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.mcp.server.http import UserTokens, _endpoint
from wasmrt.interop.mcp.server.tools import _approver

NAME = {"name": "a"}
ALLOW = {"action": "accept", "content": {"answer": "allow once"}}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_approver, "QUEUE_SECONDS", 0.05)


# -- modern ------------------------------------------------------------------------------------------------------------


def test_a_modern_request_gets_one_json_response(site: Site) -> None:
    found = site.post(site.message("server/discover", {"_meta": META}))
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json()["result"]["resultType"] == "complete"
    assert not found.headers.get("mcp-session-id")
    site.works()


def test_progress_is_streamed_before_the_result(site: Site) -> None:
    params = {"name": "steps", "arguments": {"count": 3}, "_meta": META | {"progressToken": "p"}}
    found = site.post(site.message("tools/call", params))
    assert found.headers["content-type"] == "text/event-stream" and found.headers["x-accel-buffering"] == "no"
    told = list(events(found))
    assert [each["params"]["progress"] for each in told[:-1]] == [1, 2, 3] and "result" in told[-1]


def test_a_disconnected_client_cancels_its_call(site: Site) -> None:
    headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="wait")
    message = site.message("tools/call", {"name": "wait", "_meta": META})
    impatient = httpx.Client(timeout=httpx.Timeout(20, read=0.2), trust_env=False)
    with impatient, pytest.raises(httpx.ReadTimeout):
        impatient.post(site.url, json=message, headers=headers)
    assert site.world.ended.wait(20)
    site.works()


def test_closing_the_stream_of_a_call_cancels_it(site: Site) -> None:
    message = site.message("tools/call", {"name": "begin", "_meta": META | {"progressToken": "p"}})
    headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="begin")
    with site.client.stream("POST", site.url, json=message, headers=headers) as stream:
        assert next(events(stream))["method"] == "notifications/progress"
    assert site.world.ended.wait(20)
    site.works()


def test_a_subscription_is_a_stream_of_changes(site: Site) -> None:
    message = site.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")
    with site.client.stream("POST", site.url, json=message, headers=headers) as listening:
        told = events(listening)
        assert next(told)["params"]["_meta"] == {SUBSCRIPTION: message["id"]}
        site.world.registry.remove("media")
        site.world.refresh()
        assert next(told)["method"] == "notifications/tools/list_changed"


def test_a_subscription_ends_with_its_token(site: Site) -> None:
    message = site.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = site.headers("eve", mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")
    with site.client.stream("POST", site.url, json=message, headers=headers) as listening:
        told = events(listening)
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
        site.users.renew("eve")
        site.world.registry.remove("media")
        site.world.refresh()
        assert list(told) == []
    assert [each.outcome for each in site.world.receipts] == ["invalid-token"]


@pytest.mark.parametrize(
    "headers",
    [
        {"mcp_protocol_version": ""},
        {"mcp_method": ""},
        {"mcp_name": ""},
        {"mcp_protocol_version": "2025-11-25"},
        {"mcp_method": "tools/list"},
        {"mcp_method": "TOOLS/CALL"},
        {"mcp_name": "tell"},
        {"mcp_name": "ADD"},
        {"mcp_name": "=?base64?!!?="},
        {"mcp_name": "=?BASE64?YWRk?="},
        {"mcp_name": "=?base64?dGVsbA==?="},
    ],
)
def test_headers_that_differ_from_the_body_are_refused(site: Site, headers: dict[str, str]) -> None:
    message = site.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META})
    found = site.post(message, **headers)
    assert (found.status_code, found.json()["error"]["code"], found.json()["id"]) == (400, -32020, message["id"])
    site.works()


def test_an_encoded_name_is_decoded_before_it_is_compared(site: Site) -> None:
    name = f"=?base64?{base64.b64encode(b'add').decode()}?="
    message = site.message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META})
    assert site.post(message, mcp_name=name).json()["result"]["structuredContent"] == 3


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("tools/list", {"_meta": META | {VERSION: "2099-01-01"}}, 400, -32022),
        ("nothing", {"_meta": META}, 404, -32601),
        ("ping", {"_meta": META}, 404, -32601),
        ("tools/list", {"_meta": {VERSION: "2026-07-28"}}, 400, -32602),
        ("tools/call", {"_meta": META, "name": "nothing"}, 400, -32602),
        ("tools/list", {"_meta": META, "cursor": "x"}, 400, -32602),
    ],
)
def test_modern_errors_map_to_http_statuses(
    site: Site, method: str, params: dict[str, Any], status: int, code: int
) -> None:
    found = site.post(site.message(method, params))
    assert (found.status_code, found.json()["error"]["code"]) == (status, code)


def test_a_modern_header_without_the_metadata_is_refused(site: Site) -> None:
    found = site.post(site.message("tools/list"), mcp_protocol_version="2026-07-28", mcp_method="tools/list")
    assert (found.status_code, found.json()["error"]["code"]) == (400, -32602)


def test_legacy_session_and_event_ids_are_ignored(site: Site) -> None:
    message = site.message("tools/list", {"_meta": META})
    assert site.post(message, mcp_session_id="made-up", last_event_id="7").status_code == 200


def test_notifications_are_accepted_without_a_body(site: Site) -> None:
    found = site.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert (found.status_code, found.content) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "PATCH"])
def test_other_methods_are_not_allowed(site: Site, method: str) -> None:
    found = site.client.request(method, site.url, headers=site.headers())
    assert (found.status_code, found.headers["allow"]) == (405, "POST")


def test_a_form_over_http_approves_the_call(site: Site) -> None:
    asked = site.call("write_note", NAME, _meta=FORMS)
    assert asked["resultType"] == "input_required"
    given = {"inputResponses": {"approval": ALLOW}, "requestState": asked["requestState"], "_meta": FORMS}
    assert site.call("write_note", NAME, **given)["structuredContent"] == "wrote a"


# -- legacy ------------------------------------------------------------------------------------------------------------


def begin(site: Site, version: str = "2025-11-25", user: str = "local", **capabilities: Any) -> httpx.Response:
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "old", "version": "2"}}
    found = site.post(site.message("initialize", params), user=user)
    assert found.status_code == 200
    return found


def test_a_legacy_client_can_omit_its_session(site: Site) -> None:
    found = begin(site)
    assert found.headers["mcp-session-id"]
    assert found.json()["result"]["capabilities"] == {"tools": {"listChanged": False}}
    listed = site.post(site.message("tools/list"), mcp_protocol_version="2025-11-25").json()["result"]
    assert "resultType" not in listed and "add" in [each["name"] for each in listed["tools"]]


def test_a_legacy_request_without_a_version_is_one_of_2025_03_26(site: Site) -> None:
    listed = site.post(site.message("tools/list")).json()["result"]["tools"]
    assert "annotations" in listed[0] and "title" not in listed[0]


def test_an_unknown_legacy_version_is_refused(site: Site) -> None:
    found = site.post(site.message("tools/list"), mcp_protocol_version="1999-01-01")
    assert (found.status_code, found.json()["error"]["code"]) == (400, -32022)


def test_legacy_errors_do_not_use_status_404(site: Site) -> None:
    found = site.post(site.message("resources/list"), mcp_protocol_version="2025-11-25")
    assert (found.status_code, found.json()["error"]["code"]) == (200, -32601)


def ask_old(site: Site, session: str) -> tuple[Any, Any]:
    """Return the stream of a call that requests a form, and the form."""
    headers = site.headers(mcp_session_id=session, mcp_protocol_version="2025-11-25")
    message = site.message("tools/call", {"name": "write_note", "arguments": NAME})
    stream = site.client.stream("POST", site.url, json=message, headers=headers)
    told = events(stream.__enter__())
    return (stream, told), next(told)


def test_a_legacy_form_is_streamed_and_answered_by_post(site: Site) -> None:
    session = begin(site, elicitation={}).headers["mcp-session-id"]
    assert session.isascii() and len(session) >= 32
    (stream, told), asked = ask_old(site, session)
    assert asked["method"] == "elicitation/create"
    answer = {"jsonrpc": "2.0", "id": asked["id"], "result": ALLOW}
    for wrong in ({"mcp_session_id": "x"}, {"mcp_session_id": ""}, {"mcp_session_id": session, "user": "eve"}):
        assert site.post(answer, **wrong).status_code == 400
    assert site.post(answer, mcp_session_id=session).status_code == 202
    assert next(told)["result"]["content"][0]["text"] == "wrote a"
    stream.__exit__(None, None, None)


def test_ended_and_foreign_sessions_are_not_found(site: Site) -> None:
    session = begin(site, elicitation={}).headers["mcp-session-id"]
    assert site.post(site.message("tools/list"), mcp_session_id=session).status_code == 200
    assert site.post(site.message("tools/list"), user="eve", mcp_session_id=session).status_code == 404
    ended = site.headers("eve", mcp_session_id=session)
    assert site.client.delete(site.url, headers=ended).status_code == 404
    assert site.client.delete(site.url, headers=site.headers(mcp_session_id=session)).status_code == 204
    assert site.post(site.message("tools/list"), mcp_session_id=session).status_code == 404


# -- authentication ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [None, "", "Bearer", "Bearer wrong", "Basic {}", "Bearer {}x", "bearer  x{}", "{}"],
)
def test_requests_without_a_valid_token_are_refused(site: Site, token: str | None) -> None:
    headers = {"accept": BOTH} | ({} if token is None else {"authorization": token.format(site.tokens["local"])})
    found = site.client.post(site.url, json=site.message("server/discover", {"_meta": META}), headers=headers)
    assert found.status_code == 401 and found.headers["www-authenticate"].startswith("Bearer")
    (receipt,) = site.world.receipts
    assert (receipt.kind, receipt.user) == ("mcp-message", "")
    assert receipt.outcome == ("no-token" if token is None else "invalid-token")


def test_without_a_token_the_body_is_not_read(site: Site) -> None:
    host = f"host: {site.url.removeprefix('http://').removesuffix('/mcp')}"
    head = ["POST /mcp HTTP/1.1", host, "content-type: application/json", "content-length: 1000", "", ""]
    assert site.raw("\r\n".join(head).encode()).split()[1] == b"401"


def test_a_token_in_the_url_is_refused(site: Site) -> None:
    found = site.client.post(f"{site.url}?token={site.tokens['local']}&access_token={site.tokens['local']}", json={})
    assert found.status_code == 401


def test_a_renewed_token_ends_the_old_one_and_only_digests_are_stored(site: Site, tmp_path: Path) -> None:
    old = site.tokens["local"]
    site.tokens["local"] = site.users.renew("local")
    site.works()
    text = (tmp_path / "tokens.json").read_text()
    assert old not in text and site.tokens["local"] not in text
    found = site.client.post(site.url, json={}, headers={"authorization": f"Bearer {old}"})
    assert found.status_code == 401
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0


def test_a_tokens_file_that_others_can_read_is_refused(site: Site, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").chmod(0o644)
    with pytest.raises(ConfigurationError, match="tokens"):
        UserTokens(tmp_path / "tokens.json").user_of("x")


def test_users_are_kept_apart(site: Site) -> None:
    """States, requests and answers of one user are invalid for another."""
    asked = site.call("write_note", NAME, _meta=FORMS)
    given = {
        "name": "write_note",
        "arguments": NAME,
        "inputResponses": {"approval": ALLOW},
        "requestState": asked["requestState"],
        "_meta": FORMS,
    }
    found = site.post(site.message("tools/call", given), user="eve")
    assert found.json()["error"]["code"] == -32602 and site.world.done == []
    (waiting,) = site.world.pending()
    site.world.store.answer(waiting, ApprovalAnswer(approved=True, by="ann"), user="local")
    other = site.post(site.message("tools/call", {"name": "write_note", "arguments": NAME, "_meta": META}), user="eve")
    assert "--user eve" in other.json()["result"]["content"][0]["text"] and site.world.done == []
    assert {receipt.user for receipt in site.world.receipts} == {"local", "eve"}
    assert site.call("write_note", NAME)["structuredContent"] == "wrote a"


# -- hostile clients ---------------------------------------------------------------------------------------------------


def hostile(site: Site, *lines: str, body: bytes = b"{}") -> int:
    """Send a request with these headers and the token, and return the status."""
    head = [
        "POST /mcp HTTP/1.1",
        f"authorization: Bearer {site.tokens['local']}",
        *lines,
        f"content-length: {len(body)}",
        "connection: close",
    ]
    return int(site.raw("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body).split()[1])


HOSTILE: dict[str, tuple[tuple[str, ...], int]] = {
    "a name that was rebound": (("host: evil.example",), 421),
    "a name that was rebound, with the port": (("host: evil.example:{port}",), 421),
    "our name as a part of another": (("host: 127.0.0.1.evil.example:{port}",), 421),
    "no name": ((), 400),
    "two names": (("host: 127.0.0.1:{port}", "host: evil.example"), 400),
    "another port": (("host: 127.0.0.1:1",), 421),
    "a page of another origin": (("host: 127.0.0.1:{port}", "origin: https://evil.example"), 403),
    "a page without an origin": (("host: 127.0.0.1:{port}", "origin: null"), 403),
    "a page of another port": (("host: 127.0.0.1:{port}", "origin: http://127.0.0.1:1"), 403),
    "a page over TLS": (("host: 127.0.0.1:{port}", "origin: https://127.0.0.1:{port}"), 403),
    "two origins": (("host: 127.0.0.1:{port}", "origin: http://127.0.0.1:{port}", "origin: https://evil.example"), 400),
    "a form": (("host: 127.0.0.1:{port}", "content-type: application/x-www-form-urlencoded"), 415),
    "plain text, which a page may send": (("host: 127.0.0.1:{port}", "content-type: text/plain"), 415),
    "no kind of body": (("host: 127.0.0.1:{port}",), 415),
    "an answer nobody has": (("host: 127.0.0.1:{port}", "content-type: application/json", "accept: text/html"), 406),
    "two tokens": (("host: 127.0.0.1:{port}", "authorization: Bearer x"), 400),
}


OF_STATUS = {
    400: "malformed-http",
    403: "other-origin",
    406: "wrong-media-type",
    415: "wrong-media-type",
    421: "other-host",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_requests_from_web_pages_and_rebound_names_are_refused(site: Site, case: str) -> None:
    lines, status = HOSTILE[case]
    port = site.url.rpartition(":")[2].removesuffix("/mcp")
    assert hostile(site, *(line.format(port=port) for line in lines)) == status
    assert [receipt.outcome for receipt in site.world.receipts] == [OF_STATUS[status]]
    site.works()


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', -32700),
    "a name twice": (b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}', -32700),
    "an empty batch": (b"[]", -32600),
    "an id of null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    "nested lists": (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"[" * 9999 + b"]" * 9999 + b"}}",
        -32600,
    ),
    "bytes that are no text": (b"\xff\xfe", -32700),
    "a response to nobody": (b'{"jsonrpc":"2.0","id":"wasmrt-1","result":{"action":"accept"}}', -32600),
}


@pytest.mark.parametrize("case", BODIES)
def test_bodies_that_are_not_messages_are_refused(site: Site, case: str) -> None:
    body, code = BODIES[case]
    headers = site.headers(content_type="application/json")
    found = site.client.post(site.url, content=body, headers=headers)
    assert (found.status_code, found.json()["error"]["code"]) == (400, code)
    outcome = "answers-no-question" if case == "a response to nobody" else KINDS[code]
    assert [receipt.outcome for receipt in site.world.receipts] == [outcome]
    site.works()


def test_an_oversized_body_is_refused_before_it_is_stored(site: Site) -> None:
    headers = site.headers(content_type="application/json")
    found = site.client.post(site.url, content=b" " * (5 << 20), headers=headers)
    assert found.status_code == 413
    assert [receipt.outcome for receipt in site.world.receipts] == ["too-large"]
    site.works()


@pytest.mark.parametrize("path", ["/", "/mcp/", "/MCP", "/mcp/../mcp", "//mcp", "/%6dcp", "/.well-known/x"])
def test_only_the_endpoints_path_is_served(site: Site, path: str) -> None:
    host = f"host: {site.url.removeprefix('http://').removesuffix('/mcp')}"
    token = f"authorization: Bearer {site.tokens['local']}"
    lines = [f"POST {path} HTTP/1.1", host, token, "connection: close", "content-length: 0", "", ""]
    assert site.raw("\r\n".join(lines).encode()).split()[1] == b"404"
    assert [receipt.outcome for receipt in site.world.receipts] == ["no-such-path"]


def test_streams_of_one_user_are_limited(site: Site) -> None:
    message = site.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": "subscriptions/listen"}
    with ExitStack() as held:
        kept = []
        for user in [*["local"] * 16, "eve"]:
            sent = site.headers(user, **headers)
            stream = held.enter_context(site.client.stream("POST", site.url, json=message, headers=sent))
            kept.append(events(stream))  # kept, since a collected generator closes its stream
            assert next(kept[-1])["method"] == "notifications/subscriptions/acknowledged"
        assert site.post(message).json()["error"]["code"] == -32602
    site.works()


def test_a_hundred_clients_at_once_are_all_answered(site: Site) -> None:
    async def one(client: httpx.AsyncClient, number: int) -> int:
        params = {"name": "add", "arguments": {"a": number, "b": 1}, "_meta": META}
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="tools/call", mcp_name="add")
        found = await client.post(site.url, json=message, headers=headers)
        return int(found.json()["result"]["structuredContent"])

    async def many() -> list[int]:
        unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(timeout=20, trust_env=False, limits=unbounded) as client:
            return await asyncio.gather(*(one(client, number) for number in range(100)))

    assert asyncio.run(many()) == list(range(1, 101))


def test_requests_of_one_user_are_limited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_endpoint, "MAX_REQUESTS", 1)
    message = site.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")
    with site.client.stream("POST", site.url, json=message, headers=headers) as stream:
        held = events(stream)
        next(held)
        found = site.post(site.message("tools/list", {"_meta": META}))
        assert (found.status_code, found.json()["error"]["code"]) == (429, -32603)
        assert site.post(site.message("tools/list", {"_meta": META}), user="eve").status_code == 200


def test_a_signal_ends_subscriptions_with_a_result(site: Site) -> None:
    message = site.message("subscriptions/listen", {"_meta": META, "notifications": {"toolsListChanged": True}})
    headers = site.headers(mcp_protocol_version="2026-07-28", mcp_method="subscriptions/listen")
    with site.client.stream("POST", site.url, json=message, headers=headers) as stream:
        found = events(stream)
        next(found)
        assert site.world.task is not None
        site.world.loop.call_soon_threadsafe(site.world.task.cancel)
        (last,) = found
        assert (last["id"], last["result"]["resultType"]) == (message["id"], "complete")
