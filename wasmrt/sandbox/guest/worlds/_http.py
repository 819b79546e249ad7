"""HTTP for guests of the tool worlds."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.core.limits import MAX_HEADER_BYTES
from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.component.worlds import FailureKind
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import HostFailure, HttpOpen
from wasmrt.sandbox.guest.services import HttpResponse
from wasmrt.sandbox.guest.worlds._failure import as_failure, as_http_failure, as_text, result


def agent_request(ctx: GuestCall, *asked: Any) -> Ok | Err:
    """near:agent's `http-request` up to 0.3.0: failures are one string."""
    return result(as_text, _agent, ctx, *asked)


def agent_request_typed(ctx: GuestCall, *asked: Any) -> Ok | Err:
    """near:agent@0.4.1's `http-request`: failures are typed."""
    return result(as_http_failure, _agent, ctx, *asked)


def fetch(ctx: GuestCall, request: dict[str, Any]) -> Ok | Err:
    """wasmrt:tool's `http.fetch`."""
    return result(as_failure, _fetch, ctx, request)


def _fetch(ctx: GuestCall, request: dict[str, Any]) -> dict[str, Any]:
    headers = tuple((header["name"], header["value"]) for header in request["headers"])
    status, received, body = _send(
        ctx, request["method"], request["url"], headers, request["body"], request["timeout-ms"]
    )
    return {"status": status, "headers": [{"name": name, "value": value} for name, value in received], "body": body}


def _agent(
    ctx: GuestCall, method: str, url: str, headers_json: str, body: bytes | None, timeout_ms: int | None
) -> dict[str, Any]:
    status, headers, received = _send(ctx, method, url, _headers(headers_json), body, timeout_ms)
    joined: dict[str, str] = {}
    for name, value in headers:
        # The world's type is an object: a name can stand once, so values are joined as RFC 9110 5.3 has it.
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return {"status": status, "headers-json": json.dumps(joined), "body": received}


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    if not text.strip():
        return ()
    if len(text) > MAX_HEADER_BYTES:
        raise HostFailure(FailureKind.INPUT, "invalid-headers", f"headers-json is over {MAX_HEADER_BYTES} bytes")
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError):
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise HostFailure(FailureKind.INPUT, "invalid-headers", "headers-json must be a JSON object of strings")
    return tuple(headers.items())


def _send(
    ctx: GuestCall,
    method: str,
    url: str,
    headers: tuple[tuple[str, str], ...],
    body: bytes | None,
    timeout_ms: int | None,
) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    seconds = None if timeout_ms is None else timeout_ms / 1000
    response = HttpResponse(ctx.services, HttpOpen(method.upper(), url, headers, body, seconds))
    try:
        return response.status, response.headers, response.read_all()
    finally:
        response.close()
