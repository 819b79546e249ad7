"""Attacks by a server that a tool may reach: responses that take unbounded time or memory to read.

The guest sends one request, and traps if it gets a response.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from secrets import token_urlsafe

from wasmrt.authoring.testing._server import ReceivedRequest, Script, ServerConnection, http_response
from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.authoring.testing.attacks._build import Body
from wasmrt.authoring.testing.attacks._site import TOKEN_BYTES, Held
from wasmrt.core.limits import MAX_GZIP_MEMBERS, MIB

_STEP_SECONDS = 0.01
_PIECES = 100_000
_ECHOES = 10_000


def _gzip(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=31)
    return coder.compress(data) + coder.flush()


def _coded(body: bytes, coding: str = "gzip") -> Script:
    def answer(_request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        return http_response(body, headers=(("Content-Encoding", coding),))

    return answer


def _silent(_request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.closing.wait()


def _drop_by_drop(head: bytes, piece: bytes) -> Script:
    """Return a script that sends `head` and then repeats `piece`, slowly, but with pauses too short for a read timeout."""

    def answer(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.send(head)
        while connection.send(piece) and not connection.closing.wait(_STEP_SECONDS):
            pass

    return answer


def _endless(head: bytes, piece: bytes) -> Script:
    def answer(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.keep_alive = False
        connection.send(head)
        for _ in range(_PIECES):
            if not connection.send(piece):
                return

    return answer


def _echo(request: ReceivedRequest) -> bytes:
    return (request.header("Authorization") or "").removeprefix("Bearer ").encode()


def _echoes(name: str, about: str, encode: Callable[[bytes], bytes], code: Callable[[bytes], bytes] = bytes) -> Attack:
    """Return an attack whose response repeats the credential of the request."""

    def answer(request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        coding = () if code is bytes else (("Content-Encoding", "gzip"),)
        return http_response(code(encode(_echo(request))) * _ECHOES, headers=coding)

    size = len(encode(token_urlsafe(TOKEN_BYTES).encode())) * _ECHOES
    return Attack(name=name, about=about, body=Body(), server=answer, held=Held.TOKEN, whole_bytes=size)


def _server(name: str, about: str, server: Script, held: Held = Held.NOTHING) -> Attack:
    return Attack(name=name, about=about, body=Body(), server=server, held=held)


_STATUS = b"HTTP/1.1 200 X\r\n"
SERVERS = (
    _server("gzip-members", "is answered by a server with twenty thousand empty gzip members",
            _coded(_gzip(b"") * (20 * MAX_GZIP_MEMBERS))),
    _server("gzip-bomb", "is answered by a server with a megabyte that unpacks to a gigabyte",
            _coded(_gzip(bytes(64 * MIB)) * 16)),
    _server("coding-in-coding", "is answered by a server with one coding in another",
            _coded(_gzip(_gzip(b"{}")), "gzip, gzip")),
    _server("silent-server", "asks a server that never answers", _silent),
    _server("slow-headers", "is answered a header at a time, for ever", _drop_by_drop(_STATUS, b"a: b\r\n")),
    _server("slow-body", "is answered a byte at a time, for ever",
            _drop_by_drop(_STATUS + b"Content-Length: 1000000\r\n\r\n", b"x")),
    _server("endless-headers", "receives endless headers",
            _endless(_STATUS, b"a: " + b"b" * 1000 + b"\r\n")),
    _echoes("echoed-credential", "is answered with the credential that it was sent, over and over", bytes),
    _echoes("echoed-in-base64", "is answered with the credential in base64, over and over",
            lambda token: base64.b64encode(token) + b" "),
    _echoes("echoed-in-gzip", "is answered with the credential in one gzip member after the other", bytes, _gzip),
    _server("silent-token-endpoint", "has a token to renew, at an endpoint that never answers", _silent, Held.LOGIN),
    _server("endless-body", "receives an endless body",
            _endless(_STATUS + b"Transfer-Encoding: chunked\r\n\r\n", b"4000\r\n" + bytes(0x4000) + b"\r\n")),
)  # fmt: skip
