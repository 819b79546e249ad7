"""The exchange of one HTTP request, and the sessions of the older protocol versions."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from wasmrt.interop.mcp.server.protocol import (
    INTERNAL_ERROR,
    Answer,
    Peer,
    Questions,
    Request,
    RpcError,
    Server,
    encode_message,
    error_message,
    form_message,
    result_message,
)

IDLE_SECONDS = 30 * 60.0
MAX_SESSIONS = 256
"""Maximum number of one user's sessions; each client of the older revisions has one. The longest idle goes first."""


@dataclass(slots=True)
class HttpSession:
    """One user's session."""

    peer: Peer
    questions: Questions = field(default_factory=Questions)
    used: float = field(default_factory=time.monotonic)


class Sessions:
    """The sessions of one server, by their unguessable IDs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._known: dict[str, HttpSession] = {}

    async def open(self, peer: Peer) -> str:
        """Return the ID of a new session."""
        await self._forget_idle()
        own = [key for key, session in self._known.items() if session.peer.user == peer.user]
        if len(own) >= MAX_SESSIONS:
            await self.end(min(own, key=lambda key: self._known[key].used))
        identity = secrets.token_urlsafe(32)
        self._known[identity] = HttpSession(peer)
        return identity

    def find(self, identity: str | None, user: str) -> HttpSession | None:
        """Return a user's session, or None if it has ended or does not belong to the user."""
        session = self._known.get(identity or "")
        if session is None or session.peer.user != user or time.monotonic() - session.used > IDLE_SECONDS:
            return None
        session.used = time.monotonic()
        return session

    async def end(self, identity: str) -> None:
        """End a session and the waits for its forms, and withdraw the pending requests of its calls."""
        session = self._known.pop(identity, None)
        if session is not None:
            session.questions.end()
            await self._server.disconnected(session.peer)

    async def _forget_idle(self) -> None:
        now = time.monotonic()
        for key in [key for key, each in self._known.items() if now - each.used > IDLE_SECONDS]:
            await self.end(key)


KEEP_ALIVE_SECONDS = 15.0
MAX_UNSENT = 1024
"""Maximum number of unread messages of one stream. A client that leaves more messages unread is disconnected."""
_numbers = itertools.count(1)


class Exchange:
    """Answers the request of one POST, or a batch, whose responses are sent together."""

    def __init__(
        self,
        server: Server,
        requests: list[Request],
        peer: Peer,
        session: HttpSession | None,
        refused: list[dict[str, Any]] | None = None,
    ) -> None:
        self.peer = peer
        self._refused = refused
        """Responses to the messages of a batch that are not requests; None without a batch."""
        self._unsent: deque[dict[str, Any]] = deque()
        self._changed = asyncio.Event()
        self._session = session
        self._open = True
        self.answering = asyncio.ensure_future(self._answer(server, requests))
        self.answering.add_done_callback(lambda _: self._changed.set())

    @property
    def answer(self) -> Answer:
        """The response, once `answering` is done: a message, or the array of a batch, errors first."""
        answers = self.answering.result()
        return answers[0] if self._refused is None else [*self._refused, *answers]

    def send(self, message: dict[str, Any]) -> None:
        """Send a message that belongs to the request, before its result."""
        if not self._open:
            return
        self._unsent.append(message)
        self._changed.set()
        if len(self._unsent) > MAX_UNSENT:
            self.answering.cancel()

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message before the result, which ends the stream."""
        self.send(message)

    async def elicit(self, params: dict[str, Any]) -> dict[str, Any] | None:
        """Request a form from the client over this stream; its response arrives in a separate request."""
        session = self._session
        if session is None:
            return None
        number = f"wasmrt-{next(_numbers)}"
        self.send(form_message(number, params, session.peer.session.version))
        return await session.questions.answer(number)

    async def wait_for_output(self) -> bool:
        """Wait for the response or a message to stream; return whether there is only the response."""
        try:
            await self._changed.wait()
        except asyncio.CancelledError:
            await self.end()
            raise
        return not self._unsent

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the events of the stream, the result last; closing it cancels the request."""
        try:
            while True:
                while self._unsent:
                    yield _write_event(self._unsent.popleft())
                if self.answering.done():
                    break
                self._changed.clear()
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await self._changed.wait()
                except TimeoutError:
                    yield b":\n\n"
            if not self.answering.cancelled():
                yield _write_event(self.answer)
        finally:
            await self.end()

    async def end(self) -> None:
        """End the request and its task."""
        self._open = False
        self.answering.cancel()
        await asyncio.wait({self.answering})

    async def _answer(self, server: Server, requests: list[Request]) -> list[dict[str, Any]]:
        try:
            if len(requests) == 1:  # the common case needs no extra task
                return [await self._answer_one(server, requests[0])]
            return await asyncio.gather(*(self._answer_one(server, request) for request in requests))
        finally:
            self._open = False

    async def _answer_one(self, server: Server, request: Request) -> dict[str, Any]:
        try:
            return result_message(request.id, await server.answer(request, self))
        except RpcError as error:
            return error_message(request.id, error)
        except Exception:
            # SECURITY: the text of an unexpected error may contain anything.
            return error_message(request.id, RpcError(INTERNAL_ERROR, "the server failed on this request"))


def _write_event(message: Answer) -> bytes:
    return b"event: message\ndata: " + encode_message(message) + b"\n\n"
