"""One connection: bounded requests, answered one after the other, and cleaned up when the connection ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import NamedTuple

import h11

from wasmrt.egress.http1 import new_connection
from wasmrt.interop.web._message import Handler, Request, Response, WebBounds, plain, response_headers
from wasmrt.interop.web._reader import END_OF_HEAD, ClientReader, GoneError, Refused, body_length, check_shape, parse

_log = logging.getLogger("wasmrt.web")
_PIECE_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 4 * 1024 * 1024
"""Bytes of a refused body to read and drop: closing at once would discard the refusal before the client reads it."""
_BODILESS = (204, 304)

Gate = Callable[[Request], Awaitable[Response | None]]
"""Refuses a request before its body is read, or returns None."""
OnRefusal = Callable[[int], None]
"""Called with the status of each request that the server refuses before any gate."""


class Service(NamedTuple):
    """The parts of a server that its connections share."""

    gate: Gate
    handler: Handler
    bounds: WebBounds
    on_refusal: OnRefusal


class Connection:
    """One client's connection, handled by one task."""

    def __init__(self, reader: ClientReader, writer: asyncio.StreamWriter, service: Service, client: str) -> None:
        self.reader, self._writer, self._service, self.client = reader, writer, service, client
        self._bounds = service.bounds
        self._ahead = b""
        self._h11 = new_connection(h11.SERVER, max_head_bytes=self._bounds.head_bytes)
        self.busy = False
        """A request has begun, and its response is not finished."""
        self.admitted = False
        """A complete request has passed the gate."""
        self.last = False
        """The server is closing: the current response is the last."""

    def abort(self) -> None:
        """Disconnect the client, even if the connection's task has not started yet and cannot be cancelled."""
        self._writer.transport.abort()

    async def run(self) -> None:
        """Answer requests until the client disconnects or breaks a rule, or the server closes."""
        try:
            while await self._exchange() and not self.last:
                self.busy = False
            await self._close()
        except (GoneError, TimeoutError, OSError, h11.ProtocolError):
            pass
        except Exception as error:  # SECURITY: an error's text may contain anything
            _log.error("could not finish a response: %s", type(error).__name__)
        finally:
            self._writer.transport.abort()

    async def _exchange(self) -> bool:
        """Answer one request; return whether another may follow."""
        self._h11 = new_connection(h11.SERVER, max_head_bytes=self._bounds.head_bytes)
        request: Request | None = None
        try:
            head = await self._head()
            if head is None:
                return False
            request = self._parse(head)
            length = body_length(request, self._bounds)
            refusal = await self._service.gate(request)
            if refusal is None:
                self.admitted = True
                request = replace(request, body=await self._read_body())
        except Refused as refused:
            self._service.on_refusal(refused.status)
            return await self._send_refusal(request, plain(refused.status))
        except h11.RemoteProtocolError as error:
            self._service.on_refusal(error.error_status_hint)
            return await self._send_refusal(request, plain(error.error_status_hint))
        if refusal is not None and (length or request.has("transfer-encoding")):
            return await self._send_refusal(request, refusal)
        await self._answer_while_connected(request, refusal)
        self._ahead = self._h11.trailing_data[0]
        return self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE

    async def _head(self) -> bytes | None:
        """Return the bytes of a request's head, or None if the client disconnected or sent nothing."""
        data = bytearray(self._ahead)
        if not data:
            try:
                async with asyncio.timeout(self._bounds.idle_seconds):
                    data += await self.reader.read(_READ_BYTES)
            except TimeoutError:
                return None
        if not data:
            return None
        self.busy = True
        looked = 0
        try:
            async with asyncio.timeout(self._bounds.head_seconds):
                while (end := END_OF_HEAD.search(data, looked)) is None:
                    if len(data) > self._bounds.head_bytes:
                        raise Refused(431)
                    looked = max(0, len(data) - 2)
                    data += await self._receive_some()
        except TimeoutError:
            raise Refused(408) from None
        self._ahead = bytes(data[end.end() :])
        return bytes(data[: end.end()])

    def _parse(self, head: bytes) -> Request:
        check_shape(head, self._bounds)
        self._h11.receive_data(head)
        event = self._h11.next_event()
        if not isinstance(event, h11.Request):
            raise Refused(400)
        if self._ahead:  # h11 takes empty data for the end of the connection
            self._h11.receive_data(self._ahead)
        return parse(event, self.client)

    async def _read_body(self) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                while not isinstance(event := await self._next_event(), h11.EndOfMessage):
                    body += event.data
                    if len(body) > self._bounds.body_bytes:
                        raise Refused(413)
        except TimeoutError:
            raise Refused(408) from None
        if event.headers:  # trailers are not supported, and a proxy might read them
            raise Refused(400)
        return bytes(body)

    async def _next_event(self) -> h11.Data | h11.EndOfMessage:
        while (event := self._h11.next_event()) is h11.NEED_DATA:
            if self._h11.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            self._h11.receive_data(await self._receive_some())
        assert isinstance(event, (h11.Data, h11.EndOfMessage))
        return event

    async def _receive_some(self) -> bytes:
        if not (data := await self.reader.read(_READ_BYTES)):
            raise GoneError
        return data

    async def _answer_while_connected(self, request: Request, refusal: Response | None) -> None:
        """Answer a request; cancel the handler if the client disconnects."""
        if refusal is not None:
            self._h11.next_event()  # the end of a request that has no body
            await self._answer(request, refusal)
            return
        with self.reader.cancel_on_disconnect():
            await self._answer(request, None)

    async def _answer(self, request: Request, refusal: Response | None) -> None:
        """SECURITY: a handler's error text may contain anything, so neither the client nor the log receives it."""
        try:
            response = refusal or await self._service.handler(request)
            head = self._make_response_head(request, response)
        except Exception as error:
            _log.error("a handler failed: %s", type(error).__name__)
            response = plain(500)
            head = self._make_response_head(request, response)
        await self._send(request, head, response)

    def _make_response_head(self, request: Request | None, response: Response, *, close: bool = False) -> h11.Response:
        headers = response_headers(response)
        if isinstance(response.body, bytes) and response.status not in _BODILESS:
            headers.append(("content-length", str(len(response.body))))
        # SECURITY: servers differ most at the end of a chunked body, so no request may follow one.
        if close or self.last or (request is not None and request.has("transfer-encoding")):
            headers.append(("connection", "close"))
        return h11.Response(status_code=response.status, headers=headers)

    async def _send(self, request: Request | None, head: h11.Response, response: Response) -> None:
        empty = response.status in _BODILESS or (request is not None and request.method == "HEAD")
        body = response.body
        if isinstance(body, bytes):
            before: list[h11.Event] = [head]
            for start in range(0, 0 if empty else len(body), _PIECE_BYTES):
                await self._write(*before, h11.Data(body[start : start + _PIECE_BYTES]))
                before = []
            await self._write(*before, h11.EndOfMessage())
        else:
            async with aclosing(body):
                await self._write(head)
                if not empty:
                    async for piece in body:
                        await self._write(h11.Data(piece))
                await self._write(h11.EndOfMessage())

    async def _write(self, *events: h11.Event) -> None:
        """Send, and wait until the client has read most of it. Slow clients are disconnected."""
        if data := b"".join(self._h11.send(event) or b"" for event in events):
            self._writer.write(data)
        if self._writer.transport.get_write_buffer_size():
            async with asyncio.timeout(self._bounds.write_seconds):
                await self._writer.drain()
        else:
            await self._writer.drain()  # does not wait here; raises if the client has disconnected

    async def _send_refusal(self, request: Request | None, response: Response) -> bool:
        """Refuse a request without reading its rest, and let the client read the refusal. Return False."""
        await self._send(request, self._make_response_head(request, response, close=True), response)
        with suppress(OSError, TimeoutError):
            self._writer.write_eof()
            left = _LINGER_BYTES
            async with asyncio.timeout(_LINGER_SECONDS):
                while left > 0 and (data := await self.reader.read(_PIECE_BYTES)):
                    left -= len(data)
        return False

    async def _close(self) -> None:
        self._writer.close()
        async with asyncio.timeout(self._bounds.write_seconds):
            await self._writer.wait_closed()
