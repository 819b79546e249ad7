"""A web server in a separate thread, and a minimal client."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from wasmrt.interop.web import Handler, Request, Response, WebServer, plain


async def hello(request: Request) -> Response:
    return plain(200, f"{request.method} {request.path}?{request.query} {len(request.body)}")


@dataclass
class Served:
    server: WebServer
    loop: asyncio.AbstractEventLoop

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def head(self, line: str = "GET / HTTP/1.1", *headers: str, host: str | None = None) -> bytes:
        lines = [line, f"Host: {host or self.host}", *headers]
        return "".join(f"{each}\r\n" for each in (*lines, "")).encode("latin-1")

    def raw(self, data: bytes) -> bytes:
        """Send bytes; return the response until the server closes the connection."""
        with self.connect() as sock:
            with suppress(OSError):  # refused during sending
                sock.sendall(data)
            return read_all(sock)

    def status(self, data: bytes) -> int:
        return int(self.raw(data).split(b" ", 2)[1])

    def ask(self, line: str = "GET / HTTP/1.1", *headers: str, body: bytes = b"", host: str | None = None) -> bytes:
        """Send one request; return the whole response."""
        return self.raw(self.head(line, *headers, "Connection: close", host=host) + body)

    def tasks(self) -> int:
        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result(20)


def read_all(sock: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while piece := sock.recv(65536):
            data += piece
    return data


def read_response(sock: socket.socket) -> bytes:
    """Return one response with a declared length from a persistent connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(1)
        if not piece:
            return data
        data += piece
    head = data.lower()
    left = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while left:
        piece = sock.recv(left)
        data, left = data + piece, left - len(piece)
    return data


@contextmanager
def served(handler: Handler = hello, make: Callable[..., WebServer] = WebServer, **options: object) -> Iterator[Served]:
    """Serve in a thread; afterwards, close the server and check that no task is left."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        server = make(handler, **options)
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(20)
        found = Served(server, loop)
        try:
            yield found
        finally:
            asyncio.run_coroutine_threadsafe(server.close(0.2), loop).result(20)
        assert found.tasks() == 0
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
