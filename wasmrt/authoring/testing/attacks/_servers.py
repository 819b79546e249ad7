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
from wasmrt.authoring.testing.attacks._site import TOKEN_BYTES, SiteSecret
from wasmrt.core.limits import MAX_CONTENT_MEMBERS, MIB

_STEP_SECONDS = 0.01
_PIECES = 100_000
_ECHOES = 10_000


def _compress(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=31)
    return coder.compress(data) + coder.flush()


def _send_coded(body: bytes, coding: str = "gzip") -> Script:
    def answer(_request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        return http_response(body, headers=(("Content-Encoding", coding),))

    return answer


def _never_answer(_request: ReceivedRequest, connection: ServerConnection) -> None:
    connection.closing.wait()


def _send_slowly(head: bytes, piece: bytes) -> Script:
    """Return a script that sends `head`, then repeats `piece` with pauses shorter than the read timeout."""

    def answer(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.send(head)
        while connection.send(piece) and not connection.closing.wait(_STEP_SECONDS):
            pass

    return answer


def _send_endlessly(head: bytes, piece: bytes) -> Script:
    def answer(_request: ReceivedRequest, connection: ServerConnection) -> None:
        connection.keep_alive = False
        connection.send(head)
        for _ in range(_PIECES):
            if not connection.send(piece):
                return

    return answer


def _read_credential(request: ReceivedRequest) -> bytes:
    return (request.header("Authorization") or "").removeprefix("Bearer ").encode()


def _echo_attack(
    name: str, about: str, encode: Callable[[bytes], bytes], code: Callable[[bytes], bytes] = bytes
) -> Attack:
    """Return an attack whose response repeats the credential of the request."""

    def answer(request: ReceivedRequest, _connection: ServerConnection) -> bytes:
        coding = () if code is bytes else (("Content-Encoding", "gzip"),)
        return http_response(code(encode(_read_credential(request))) * _ECHOES, headers=coding)

    size = len(encode(token_urlsafe(TOKEN_BYTES).encode())) * _ECHOES
    return Attack(name=name, about=about, body=Body(), server=answer, secret=SiteSecret.TOKEN, whole_bytes=size)


def _server_attack(name: str, about: str, server: Script, secret: SiteSecret = SiteSecret.NOTHING) -> Attack:
    return Attack(name=name, about=about, body=Body(), server=server, secret=secret)


_STATUS = b"HTTP/1.1 200 X\r\n"
SERVERS = (
    _server_attack("gzip-members", "is answered by a server with twenty thousand empty gzip members",
                   _send_coded(_compress(b"") * (20 * MAX_CONTENT_MEMBERS))),
    _server_attack("gzip-bomb", "is answered by a server with a megabyte that unpacks to a gigabyte",
                   _send_coded(_compress(bytes(64 * MIB)) * 16)),
    _server_attack("coding-in-coding", "is answered by a server with one coding in another",
                   _send_coded(_compress(_compress(b"{}")), "gzip, gzip")),
    _server_attack("silent-server", "asks a server that never answers", _never_answer),
    _server_attack("slow-headers", "is answered a header at a time, for ever", _send_slowly(_STATUS, b"a: b\r\n")),
    _server_attack("slow-body", "is answered a byte at a time, for ever",
                   _send_slowly(_STATUS + b"Content-Length: 1000000\r\n\r\n", b"x")),
    _server_attack("endless-headers", "receives endless headers",
                   _send_endlessly(_STATUS, b"a: " + b"b" * 1000 + b"\r\n")),
    _echo_attack("echoed-credential", "is answered with the credential that it was sent, over and over", bytes),
    _echo_attack("echoed-in-base64", "is answered with the credential in base64, over and over",
                 lambda token: base64.b64encode(token) + b" "),
    _echo_attack("echoed-in-gzip", "is answered with the credential in one gzip member after the other", bytes,
                 _compress),
    _server_attack("silent-token-endpoint", "has a token to renew, at an endpoint that never answers", _never_answer,
                   SiteSecret.LOGIN),
    _server_attack("endless-body", "receives an endless body",
                   _send_endlessly(_STATUS + b"Transfer-Encoding: chunked\r\n\r\n",
                                   b"4000\r\n" + bytes(0x4000) + b"\r\n")),
)  # fmt: skip
