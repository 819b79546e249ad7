"""A service for org.freedesktop.Notifications that implements D-Bus and writes notifications to a file.

https://dbus.freedesktop.org/doc/dbus-specification.html, as far as one service needs it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from pathlib import Path

NAME = "org.freedesktop.Notifications"
_CALL, _ANSWER, _ERROR = 1, 2, 3
_PATH, _INTERFACE, _MEMBER, _REPLY, _DESTINATION, _SENDER, _SIGNATURE = 1, 2, 3, 5, 6, 7, 8


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self) -> int:
        self.align(4)
        (value,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        return int(value)

    def text(self, size: int | None = None) -> str:
        length = self.number() if size is None else self.data[self.at]
        self.at += 0 if size is None else 1
        found = self.data[self.at : self.at + length].decode()
        self.at += length + 1
        return found

    def align(self, to: int) -> None:
        self.at += -self.at % to


def fields(data: bytes) -> dict[int, str | int]:
    """Read the fields of the header: strings and numbers."""
    reader, found = Reader(data), dict[int, str | int]()
    while reader.at < len(data):
        reader.align(8)
        if reader.at >= len(data):
            break
        code = data[reader.at]
        reader.at += 1
        kind = reader.text(1)
        found[code] = reader.number() if kind == "u" else reader.text(1) if kind == "g" else reader.text()
    return found


def message(kind: int, serial: int, heads: list[tuple[int, str, str | int]], body: bytes) -> bytes:
    listed = b""
    for code, signature, value in heads:
        listed += b"\0" * (-len(listed) % 8) + bytes([code, 1]) + signature.encode() + b"\0"
        listed += b"\0" * (-len(listed) % (1 if signature == "g" else 4))
        if isinstance(value, int):
            listed += struct.pack("<I", value)
        elif signature == "g":
            listed += bytes([len(value)]) + value.encode() + b"\0"
        else:
            listed += struct.pack("<I", len(value)) + value.encode() + b"\0"
    start = struct.pack("<cBBBII", b"l", kind, 0, 1, len(body), serial) + struct.pack("<I", len(listed)) + listed
    return start + b"\0" * (-len(start) % 8) + body


def text(value: str) -> bytes:
    """Write a string, and padding for the next value."""
    data = value.encode() + b"\0"
    return struct.pack("<I", len(data) - 1) + data + b"\0" * (-len(data) % 4)


class Bus:
    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.serial = 0
        self.socket.sendall(b"\0AUTH EXTERNAL " + str(os.getuid()).encode().hex().encode() + b"\r\n")
        assert self.socket.recv(4096).startswith(b"OK")
        self.socket.sendall(b"BEGIN\r\n")

    def send(self, kind: int, heads: list[tuple[int, str, str | int]], body: bytes = b"") -> None:
        self.serial += 1
        self.socket.sendall(message(kind, self.serial, heads, body))

    def call(self, member: str, body: bytes = b"", signature: str = "") -> None:
        heads: list[tuple[int, str, str | int]] = [
            (_PATH, "o", "/org/freedesktop/DBus"), (_INTERFACE, "s", "org.freedesktop.DBus"),
            (_MEMBER, "s", member), (_DESTINATION, "s", "org.freedesktop.DBus"),
        ]  # fmt: skip
        self.send(_CALL, [*heads, *([(_SIGNATURE, "g", signature)] if signature else [])], body)

    def receive(self) -> tuple[int, int, dict[int, str | int], bytes]:
        start = self._exactly(16)
        kind, body_bytes, serial, heads_bytes = start[1], *struct.unpack_from("<II", start, 4), 0
        (heads_bytes,) = struct.unpack_from("<I", start, 12)
        heads = self._exactly(heads_bytes + -heads_bytes % 8)[:heads_bytes]
        return kind, serial, fields(heads), self._exactly(body_bytes)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                sys.exit(0)
            data += piece
        return data


def main(path: str, log: str) -> None:
    bus = Bus(path)
    bus.call("Hello")
    bus.call("RequestName", text(NAME) + struct.pack("<I", 0), "su")
    while bus.receive()[2].get(_REPLY) != 2:
        pass
    print("ready", flush=True)
    while True:
        kind, serial, heads, body = bus.receive()
        if kind != _CALL:
            continue
        answer: tuple[bytes, str] = b"", ""
        if heads.get(_MEMBER) == "Notify":
            reader = Reader(body)
            app, _, _, title, words = reader.text(), reader.number(), reader.text(), reader.text(), reader.text()
            with Path(log).open("a") as file:
                file.write(json.dumps({"app": app, "title": title, "body": words}) + "\n")
            answer = struct.pack("<I", 1), "u"
        elif heads.get(_MEMBER) == "GetServerInformation":
            answer = text("t") + text("t") + text("1") + text("1.2"), "ssss"
        elif heads.get(_MEMBER) == "GetCapabilities":
            answer = struct.pack("<I", 0), "as"
        replies: list[tuple[int, str, str | int]] = [(_DESTINATION, "s", str(heads[_SENDER])), (_REPLY, "u", serial)]
        bus.send(_ANSWER, [*replies, *([(_SIGNATURE, "g", answer[1])] if answer[1] else [])], answer[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
