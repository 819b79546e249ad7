"""Replies of the host to requests of a guest: frozen values, the same in every process and recording.

`plain` encodes replies as JSON data, and the `read_...` functions decode them. They raise `ValueError` if the data is
malformed.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.sandbox.component.worlds import FailureKind

Headers = tuple[tuple[str, str], ...]


class HostFailure(Exception):  # noqa: N818 - the worlds call it a failure
    """Raised if the host denies a request, or fails to answer it.

    Attributes:
        kind: The kind of failure, as defined in the WIT worlds.
        code: The reason as one word, such as `host-not-allowed`.
        message: A sentence that includes the suggested fix.
        request_sent: True if at least one byte of an HTTP request was sent.
        denied: True if a decision denied the request, False if a fault occurred.
        limit_bytes: The maximum size if the request or its answer was too large, otherwise None.
    """

    def __init__(
        self,
        kind: FailureKind,
        code: str,
        message: str,
        *,
        request_sent: bool = False,
        denied: bool = False,
        limit_bytes: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.message = message[:MAX_ERROR_TEXT_BYTES]
        self.request_sent = request_sent
        self.denied = denied
        self.limit_bytes = limit_bytes

    def as_dict(self) -> dict[str, object]:
        """Return the failure as JSON data."""
        return {
            "kind": str(self.kind),
            "code": self.code,
            "message": self.message,
            "request_sent": self.request_sent,
            "denied": self.denied,
            "limit_bytes": self.limit_bytes,
        }

    @classmethod
    def from_dict(cls, data: object) -> HostFailure:
        """Return the failure that `as_dict` encoded. Raise `ValueError` if the data is malformed."""
        match data:
            case {
                "kind": str(kind),
                "code": str(code),
                "message": str(message),
                "request_sent": bool(request_sent),
                "denied": bool(denied),
                "limit_bytes": int() | None as limit_bytes,
            }:
                return cls(
                    FailureKind(kind), code, message, request_sent=request_sent, denied=denied, limit_bytes=limit_bytes
                )
        raise make_malformed_error("a failure")


class DirectoryEntry(NamedTuple):
    """A file or directory in a directory of the workspace."""

    name: str
    is_directory: bool
    size_bytes: int
    """0 for a directory."""


class HttpHead(NamedTuple):
    """The status and headers of a response, from which the host has removed secrets.

    `handle` identifies the response in requests that read its body.
    """

    handle: int
    status: int
    headers: Headers
    """All headers in the order in which they were received, including duplicates."""


def plain(reply: object) -> object:
    """Encode a reply as JSON data, but leave bytes unchanged. `Request.read_reply` decodes the result."""
    match reply:
        case HostFailure():
            return reply.as_dict()
        case HttpHead(handle, status, headers):
            return {"handle": handle, "status": status, "headers": [list(pair) for pair in headers]}
        case DirectoryEntry():
            return list(reply)
        case list() | tuple():
            return [plain(item) for item in reply]
    return reply


def bytes_as_json(data: bytes) -> dict[str, str]:
    """Encode bytes as JSON data: as text if they are UTF-8, otherwise in base64."""
    try:
        return {"text": bytes(data).decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def read_bytes(data: object) -> bytes:
    """Decode bytes."""
    match data:
        case bytes():
            return data
        case {"text": str(text)}:
            return text.encode()
        case {"base64": str(text)}:
            return base64.b64decode(text)
    raise make_malformed_error("bytes")


def read_text(data: object) -> str:
    """Decode a string."""
    if not isinstance(data, str):
        raise make_malformed_error("a string")
    return data


def read_bool(data: object) -> bool:
    """Decode a boolean."""
    if not isinstance(data, bool):
        raise make_malformed_error("true or false")
    return data


def read_int(data: object) -> int:
    """Decode an integer."""
    if not isinstance(data, int):
        raise make_malformed_error("an integer")
    return data


def read_none(data: object) -> None:
    """Decode a reply without content."""
    if data is not None:
        raise make_malformed_error("null")


def read_entry(data: object) -> DirectoryEntry:
    """Decode a file or directory."""
    match data:
        case [str(name), bool(is_directory), int(size_bytes)]:
            return DirectoryEntry(name, is_directory, size_bytes)
    raise make_malformed_error("a directory entry")


def read_head(data: object) -> HttpHead:
    """Decode the head of a response."""
    match data:
        case {"handle": int(handle), "status": int(status), "headers": list(headers)}:
            return HttpHead(handle, status, tuple((read_text(name), read_text(value)) for name, value in headers))
    raise make_malformed_error("the head of a response")


def make_malformed_error(expected: str) -> ValueError:
    """Return the error for a malformed reply."""
    return ValueError(f"malformed reply from the host: expected {expected}")
