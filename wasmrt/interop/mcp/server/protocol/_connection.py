"""One client's connection: its requests, single or in batches, and the server's requests to the client."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from wasmrt.interop.mcp.server.protocol._caller import Peer, is_marked_modern
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


def read_messages(batch: Batch) -> list[Message | UnreadableError]:
    """Return the messages of a batch, with errors for messages that a batch must not contain."""
    seen: set[tuple[type, Id]] = set()
    return [_check(each, seen) for each in batch.messages]


def _check(message: Message | UnreadableError, seen: set[tuple[type, Id]]) -> Message | UnreadableError:
    if not isinstance(message, Request):
        return message
    key = (type(message.id), message.id)
    if key in seen:
        return UnreadableError(INVALID_REQUEST, "another request of the batch has this id")
    seen.add(key)
    if message.method == "initialize":  # 2025-03-26, lifecycle
        return UnreadableError(INVALID_REQUEST, "initialize must not be sent in a batch", message.id)
    if is_marked_modern(message):
        return UnreadableError(INVALID_REQUEST, "requests of this revision must not be sent in a batch", message.id)
    return message


class BatchAnswer:
    """Collects the responses to a batch, and sends them as one array after its last request has ended."""

    def __init__(self, send: Callable[[Answer], None]) -> None:
        self._send = send
        self._answers: list[dict[str, Any]] = []
        self._running = 1

    def add(self, answer: Answer) -> None:
        """Add the response to one request."""
        assert isinstance(answer, dict)
        self._answers.append(answer)

    def begin(self) -> None:
        """Wait for one more request."""
        self._running += 1

    def end(self) -> None:
        """Record that a request has ended; also called once after all requests have started."""
        self._running -= 1
        if not self._running and self._answers:
            self._send(self._answers)


MAX_TAKEN_BACK = 64
"""Maximum number of withdrawn forms to remember, because their responses may still arrive."""


class Questions:
    """The pending forms of one session, and the last withdrawn ones."""

    def __init__(self) -> None:
        self._waiting: dict[Id, asyncio.Future[dict[str, Any] | None]] = {}
        self._taken_back: deque[Id] = deque(maxlen=MAX_TAKEN_BACK)

    async def answer(self, number: Id) -> dict[str, Any] | None:
        """Wait for the response to a form that was just sent; None for an error. Cancelling withdraws the form."""
        waiting: asyncio.Future[dict[str, Any] | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            return await waiting
        except asyncio.CancelledError:
            self._taken_back.append(number)
            raise
        finally:
            del self._waiting[number]

    def settle(self, response: Response) -> bool:
        """Accept a response; return False if its form was never sent, or is already answered.

        A late response to a withdrawn form is ignored, and not counted as the client's fault.
        """
        waiting = self._waiting.get(response.id)
        if waiting is None:
            return response.id in self._taken_back
        if waiting.done():
            return waiting.cancelled()
        waiting.set_result(response.result)
        return True

    def end(self) -> None:
        """End all waits."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)


MAX_IN_FLIGHT = 256
"""Maximum number of pending requests of one connection."""

Send = Callable[[Answer], None]
Report = Callable[[str], None]


class Connection:
    """Handles the messages of one client, for one event loop."""

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
        """Handle one message; answer an unreadable one with an error."""
        try:
            message = read_message(data, batches=self.peer.session.version == BATCH_VERSION)
        except UnreadableError as error:
            self.answer_unreadable(error)
            return
        if not isinstance(message, Batch):
            self._take(message)
            return
        batch = BatchAnswer(self._send)
        for each in read_messages(message):
            if isinstance(each, UnreadableError):
                self.answer_unreadable(each, batch.add)
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

    def answer_unreadable(self, error: UnreadableError, send: Send | None = None) -> None:
        """Answer an unreadable message; `send` replaces the connection's sender."""
        self._server.refused(error, self.peer.user)
        (send or self._send)(error_message(error.id, error))

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` for running requests, then cancel the rest and close."""
        self._end_listening()  # closing the server ends subscriptions without reporting a change of the list
        self._server.close()
        self._questions.end()  # the client can answer no more
        await self._server.disconnected(self.peer)
        if self._running:
            await self._server.opened()
        if tasks := list(self._running.values()):
            await asyncio.wait(tasks, timeout=seconds)
        await self.closed()

    async def closed(self) -> None:
        """Cancel running requests without responses."""
        self._end_listening()
        self._questions.end()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.disconnected(self.peer)

    # -- requests --------------------------------------------------------------------------------------------------

    def _start(self, request: Request, batch: BatchAnswer | None) -> None:
        key = (type(request.id), request.id)
        send = self._send if batch is None else batch.add
        if key in self._running:
            # A response with this id would be matched to the running request.
            self.answer_unreadable(UnreadableError(INVALID_REQUEST, "a request with this id is still running"), send)
            return
        if len(self._running) >= MAX_IN_FLIGHT:
            busy = RpcError(INTERNAL_ERROR, f"{MAX_IN_FLIGHT} requests are pending; wait until one of them ends")
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
            send(await self._answer(request))
        except asyncio.CancelledError:
            raise  # a cancelled request gets no response
        except Exception as error:
            # SECURITY: the text of an unexpected error may contain anything, so only its type is reported.
            self._report(f"{request.method} failed with {type(error).__name__}")
            send(error_message(request.id, RpcError(INTERNAL_ERROR, "the server failed on this request")))

    async def _answer(self, request: Request) -> dict[str, Any]:
        channel = _Channel(self, self._send)
        try:
            return result_message(request.id, await self._server.answer(request, channel))
        except RpcError as error:
            return error_message(request.id, error)
        finally:
            channel.open = False

    def _cancel(self, notification: Notification) -> None:
        """Cancel a request. Unknown requests are ignored: they have been answered. `initialize` cannot be cancelled."""
        known = notification.params.get("requestId")
        if isinstance(known, (str, int)) and not isinstance(known, bool):
            task = self._running.get((type(known), known))
            if task is not None:
                task.cancel()

    # -- requests and notifications to the client, in the older revisions -----------------------------------------

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Send a form to the client, and return its response, or None for an error. Cancelling withdraws the form."""
        number = f"wasmrt-{next(self._numbers)}"
        self._send(form_message(number, params, self.peer.session.version))
        try:
            return await self._questions.answer(number)
        except asyncio.CancelledError:
            self._send(notification_message("notifications/cancelled", {"requestId": number}))
            raise

    def _settle(self, response: Response) -> None:
        """Accept the response to a form; drop a response without a form."""
        if not self._questions.settle(response):
            self._server.refusals.note(Refusal.NO_QUESTION, self.peer.user)
            self._report("the client sent a response that matches no request")

    def _list_changed(self) -> None:
        if self.peer.session.listens:
            self._send(notification_message("notifications/tools/list_changed"))


class _Channel:
    """The channel to the client of one request."""

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
        """Ask the client's user."""
        return await self._connection.elicit(params)
