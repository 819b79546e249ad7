"""Attacks by the server that a tool was granted: answers that take for ever, or gigabytes, to read.

The guest asks once, and breaks where it gets an answer. Servers that echo a credential, and silent token endpoints,
need a certificate that the host trusts, and are left to our own tests.
"""

from __future__ import annotations

import zlib

from wasmrt.limits import MAX_GZIP_MEMBERS, MIB
from wasmrt.testing._server import ReceivedRequest, Script, ServerConnection, http_response
from wasmrt.testing.attacks._attack import Attack
from wasmrt.testing.attacks._build import Body

_STEP_SECONDS = 0.01
_PIECES = 100_000


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
    """Answer with `head`, then with `piece` again and again, so slowly that no wait for the next one is long."""

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


def _server(name: str, about: str, server: Script) -> Attack:
    return Attack(name=name, about=about, body=Body(), server=server)


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
    _server("endless-headers", "is answered with headers without end",
            _endless(_STATUS, b"a: " + b"b" * 1000 + b"\r\n")),
    _server("endless-body", "is answered with a body without end",
            _endless(_STATUS + b"Transfer-Encoding: chunked\r\n\r\n", b"4000\r\n" + bytes(0x4000) + b"\r\n")),
)  # fmt: skip
