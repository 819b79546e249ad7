"""The endpoint of streamable HTTP: every message is a POST, and determines its own protocol revision."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from wasmrt.interop.mcp.server.http._entrance import Entrance, TurnedAway
from wasmrt.interop.mcp.server.http._exchange import Exchange, HttpSession, Sessions
from wasmrt.interop.mcp.server.http._headers import (
    SESSION_HEADER,
    VERSION_HEADER,
    check_modern,
    is_modern,
    legacy_version,
)
from wasmrt.interop.mcp.server.protocol import (
    BATCH_VERSION,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Answer,
    Batch,
    Id,
    Message,
    Notification,
    Peer,
    Refusal,
    Request,
    Response,
    RpcError,
    Server,
    UnreadableError,
    encode_message,
    error_message,
    read_message,
    read_messages,
)
from wasmrt.interop.web import Request as WebRequest
from wasmrt.interop.web import Response as WebResponse
from wasmrt.interop.web import plain
from wasmrt.runtime.config_serve import ENDPOINT_PATH

PATH = ENDPOINT_PATH
HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
MAX_REQUESTS = 256
"""Maximum number of unanswered requests of one user, including subscriptions."""
_STATUS = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, METHOD_NOT_FOUND: 404,
    HEADER_MISMATCH: 400, MISSING_CAPABILITY: 400, UNSUPPORTED_VERSION: 400,
}  # fmt: skip
_OF_STATUS = {
    403: Refusal.OTHER_ORIGIN, 408: Refusal.TOO_SLOW, 413: Refusal.TOO_LARGE, 421: Refusal.OTHER_HOST,
    431: Refusal.TOO_LARGE, 503: Refusal.TOO_MANY_CONNECTIONS,
}  # fmt: skip
"""Refusals by the status with which the web server itself refuses a request; any other status: malformed request."""
_JSON = (("content-type", "application/json"),)
_STREAM = (("content-type", "text/event-stream"), ("x-accel-buffering", "no"))


class Endpoint:
    """Handles HTTP requests. Only the token identifies the user.

    Args:
        server: Answers the messages.
        entrance: Authenticates requests.
    """

    def __init__(self, server: Server, entrance: Entrance) -> None:
        self._server = server
        self._entrance = entrance
        self._sessions = Sessions(server)
        self._running: Counter[str] = Counter()

    async def gate(self, web: WebRequest) -> WebResponse | None:
        """Answer health checks; refuse unknown paths and methods, and missing tokens, before the body is read."""
        if (document := self._entrance.document(web, PATH)) is not None:
            return document
        if (health := _check_health(web, is_ready=self._server.is_ready)) is not None:
            return health
        if web.path != PATH:
            return self._count_and_refuse(Refusal.NO_SUCH_PATH, plain(404))
        try:
            user = await self._entrance.user_of(web)
        except TurnedAway as turned:
            return self._count_and_refuse(turned.refusal, turned.response)
        if web.method not in ("POST", "DELETE") or (web.method == "DELETE" and not web.has(SESSION_HEADER)):
            return self._count_and_refuse(Refusal.WRONG_METHOD, plain(405, headers=(("allow", "POST"),)), user)
        return None

    def count_refused_request(self, status: int) -> None:
        """Count a request that the web server refused."""
        self._server.refusals.note(_OF_STATUS.get(status, Refusal.MALFORMED_HTTP))

    def _count_and_refuse(self, refusal: Refusal, response: WebResponse, user: str = "") -> WebResponse:
        self._server.refusals.note(refusal, user)
        return response

    def _error(self, error: RpcError, status: int, user: str, id: Id | None = None) -> WebResponse:
        """Refuse a message with an error."""
        self._server.refused(error, user)
        return _make_response(error_message(id, error), status)

    async def handle(self, web: WebRequest) -> WebResponse:
        """Handle one request."""
        try:
            user = await self._entrance.user_of(web)
        except TurnedAway as turned:  # the token expired while the body was read
            return self._count_and_refuse(turned.refusal, turned.response)
        if web.method == "DELETE":
            return await self._end_session(web, user)
        if web.media_type != "application/json":
            return self._count_and_refuse(
                Refusal.WRONG_MEDIA_TYPE, plain(415, "Messages must be application/json."), user
            )
        if not _accepts(web, "application/json"):
            said = plain(406, "Accept must include application/json and text/event-stream.")
            return self._count_and_refuse(Refusal.WRONG_MEDIA_TYPE, said, user)
        try:
            message = read_message(web.body, batches=self._takes_batches(web, user))
        except UnreadableError as error:
            return self._error(error, 400, user, error.id)
        if isinstance(message, Batch):
            return await self._batch(read_messages(message), web, user)
        if isinstance(message, Request):
            return await self._request(message, web, user)
        return self._accept(message, web, user)

    async def _end_session(self, web: WebRequest, user: str) -> WebResponse:
        identity = web.header(SESSION_HEADER)
        if identity is None or self._sessions.find(identity, user) is None:
            return self._count_and_refuse(Refusal.NO_SESSION, plain(404), user)
        await self._sessions.end(identity)
        return WebResponse(status=204)

    def _takes_batches(self, web: WebRequest, user: str) -> bool:
        """Return whether the client uses the revision with batches, according to its session or header."""
        session = self._sessions.find(web.header(SESSION_HEADER), user)
        if session is not None:
            return session.peer.session.version == BATCH_VERSION
        return web.header(VERSION_HEADER) == BATCH_VERSION or not web.has(VERSION_HEADER)

    async def _batch(self, messages: list[Message | UnreadableError], web: WebRequest, user: str) -> WebResponse:
        """Answer a batch: 202 if no message needs a response, otherwise one array."""
        requests = [each for each in messages if isinstance(each, Request)]
        unreadable = [each for each in messages if isinstance(each, UnreadableError)]
        session: HttpSession | None = None
        if web.has(SESSION_HEADER):
            session = self._sessions.find(web.header(SESSION_HEADER), user)
            if session is None:
                return self._no_session(user, None)
        for each in unreadable:
            self._server.refused(each, user)
        errors = [error_message(each.id, each) for each in unreadable]
        unheard = [
            self._accept_for(each, session, user) for each in messages if isinstance(each, (Notification, Response))
        ]
        errors += [error_message(None, error) for error in unheard if error is not None]
        if not requests:
            return _make_response(errors, 400) if errors else WebResponse(status=202)
        peer = session.peer if session is not None else _make_stateless_peer(user)
        peer.session.version = BATCH_VERSION
        return await self._answers(requests, web, peer, session, refused=errors)

    def _no_session(self, user: str, id: Id | None) -> WebResponse:
        said = error_message(id, RpcError(INVALID_REQUEST, "the session has ended"))
        return self._count_and_refuse(Refusal.NO_SESSION, _make_response(said, 404), user)

    def _accept(self, message: Notification | Response, web: WebRequest, user: str) -> WebResponse:
        """Handle a notification, or a response to a form. The session must belong to the user."""
        error = self._accept_for(message, self._sessions.find(web.header(SESSION_HEADER), user), user)
        return WebResponse(status=202) if error is None else _make_response(error_message(None, error), 400)

    def _accept_for(self, message: Notification | Response, session: HttpSession | None, user: str) -> RpcError | None:
        if isinstance(message, Notification):
            if session is not None:
                self._server.note(message, session.peer)
            return None
        if session is None or not session.questions.settle(message):
            self._server.refusals.note(Refusal.NO_QUESTION, user)
            return RpcError(INVALID_REQUEST, "the response matches no pending request")
        return None

    async def _request(self, request: Request, web: WebRequest, user: str) -> WebResponse:
        modern = is_modern(request, web)
        session: HttpSession | None = None
        try:
            if modern:
                check_modern(request, web)
                peer = _make_stateless_peer(user)
            else:
                if web.has(SESSION_HEADER) and request.method != "initialize":
                    session = self._sessions.find(web.header(SESSION_HEADER), user)
                    if session is None:
                        return self._no_session(user, request.id)
                peer = self._find_legacy_peer(request, web, user, session)
        except RpcError as error:
            return self._error(error, _STATUS[error.code], user, request.id)
        return await self._answers([request], web, peer, session, modern=modern)

    async def _answers(
        self,
        requests: list[Request],
        web: WebRequest,
        peer: Peer,
        session: HttpSession | None,
        *,
        modern: bool = False,
        refused: list[dict[str, Any]] | None = None,
    ) -> WebResponse:
        """Answer requests; `refused` are the other responses of their batch, or None without a batch."""
        if self._running[peer.user] + len(requests) > MAX_REQUESTS:
            busy = RpcError(INTERNAL_ERROR, f"{MAX_REQUESTS} requests are pending; wait until one of them ends")
            said = error_message(None if refused is not None else requests[0].id, busy)
            return self._count_and_refuse(Refusal.TOO_MANY_REQUESTS, _make_response(said, 429), peer.user)
        exchange = Exchange(self._server, requests, peer, session, refused)
        self._running[peer.user] += len(requests)
        exchange.answering.add_done_callback(lambda _: self._release(peer.user, len(requests)))
        if not await exchange.wait_for_output():
            if _accepts(web, "text/event-stream"):
                endless = any(each.method == "subscriptions/listen" for each in requests)
                body = self._iter_while_valid(exchange.stream(), web) if endless else exchange.stream()
                return WebResponse(headers=_STREAM, body=body)
            await exchange.end()
            unfit = plain(406, "Accept must include text/event-stream for this request.")
            return self._count_and_refuse(Refusal.WRONG_MEDIA_TYPE, unfit, peer.user)
        return await self._response(requests[0], exchange, modern=modern)

    async def _iter_while_valid(
        self, stream: AsyncGenerator[bytes, None], web: WebRequest
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events of an endless subscription while its token is valid.

        SECURITY: the token is checked before each event; one is sent every few seconds.
        """
        async with aclosing(stream) as events:
            async for event in events:
                try:
                    await self._entrance.user_of(web)
                except TurnedAway as turned:
                    self._server.refusals.note(turned.refusal)
                    return
                yield event

    async def _response(self, request: Request, exchange: Exchange, *, modern: bool) -> WebResponse:
        if exchange.answering.cancelled():  # pragma: no cover - only on shutdown
            return plain(503)
        answer = exchange.answer
        if "error" in answer and isinstance(answer, dict):
            # Status 404 would mean to a legacy client that its session has ended.
            return _make_response(answer, _STATUS.get(answer["error"]["code"], 200) if modern else 200)
        headers: tuple[tuple[str, str], ...] = _JSON
        if request.method == "initialize":
            headers = (*_JSON, (SESSION_HEADER, await self._sessions.open(exchange.peer)))
        return WebResponse(headers=headers, body=encode_message(answer))

    def _find_legacy_peer(self, request: Request, web: WebRequest, user: str, session: HttpSession | None) -> Peer:
        """Return the client of a legacy request: that of its session, or one known only by its header."""
        if session is not None:
            return session.peer
        if request.method == "initialize":
            return Peer(user, can_receive_notifications=False, transport="tcp")
        peer = _make_stateless_peer(user)
        peer.session.version = legacy_version(web)
        return peer

    def _release(self, user: str, count: int) -> None:
        self._running[user] -= count
        if not self._running[user]:
            del self._running[user]


def _make_stateless_peer(user: str) -> Peer:
    """Return the client of a request that does not belong to a session."""
    return Peer(user, can_receive_notifications=False, transport="tcp", connection="")


def _accepts(web: WebRequest, kind: str) -> bool:
    """Return whether a client accepts a content type; without the header it accepts any."""
    found = [value for name, value in web.headers if name == "accept"]
    listed = [part.partition(";")[0].strip().lower() for value in found for part in value.split(",")]
    return not listed or bool({kind, "*/*", f"{kind.partition('/')[0]}/*"} & set(listed))


def _make_response(message: Answer, status: int) -> WebResponse:
    return WebResponse(status=status, headers=_JSON, body=encode_message(message))


def _check_health(web: WebRequest, *, is_ready: bool) -> WebResponse | None:
    """Return the response to a health check, which requires no token; None for other requests.

    `/healthz` is 200 while the server handles requests. `/readyz` is 503 until the tools are available, and while the
    server closes. SECURITY: both are public, so they contain only the status.
    """
    if web.path not in (HEALTH_PATH, READY_PATH):
        return None
    if web.method not in ("GET", "HEAD"):
        return plain(405, headers=(("allow", "GET, HEAD"),))
    return plain(200 if is_ready or web.path == HEALTH_PATH else 503)
