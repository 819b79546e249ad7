"""Create responses, streams and exceptions of httpx or of httpx2, whichever library the request comes from.

The two libraries cannot be mixed: each client asserts that a response has a stream from its own module.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import cache
from typing import Any

from wasmrt.egress.gateway._model import HttpFailure, HttpRequest, WaitTimeouts
from wasmrt.egress.gateway._response import Response

DENIED_HEADER = "x-wasmrt-denied"
# Failure codes, with the names of their exceptions in both modules. Failures with other codes are denials.
_EXCEPTIONS = {
    "connect-timeout": "ConnectTimeout",
    "read-timeout": "ReadTimeout",
    "write-timeout": "WriteTimeout",
    "pool-timeout": "PoolTimeout",
    "no-address": "ConnectError",
    "connect": "ConnectError",
    "tls": "ConnectError",
    "tls-certificate": "ConnectError",
    "connection": "ReadError",
    "protocol": "RemoteProtocolError",
    "content-coding": "DecodingError",
    "invalid-request": "LocalProtocolError",
    "cancelled": "ReadError",
}
# Headers that are not passed on, because the gateway frames every message and removes content codings.
_FRAMING = frozenset({"accept-encoding", "content-length", "transfer-encoding"})


class Family:
    """The classes of either httpx or httpx2."""

    def __init__(self, module: Any) -> None:
        self._module = module
        base, async_base = module.SyncByteStream, module.AsyncByteStream
        self._sync_stream = type("GuardedStream", (_SyncMethods, base), {})
        self._async_stream = type("AsyncGuardedStream", (_AsyncMethods, async_base), {})

    def response(self, head: Response, read: Callable[[], bytes]) -> Any:
        """Return a response for a synchronous client; its body is read with `read`."""
        return self._response(head, self._sync_stream(self, read, head.close))

    def async_response(
        self, head: Response, read: Callable[[], Coroutine[Any, Any, bytes]], close: Callable[[], None]
    ) -> Any:
        """Return a response for an asynchronous client."""
        return self._response(head, self._async_stream(self, read, close))

    def _response(self, head: Response, stream: Any) -> Any:
        headers = [(name, value) for name, value in head.headers if name.lower() != DENIED_HEADER]
        return self._module.Response(
            head.status, headers=headers, stream=stream, extensions={"http_version": b"HTTP/1.1"}
        )

    def refusal(self, failure: HttpFailure) -> Any:
        """Return a denial as a response: 403, with code, message and hint in JSON.

        Clients built on httpx would retry after an exception, and lose the reason.
        """
        error: dict[str, Any] = {
            "type": "wasmrt_denied",
            "code": failure.code,
            "message": _format_message(failure),  # with the hint, for clients that only show the message
            "hint": failure.hint,
            "request_sent": failure.request_sent,
        }
        headers = {"content-type": "application/json", DENIED_HEADER: failure.code}
        if failure.retry_after_seconds is not None:
            error["retry_after_seconds"] = failure.retry_after_seconds
            headers["retry-after"] = f"{failure.retry_after_seconds:.0f}"
        return self._module.Response(403, headers=headers, content=json.dumps({"error": error}).encode())

    def exception(self, failure: HttpFailure, *, in_body: bool = False) -> Exception | None:
        """Convert a network failure to the library's exception. Return None for a denial, unless `in_body` is set.

        `in_body` means that the client is already reading the response. A denial must then be an exception too.
        """
        name = _EXCEPTIONS.get(failure.code)
        if failure.code == "timeout":
            name = "ReadTimeout" if failure.request_sent else "ConnectTimeout"
        if name is None and not in_body:
            return None
        exception: Exception = getattr(self._module, name or "ReadError")(_format_message(failure))
        return exception


def _format_message(failure: HttpFailure) -> str:
    return f"{failure.message}; {failure.hint}" if failure.hint else failure.message


class _SyncMethods:
    def __init__(self, family: Family, read: Callable[[], bytes], close: Callable[[], None]) -> None:
        self._family, self._read, self._close = family, read, close

    def __iter__(self) -> Iterator[bytes]:
        try:
            while piece := self._read():
                yield piece
        except HttpFailure as failure:
            raise self._family.exception(failure, in_body=True) or failure from failure

    def close(self) -> None:
        """Release the connection."""
        self._close()


class _AsyncMethods:
    def __init__(
        self, family: Family, read: Callable[[], Coroutine[Any, Any, bytes]], close: Callable[[], None]
    ) -> None:
        self._family, self._read, self._close = family, read, close

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while piece := await self._read():
                yield piece
        except HttpFailure as failure:
            raise self._family.exception(failure, in_body=True) or failure from failure

    async def aclose(self) -> None:
        """Release the connection. This does not wait for the network."""
        self._close()


def find_family(request: Any) -> Family:
    """Return the classes of the library that a client's request belongs to. Subclasses of its requests are accepted."""
    for kind in type(request).__mro__:
        module = sys.modules.get(kind.__module__.partition(".")[0])
        if hasattr(module, "SyncByteStream"):
            return _make_family(module)
    raise TypeError(f"{type(request).__name__} is not a request of httpx or httpx2")


@cache
def _make_family(module: Any) -> Family:
    return Family(module)


def read_request(request: Any, body: bytes) -> HttpRequest:
    """Convert a client's request to a request of the gateway, and leave out its framing headers."""
    url, origin_header = str(request.url).partition("#")[0], request.url.netloc.decode("ascii").lower()
    headers = []
    for raw_name, raw_value in request.headers.raw:
        name, value = raw_name.decode("latin-1"), _decode_value(raw_value)
        lowered = name.lower()
        if lowered in _FRAMING or (lowered == "host" and value.lower() == origin_header):
            continue
        if lowered == "connection" and value.lower() in ("keep-alive", "close"):
            continue
        headers.append((name, value))
    timeouts = request.extensions.get("timeout") or {}
    waits = WaitTimeouts(*(timeouts.get(wait) for wait in WaitTimeouts._fields))
    return HttpRequest(request.method, url, tuple(headers), body or None, wait_timeouts=waits)


def _decode_value(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
