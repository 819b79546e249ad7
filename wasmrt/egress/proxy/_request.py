"""Parse the requests of a confined program: the HTTP header, and the server name of a TLS ClientHello."""

from __future__ import annotations

import hmac
import re
import socket
import time
from base64 import b64encode
from typing import NamedTuple

import h11

from wasmrt.core.limits import KIB, MAX_PROXY_HELLO_BYTES, PROXY_BODY_BYTES
from wasmrt.egress.http1 import new_connection

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_MAX_RECORD = 16 * 1024
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class NotAHelloError(Exception):
    """The bytes are not a valid ClientHello. The message contains the reason."""


class Hello(NamedTuple):
    """The parts of a ClientHello that determine the server."""

    server_name: str
    """The server's name in lower case, or an empty string if the ClientHello contains no name."""
    encrypted: bool
    """True if the ClientHello also contains an encrypted server name."""


def read_hello(data: bytes) -> Hello | None:
    """Parse a ClientHello; return None if more bytes are needed.

    Raises:
        NotAHelloError: the bytes are not the beginning of a valid ClientHello.
    """
    message = _assemble_message(data)
    if message is None:
        if len(data) >= MAX_PROXY_HELLO_BYTES:
            raise NotAHelloError("the ClientHello is too long")
        return None
    try:
        return _parse_hello(message)
    except (IndexError, UnicodeDecodeError):
        raise NotAHelloError("the ClientHello is incomplete or invalid") from None


def _assemble_message(data: bytes) -> bytes | None:
    """Assemble the handshake message from TLS records; return None if more bytes are needed."""
    gathered, at = b"", 0
    while True:
        if data[at : at + 1] not in (b"", bytes((_HANDSHAKE,))) or data[at + 1 : at + 2] not in (b"", b"\x03"):
            raise NotAHelloError("the data is not TLS")
        if len(gathered) >= 4:
            if gathered[0] != _CLIENT_HELLO:
                raise NotAHelloError("the first TLS message is not a ClientHello")
            if len(gathered) >= 4 + int.from_bytes(gathered[1:4]):
                return gathered[4 : 4 + int.from_bytes(gathered[1:4])]
        if len(data) < at + 5:
            return None
        length = int.from_bytes(data[at + 3 : at + 5])
        if not 0 < length <= _MAX_RECORD:
            raise NotAHelloError("a TLS record has an invalid length")
        if len(data) < at + 5 + length:
            return None
        gathered += data[at + 5 : at + 5 + length]
        at += 5 + length


def _parse_hello(message: bytes) -> Hello:
    reader = _Reader(message)
    reader.take(2 + 32)
    for width in (1, 2, 1):  # session, cipher suites, compression
        reader.vector(width)
    extensions = _Reader(reader.vector(2))
    names: list[str] = []
    seen: set[int] = set()
    while extensions.left:
        kind, body = int.from_bytes(extensions.take(2)), extensions.vector(2)
        if kind in seen:
            raise NotAHelloError("the ClientHello has a duplicate extension")
        seen.add(kind)
        if kind == _SERVER_NAME:
            names = _parse_server_names(body)
    if len(names) > 1:
        # SECURITY: this check and the server could use different names.
        raise NotAHelloError("the ClientHello contains more than one server name")
    return Hello(names[0] if names else "", _ENCRYPTED_HELLO in seen)


def _parse_server_names(body: bytes) -> list[str]:
    listed, found = _Reader(_Reader(body).vector(2)), []
    while listed.left:
        kind = listed.take(1)[0]
        name = listed.vector(2).decode("ascii").lower()
        if kind != 0 or not name:
            raise NotAHelloError("the ClientHello contains a server name of an unknown kind")
        found.append(name)
    return found


class _Reader:
    """A reader that takes parts from the front of a byte string, and raises IndexError if too few bytes are left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise IndexError
        self._at += count
        return self._data[self._at - count : self._at]

    def vector(self, width: int) -> bytes:
        return self.take(int.from_bytes(self.take(width)))


_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}")
_CREDENTIAL = b"proxy-authorization"
_HOP_BY_HOP = frozenset((
    "connection", "proxy-connection", "proxy-authorization", "keep-alive", "te", "trailer", "transfer-encoding",
    "upgrade", "host", "content-length",
))  # fmt: skip
_CHUNK = 64 * 1024
_MAX_HEAD_BYTES = 16 * KIB
"""Maximum size of the request line and the headers together."""


class RefusedError(Exception):
    """A request is refused. The response has an error status and a message."""

    def __init__(self, status: int, code: str, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.status, self.code, self.sentence, self.hint = status, code, sentence, hint


class ProxyRequest(NamedTuple):
    """A request from the program."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""


def read_request(client: socket.socket, credential: str, seconds: float) -> ProxyRequest:
    """Read a request's header, and its body unless the method is CONNECT.

    Raises:
        RefusedError: the request is not valid HTTP, lacks the credential of the run, is too long or arrives too late.
        OSError: the connection failed.
    """
    http = new_connection(h11.SERVER, max_head_bytes=_MAX_HEAD_BYTES)
    ends_at = time.monotonic() + seconds
    try:
        head = _read_event(http, client, ends_at)
        if not isinstance(head, h11.Request):
            raise RefusedError(400, "invalid-request", "no request was received")
        _check_credential(head, credential)
        headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in head.headers)
        method, target = head.method.decode("ascii"), head.target.decode("ascii")
        if method == "CONNECT":
            _check_connect(target, headers, http.trailing_data[0])
            return ProxyRequest(method, target, headers)
        _check_plain(target, headers)
        body = _read_body(http, client, ends_at)
    except h11.RemoteProtocolError:
        raise RefusedError(400, "invalid-request", "the request is not valid HTTP") from None
    except TimeoutError:
        raise RefusedError(408, "timeout", "the request was not received in time") from None
    dropped = _list_hop_by_hop(headers)
    kept = tuple((name, value) for name, value in headers if name not in dropped)
    return ProxyRequest(method, target, kept, body)


def _check_credential(head: h11.Request, credential: str) -> None:
    # SECURITY: the credential protects the port even if another process reaches the run's network.
    expected = b"Basic " + b64encode(f"wasmrt:{credential}".encode())
    given = [value for name, value in head.headers if name == _CREDENTIAL]
    if len(given) != 1 or not hmac.compare_digest(given[0], expected):
        raise RefusedError(407, "proxy-credential", "this proxy requires the credential of the program's run")


def _check_connect(target: str, headers: tuple[tuple[str, str], ...], behind: bytes) -> None:
    # SECURITY: deny requests that a server could understand as requests for another host, or as more than one request.
    if not _AUTHORITY.fullmatch(target):
        raise RefusedError(400, "invalid-request", "CONNECT must be followed by a host and a port")
    host = target.rpartition(":")[0].lower()
    for name, value in headers:
        if name == "host" and value.lower() not in (target.lower(), host):
            raise RefusedError(400, "invalid-request", "the Host header of a CONNECT must match its target")
        if name in ("content-length", "transfer-encoding", "upgrade"):
            raise RefusedError(400, "invalid-request", f"a CONNECT must not have the header {name}")
    if behind:
        raise RefusedError(400, "invalid-request", "bytes were sent after a CONNECT before its response")


def _check_plain(target: str, headers: tuple[tuple[str, str], ...]) -> None:
    # SECURITY: the host in the URL is checked, so a Host header must match it.
    authority = re.fullmatch(r"http://([^/?#@]+)(?:[/?][^#]*)?", target)
    if authority is None:
        raise RefusedError(400, "invalid-request", "a request to a proxy must have a full http:// URL or be a CONNECT")
    hosts = [value.lower() for name, value in headers if name == "host"]
    named = authority[1].lower()
    if any(host not in (named, named.removesuffix(":80")) for host in hosts):
        raise RefusedError(400, "invalid-request", "the Host header of the request must match its URL")
    if any(name == "upgrade" for name, _ in headers):
        raise RefusedError(400, "invalid-request", "the proxy does not support protocol upgrades")


def _list_hop_by_hop(headers: tuple[tuple[str, str], ...]) -> frozenset[str]:
    named = {part.strip().lower() for name, value in headers if name == "connection" for part in value.split(",")}
    return _HOP_BY_HOP | named


def _read_body(http: h11.Connection, client: socket.socket, ends_at: float) -> bytes:
    if http.they_are_waiting_for_100_continue:
        client.sendall(http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
    body = bytearray()
    while isinstance(event := _read_event(http, client, ends_at), h11.Data):
        body += event.data
        if len(body) > PROXY_BODY_BYTES:
            raise RefusedError(413, "request-too-large", "the request body is too long for the proxy")
    if http.trailing_data[0]:
        raise RefusedError(400, "invalid-request", "a second request was sent before the first was answered")
    return bytes(body)


def _read_event(http: h11.Connection, client: socket.socket, ends_at: float) -> h11.Event | type[h11.PAUSED]:
    while True:
        event = http.next_event()
        if event is not h11.NEED_DATA:
            return event  # type: ignore[return-value]
        left = ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        client.settimeout(left)
        http.receive_data(client.recv(_CHUNK))
