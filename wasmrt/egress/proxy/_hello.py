"""The server name in a TLS ClientHello: which host a program is about to speak to.

Source: RFC 8446 4.1.2 and 5.1, RFC 6066 3, and the extension of Encrypted Client Hello.
"""

from __future__ import annotations

from typing import NamedTuple

from wasmrt.core.limits import MAX_PROXY_HELLO_BYTES

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_MAX_RECORD = 16 * 1024
_SERVER_NAME, _ENCRYPTED_HELLO = 0, 0xFE0D


class NotAHelloError(Exception):
    """The bytes are no ClientHello; the text says why."""


class Hello(NamedTuple):
    """The parts of a ClientHello that say where it goes."""

    server_name: str
    """In small letters; empty where it names none."""
    encrypted: bool
    """True where it carries a second name that cannot be read."""


def read_hello(data: bytes) -> Hello | None:
    """Read a ClientHello; None where more bytes are needed.

    Raises:
        NotAHelloError: the bytes are none, whatever follows.
    """
    message = _message(data)
    if message is None:
        if len(data) >= MAX_PROXY_HELLO_BYTES:
            raise NotAHelloError("its ClientHello is too long")
        return None
    try:
        return _fields(message)
    except (IndexError, UnicodeDecodeError):
        raise NotAHelloError("its ClientHello is broken") from None


def _message(data: bytes) -> bytes | None:
    """Return the handshake message, put together from its records; None where more is needed."""
    gathered, at = b"", 0
    while True:
        if data[at : at + 1] not in (b"", bytes((_HANDSHAKE,))) or data[at + 1 : at + 2] not in (b"", b"\x03"):
            raise NotAHelloError("it is not TLS")
        if len(gathered) >= 4:
            if gathered[0] != _CLIENT_HELLO:
                raise NotAHelloError("its first message is no ClientHello")
            if len(gathered) >= 4 + int.from_bytes(gathered[1:4]):
                return gathered[4 : 4 + int.from_bytes(gathered[1:4])]
        if len(data) < at + 5:
            return None
        length = int.from_bytes(data[at + 3 : at + 5])
        if not 0 < length <= _MAX_RECORD:
            raise NotAHelloError("it has a TLS record of a length that none has")
        if len(data) < at + 5 + length:
            return None
        gathered += data[at + 5 : at + 5 + length]
        at += 5 + length


def _fields(message: bytes) -> Hello:
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
            raise NotAHelloError("it has an extension twice")
        seen.add(kind)
        if kind == _SERVER_NAME:
            names = _names(body)
    if len(names) > 1:
        # SECURITY: a server may take the one, and this the other.
        raise NotAHelloError("it names two servers")
    return Hello(names[0] if names else "", _ENCRYPTED_HELLO in seen)


def _names(body: bytes) -> list[str]:
    listed, found = _Reader(_Reader(body).vector(2)), []
    while listed.left:
        kind = listed.take(1)[0]
        name = listed.vector(2).decode("ascii").lower()
        if kind != 0 or not name:
            raise NotAHelloError("it has a server name of an unknown kind")
        found.append(name)
    return found


class _Reader:
    """Takes parts off the front of bytes; IndexError where they end too early."""

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
