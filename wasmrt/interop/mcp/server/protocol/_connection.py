"""One connection over which messages go both ways: requests that run at once, cancellation, and the server's own asks.

For stdio, and for everything else that carries one message after the other.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

from wasmrt.interop.mcp.server.protocol._batch import BatchAnswer, messages_of
from wasmrt.interop.mcp.server.protocol._caller import Peer
from wasmrt.interop.mcp.server.protocol._questions import Questions
from wasmrt.interop.mcp.server.protocol._refusals import Refusal
from wasmrt.interop.mcp.server.protocol._server import Server
from wasmrt.interop.mcp.server.protocol._wire import (
    BATCH_VERSION,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Answer,
    Batch,
    Id,
    Message,
    Notification,
    Request,
    Response,
    RpcError,
    UnreadableError,
    error_message,
    form_message,
    notification_message,
    read_message,
    result_message,
)

MAX_IN_FLIGHT = 256
"""Requests of one connection that are not answered yet."""

Send = Callable[[Answer], None]
Report = Callable[[str], None]


class Connection:
    """Answers what is read from one client. For one event loop."""

    def __init__(self, server: Server, peer: Peer, send: Send, report: Report) -> None:
        self._server = server
        self.peer = peer
        self._send = send
        self._report = report
        self._running: dict[tuple[type, Id], asyncio.Task[None]] = {}
        self._questions = Questions()
        self._numbers = itertools.count(1)
        self._end_listening = server.listen(self._list_changed)

    def receive(self, data: bytes) -> None:
        """Take one message; what cannot be read is answered as such, and changes nothing."""
        try:
            message = read_message(data, batches=self.peer.session.version == BATCH_VERSION)
        except UnreadableError as error:
            self.refuse(error)
            return
        if not isinstance(message, Batch):
            self._take(message)
            return
        batch = BatchAnswer(self._send)
        for each in messages_of(message):
            if isinstance(each, UnreadableError):
                self.refuse(each, batch.add)
            else:
                self._take(each, batch)
        batch.end()

    def _take(self, message: Message, batch: BatchAnswer | None = None) -> None:
        if isinstance(message, Request):
            self._start(message, batch)
        elif isinstance(message, Response):
            self._settle(message)
        elif message.method == "notifications/cancelled":
            self._cancel(message)
        else:
            self._server.note(message, self.peer)

    def refuse(self, error: UnreadableError, send: Send | None = None) -> None:
        """Answer a message that could not be read; `send` takes the answer in place of the connection."""
        self._server.refused(error, self.peer.user)
        (send or self._send)(error_message(error.id, error))

    async def drained(self, seconds: float) -> None:
        """Wait until every request is answered, but no longer than `seconds`; what still runs then is cancelled."""
        self._server.close()
        if self._running:
            await self._server.opened()
        if tasks := list(self._running.values()):
            await asyncio.wait(tasks, timeout=seconds)
        await self.closed()

    async def closed(self) -> None:
        """End whatever runs, without an answer."""
        self._end_listening()
        self._questions.end()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # -- requests --------------------------------------------------------------------------------------------------

    def _start(self, request: Request, batch: BatchAnswer | None) -> None:
        key = (type(request.id), request.id)
        send = self._send if batch is None else batch.add
        if key in self._running:
            # Under its id, the answer would be taken for that of the one that runs.
            self.refuse(UnreadableError(INVALID_REQUEST, "a request with this id is not answered yet"), send)
            return
        if len(self._running) >= MAX_IN_FLIGHT:
            busy = RpcError(INTERNAL_ERROR, f"{MAX_IN_FLIGHT} requests are not answered yet; wait for some of them")
            self._server.refusals.note(Refusal.TOO_MANY_REQUESTS, self.peer.user)
            send(error_message(request.id, busy))
            return
        task = asyncio.ensure_future(self._run(request, send))
        self._running[key] = task
        task.add_done_callback(lambda _: self._running.pop(key, None))
        if batch is not None:
            batch.begin()
            task.add_done_callback(lambda _: batch.end())

    async def _run(self, request: Request, send: Send) -> None:
        try:
            send(await self._answered(request))
        except asyncio.CancelledError:
            raise  # nothing is said of a request that was cancelled
        except Exception as error:
            # SECURITY: the text of a foreign error may hold anything; its type is enough.
            self._report(f"{request.method} broke with {type(error).__name__}")
            send(error_message(request.id, RpcError(INTERNAL_ERROR, "the server failed on this request")))

    async def _answered(self, request: Request) -> dict[str, Any]:
        channel = _Channel(self, self._send)
        try:
            return result_message(request.id, await self._server.answer(request, channel))
        except RpcError as error:
            return error_message(request.id, error)
        finally:
            channel.open = False

    def _cancel(self, notification: Notification) -> None:
        """End a request; one that is not known has been answered, and `initialize` is never cancelled."""
        known = notification.params.get("requestId")
        if isinstance(known, (str, int)) and not isinstance(known, bool):
            task = self._running.get((type(known), known))
            if task is not None:
                task.cancel()

    # -- what the server asks and says by itself, in the older revisions ------------------------------------------

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Send a form to the client, and return what it answers; None for an error. Cancelling takes the form back."""
        number = f"wasmrt-{next(self._numbers)}"
        self._send(form_message(number, params, self.peer.session.version))
        try:
            return await self._questions.answer(number)
        except asyncio.CancelledError:
            self._send(notification_message("notifications/cancelled", {"requestId": number}))
            raise

    def _settle(self, response: Response) -> None:
        """Take the answer to a form; one that answers nothing is dropped, since it is no request."""
        if not self._questions.settle(response):
            self._server.refusals.note(Refusal.NO_QUESTION, self.peer.user)
            self._report("a response came that answers no request")

    def _list_changed(self) -> None:
        if self.peer.session.listens:
            self._send(notification_message("notifications/tools/list_changed"))


class _Channel:
    """The way back to the client of one request."""

    def __init__(self, connection: Connection, send: Send) -> None:
        self.peer = connection.peer
        self.open = True
        self._connection, self._send = connection, send

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that belongs to the request."""
        if self.open:
            self._send(message)

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message, also after the request."""
        self._send(message)

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Have the client ask its user."""
        return await self._connection.elicit(params)
