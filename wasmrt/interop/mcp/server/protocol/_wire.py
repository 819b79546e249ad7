"""JSON-RPC 2.0 as used by the Model Context Protocol: read bounded messages, and write responses."""

from __future__ import annotations

from typing import Any, NamedTuple

from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MIB
from wasmrt.core.strict_json import JsonError, JsonFault, check_text, read_json, write_json

MAX_MESSAGE_BYTES = 4 * MIB
MAX_ID_CHARS = 256
MAX_BATCH = 64
"""Maximum number of messages in one batch."""
BATCH_VERSION = "2025-03-26"
_MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer ID, since many JSON readers store numbers as doubles."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
# Codes from MCP's own range (2026-07-28, basic, Error Codes).
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

Id = str | int
Answer = dict[str, Any] | list[dict[str, Any]]
"""A message to a client, or the array that answers a batch."""
_NOT_JSON = (JsonFault.SYNTAX, JsonFault.ENCODING)


class RpcError(Exception):
    """An error response: its code, its message, and data that a client can act on."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class RecordedError(RpcError):
    """An error whose receipt was written where it was raised."""


class UnreadableError(RpcError):
    """A message that cannot be read; `id` is the request's ID if that could be read."""

    def __init__(self, code: int, message: str, id: Id | None = None) -> None:
        super().__init__(code, message)
        self.id = id


class Request(NamedTuple):
    """A request, which gets exactly one response."""

    id: Id
    method: str
    params: dict[str, Any]

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata of the request; empty if missing or not an object."""
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}


class Notification(NamedTuple):
    """A notification, which gets no response."""

    method: str
    params: dict[str, Any]


class Response(NamedTuple):
    """A client's response to a request of the server, in the older revisions."""

    id: Id
    result: dict[str, Any] | None
    """None for an error."""


Message = Request | Notification | Response


class Batch(NamedTuple):
    """Messages that were sent as one array, each handled separately (JSON-RPC 2.0, section 6)."""

    messages: tuple[Message | UnreadableError, ...]
    """The messages in order, with errors for invalid ones."""


def read_message(data: bytes, *, batches: bool = False) -> Message | Batch:
    """Return the message of one line, or of one HTTP body.

    Args:
        data: The text.
        batches: Accept arrays of messages, which only revision 2025-03-26 has.

    Raises:
        UnreadableError: the text is not JSON within the limits (-32700), or not a message (-32600).
    """
    try:
        found = read_json(
            data, max_bytes=MAX_MESSAGE_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, distinct=True
        )
        if b"\\u" in data:
            check_text(found)
    except JsonError as error:
        code = PARSE_ERROR if error.fault in _NOT_JSON else INVALID_REQUEST
        raise UnreadableError(code, f"the message is {error}"[:200]) from None
    if isinstance(found, list) and not batches:
        raise UnreadableError(INVALID_REQUEST, f"only {BATCH_VERSION} has batches; send each message separately")
    return _read_batch(found) if isinstance(found, list) else _read_object(found)


def _read_batch(found: list[Any]) -> Batch:
    if not 0 < len(found) <= MAX_BATCH:
        raise UnreadableError(INVALID_REQUEST, f"a batch must contain 1 to {MAX_BATCH} messages")
    read: list[Message | UnreadableError] = []
    for each in found:
        try:
            read.append(_read_object(each))
        except UnreadableError as error:
            read.append(error)
    return Batch(tuple(read))


def _read_object(found: Any) -> Message:
    if not isinstance(found, dict) or found.get("jsonrpc") != "2.0":
        raise UnreadableError(INVALID_REQUEST, 'a message must be an object with "jsonrpc": "2.0"', _get_id(found))
    if "method" not in found and ("result" in found or "error" in found):
        return _read_response(found)
    return _read_request(found)


def _read_request(found: dict[str, Any]) -> Request | Notification:
    method, params = found.get("method"), found.get("params", {})
    known = _get_id(found)
    if not isinstance(method, str) or not 0 < len(method) <= MAX_ID_CHARS:
        raise UnreadableError(INVALID_REQUEST, "a message needs a string method", known)
    if "id" in found and known is None:
        raise UnreadableError(
            INVALID_REQUEST, f"an id must be an integer or a string of at most {MAX_ID_CHARS} characters"
        )
    if not isinstance(params, dict):
        raise UnreadableError(INVALID_REQUEST, "params must be an object", known)
    return Notification(method, params) if known is None else Request(known, method, params)


def _read_response(found: dict[str, Any]) -> Response:
    known = _get_id(found)
    if known is None or ("result" in found and "error" in found):
        raise UnreadableError(INVALID_REQUEST, "a response needs an id, and a result or an error")
    result = found.get("result")
    return Response(known, result if isinstance(result, dict) else None)


def _get_id(found: Any) -> Id | None:
    """Return the ID of a message, or None if it is missing or invalid."""
    known = found.get("id") if isinstance(found, dict) else None
    if isinstance(known, str):
        return known if len(known) <= MAX_ID_CHARS else None
    if isinstance(known, int) and not isinstance(known, bool) and abs(known) <= _MAX_SAFE_INTEGER:
        return known
    return None


def result_message(id: Id, result: dict[str, Any]) -> dict[str, Any]:
    """Return the response with a result."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def error_message(id: Id | None, error: RpcError) -> dict[str, Any]:
    """Return the response with an error; without an ID if the request's ID could not be read."""
    said: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        said["data"] = error.data
    return {"jsonrpc": "2.0", "id": id, "error": said}


def notification_message(method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def form_message(id: Id, params: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the server's request to show a form, as in revisions before 2026."""
    if version < "2025-11-25":
        params = {name: value for name, value in params.items() if name != "mode"}
    return {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}


def encode_message(message: Answer) -> bytes:
    """Encode a message as one line of UTF-8 without the line end; JSON escapes line ends in strings."""
    return write_json(message).encode("utf-8", "replace")
