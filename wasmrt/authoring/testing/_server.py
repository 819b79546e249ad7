"""An HTTP/1.1 server on loopback that sends exactly the bytes that a test specifies, even if they are malformed."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that the server received."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    head: bytes
    """The bytes of the request line and the headers."""
    sni: str | None
    """The server name of the TLS handshake."""
    connection: int
    """The number of the connection, from 0."""

    def header(self, name: str) -> str | None:
        """Return the value of a header, or None; fail if it was sent more than once. Case is ignored."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) <= 1, f"{name} was sent {len(values)} times"
        return values[0] if values else None


@dataclass(slots=True)
class ServerConnection:
    """The connection that a script writes to."""

    sock: socket.socket
    number: int
    closing: threading.Event
    """An event that is set when the server closes, so that endless scripts stop."""
    keep_alive: bool = True

    def send(self, data: bytes) -> bool:
        """Send data; return False if the client has disconnected or the server is closing."""
        try:
            self.sock.sendall(data)
        except OSError:
            return False
        return not self.closing.is_set()


Script = Callable[[ReceivedRequest, ServerConnection], bytes | None]
"""A function that returns a complete response, or writes to the connection itself and returns None."""


def http_response(
    body: bytes = b"", *, status: int = 200, headers: tuple[tuple[str, str], ...] = (), length: int | None = None
) -> bytes:
    """Return a well-formed response; `length` replaces the length of the body in the header."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


@dataclass(slots=True)
class ScriptedServer:
    """A server on loopback that responds with `script`, and uses TLS if `tls` is given.

    Use it as a context manager. Its attributes are thread-safe.
    """

    script: Script
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    _listener: socket.socket | None = None
    _threads: list[threading.Thread] = field(default_factory=list)
    _open: set[socket.socket] = field(default_factory=set)
    _closing: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def port(self) -> int:
        assert self._listener is not None, "the server is not running"
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> ScriptedServer:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, 0), family=family, backlog=256)
        if self.tls is not None:
            self.tls.sni_callback = _remember_name
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        assert self._listener is not None
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in list(self._threads):
            thread.join(timeout=10)

    def drop_connections(self) -> None:
        """Close all open connections, like a server that restarts."""
        with self._lock:
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._closing.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                number, self.connections = self.connections, self.connections + 1
                self._open.add(sock)
            self._start(self._serve, sock, number)

    def _serve(self, raw: socket.socket, number: int) -> None:
        sock: socket.socket = raw
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(raw, server_side=True)
                with self._lock:
                    self._open.discard(raw)
                    self._open.add(sock)
            connection = ServerConnection(sock, number, self._closing)
            reader = _Reader(sock, number)
            while connection.keep_alive and not self._closing.is_set():
                request = reader.read_next_request()
                if request is None:
                    return
                self.requests.append(request)
                answer = self.script(request, connection)
                if answer is not None and not connection.send(answer):
                    return
        except (OSError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(raw)
                self._open.discard(sock)
            with contextlib.suppress(OSError):
                sock.close()
            raw.close()


class _Reader:
    def __init__(self, sock: socket.socket, number: int) -> None:
        self._sock, self._number, self._data = sock, number, b""

    def read_next_request(self) -> ReceivedRequest | None:
        while b"\r\n\r\n" not in self._data:
            if not self._more():
                return None
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        length = sum(int(value) for name, value in headers if name.lower() == "content-length")
        while len(self._data) < length:
            if not self._more():
                return None
        body, self._data = self._data[:length], self._data[length:]
        sni = getattr(self._sock, "_wasmrt_sni", None)
        return ReceivedRequest(method, target, headers, body, head, sni, self._number)

    def _more(self) -> bool:
        data = self._sock.recv(_CHUNK)
        self._data += data
        return bool(data)


def _remember_name(sock: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    sock._wasmrt_sni = name  # type: ignore[union-attr]
