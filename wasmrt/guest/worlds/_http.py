"""HTTP for guests: both worlds' requests through the one guarded door."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.component import Err, Ok
from wasmrt.context import CallContext
from wasmrt.guest.worlds._failure import HostFailure, denied
from wasmrt.limits import MAX_HEADER_BYTES
from wasmrt.model import Decision, Reason

AGENT_RESPONSE = "record { status: u16, headers-json: string, body: list<u8> }"
AGENT_PARAMS = "method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>"


def agent_request(context: CallContext, *asked: Any) -> Ok | Err:
    """near:agent's `http-request` up to 0.3.0: failures are one string."""
    try:
        return Ok(_agent(context, *asked))
    except HostFailure as failure:
        return Err(failure.text)


def agent_request_typed(context: CallContext, *asked: Any) -> Ok | Err:
    """near:agent@0.4.1's `http-request`: failures are typed."""
    try:
        return Ok(_agent(context, *asked))
    except HostFailure as failure:
        return Err(failure.as_http_failure())


def fetch(context: CallContext, request: dict[str, Any]) -> Ok | Err:
    """wasmrt:tool's `http.fetch`."""
    try:
        response = _through_the_door(
            context,
            request["method"].upper(),
            request["url"],
            tuple((header["name"], header["value"]) for header in request["headers"]),
            request["body"],
            request["timeout-ms"],
        )
    except HostFailure as failure:
        return Err(failure.as_failure())
    headers = [{"name": name, "value": value} for name, value in response.headers]
    return Ok({"status": response.status, "headers": headers, "body": response.body})


def _agent(
    context: CallContext, method: str, url: str, headers_json: str, body: bytes | None, timeout_ms: int | None
) -> dict[str, Any]:
    response = _through_the_door(context, method.upper(), url, _headers(headers_json), body, timeout_ms)
    joined: dict[str, str] = {}
    for name, value in response.headers:
        # The world's type is an object: a name can stand once, so values are joined as RFC 9110 5.3 has it.
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return {"status": response.status, "headers-json": json.dumps(joined), "body": response.body}


def _headers(text: str) -> tuple[tuple[str, str], ...]:
    if not text.strip():
        return ()
    if len(text) > MAX_HEADER_BYTES:
        raise HostFailure("input", "invalid-headers", f"headers-json is over {MAX_HEADER_BYTES} bytes")
    try:
        headers = json.loads(text)
    except (ValueError, RecursionError):
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise HostFailure("input", "invalid-headers", "headers-json must be a JSON object of strings")
    return tuple(headers.items())


def _through_the_door(
    context: CallContext,
    method: str,
    url: str,
    headers: tuple[tuple[str, str], ...],
    body: bytes | None,
    timeout_ms: int | None,
) -> Any:
    door = context.services.http
    if context.grant.http is None:
        networks = () if door is None else door.networks
        raise denied(context, context.grant.explain_http(method, url, unsafe_allowed_networks=networks))
    if door is None:
        raise denied(
            context,
            Decision(
                False, Reason.NOT_GRANTED, "this runtime has no network", "give WasmRuntimeConfig a network",
                capability="http", subject=method,
            ),
        )  # fmt: skip
    from wasmrt.egress import HttpFailure, HttpRequest

    timeout = None if timeout_ms is None else timeout_ms / 1000
    try:
        return door.fetch(context, HttpRequest(method, url, headers, body, timeout))
    except HttpFailure as failure:
        context.check()  # a deadline that passed on the wire ends the call, and is not the guest's to handle
        message = f"{failure.message}; {failure.hint}" if failure.hint else failure.message
        raise HostFailure(str(failure.kind), failure.code, message, request_sent=failure.request_sent) from failure
