"""Components of `wasi:http/incoming-handler`, called with one request each, and returning its response."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from wasmrt.core.errors import GuestError, InvalidComponentError, InvalidParametersError
from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_HEADERS, MAX_PARAMS_BYTES, MAX_URL_BYTES
from wasmrt.sandbox.component import Err, ToolSpec
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox
from wasmrt.sandbox.guest.wasi import METHODS, IncomingRequest, OutgoingResponse, check_fields, is_path, start_exchange

_HANDLE, _SIGNATURE = "handle", "func(request: incoming-request, response-out: response-outparam)"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {"type": "string", "enum": list(METHODS), "description": "GET by default."},
        "path": {
            "type": "string",
            "maxLength": MAX_URL_BYTES,
            "pattern": "^/[!-~]*$",
            "description": "Path and query, percent-encoded, such as /search?q=a%20b.",
        },
        "headers": {
            "type": "object",
            "maxProperties": MAX_HEADERS,
            "additionalProperties": {"type": "string", "maxLength": MAX_HEADER_BYTES},
        },
        "body": {"type": "string", "maxLength": MAX_PARAMS_BYTES},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def handler_world(linker: Linker, interface: str) -> HandlerWorld:
    """Bind the `handle` function of an HTTP handler.

    Raises:
        InvalidComponentError: the function does not have the type of `wasi:http/incoming-handler@0.2`.
    """
    exported = linker.component.type.export(interface)
    kind = None if exported is None else exported.function(_HANDLE)
    if kind is None or str(kind) != _SIGNATURE:
        raise InvalidComponentError(
            f"{interface} has no function {_HANDLE} of the type defined by its world",
            hint=f"export {_HANDLE}: {_SIGNATURE}",
        )
    return HandlerWorld(interface, Export(linker, (interface, _HANDLE), kind))


class HandlerWorld(NamedTuple):
    """An HTTP handler, described without running it."""

    name: str
    main: Export

    def describe(self, _sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Return the handler's only tool, which has the component's name."""
        text = f"Sends one HTTP request to {name}. The result has the response's status, headers and body."
        return [ToolSpec(name, text, _SCHEMA)]

    def run(self, sandbox: Sandbox, call: GuestCall, _tool: ToolSpec, params: str, _context: str | None) -> str:
        """Pass the request to the handler and return the response's `status`, `headers`, and `body` or `body_base64`.

        Raises:
            GuestError: the handler set no complete response.
            InvalidParametersError: the params are not a valid request.
        """
        exchange = start_exchange(call, _request(call, json.loads(params)))
        sandbox.call(self.main, exchange.request, exchange.out)
        response = exchange.result.response
        if response is None:
            raise GuestError(exchange.result.error)
        if response.body is not None and not response.body.finished:
            raise GuestError("the tool did not finish the body of its response")
        return json.dumps(_as_json(response), ensure_ascii=False)


def _request(call: GuestCall, given: dict[str, Any]) -> IncomingRequest:
    # A package can replace the schema by one that accepts other types.
    method, path, body = given.get("method", "GET"), given.get("path"), given.get("body", "")
    headers = given.get("headers", {})
    if (
        method not in METHODS
        or not (isinstance(path, str) and path.startswith("/") and is_path(path) and len(path) <= MAX_URL_BYTES)
        or not isinstance(body, str)
        or not isinstance(headers, dict)
        or not all(isinstance(value, str) for value in headers.values())
    ):
        raise InvalidParametersError(
            "method, path and body must be strings, and headers an object of strings",
            hint='example: {"method": "GET", "path": "/", "headers": {"accept": "text/plain"}}',
        )
    fields = check_fields(call, [(name, value.encode()) for name, value in headers.items()])
    if isinstance(fields, Err):
        raise InvalidParametersError("headers contains an invalid or forbidden header", hint="remove it, or encode it")
    return IncomingRequest(method, path, fields, body.encode("utf-8", "replace"))


def _as_json(response: OutgoingResponse) -> dict[str, Any]:
    headers: dict[str, str] = {}
    for name, value in response.fields.as_text():
        # The object has unique names, so values are joined as in RFC 9110, section 5.3.
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    content = b"" if response.body is None else bytes(response.body.content)
    try:
        body = {"body": content.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(content).decode()}
    return {"status": response.status, "headers": headers, **body}
