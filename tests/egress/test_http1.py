"""Headers of an untrusted peer take linear time."""

from __future__ import annotations

import time

import h11
import pytest

from wasmrt.core.limits import KIB
from wasmrt.egress.http1 import new_connection

BLANKS = b"a:" + b" \t" * (15 * KIB) + b"\x00\r\n\r\n"
HEADS = {
    "request": (h11.SERVER, b"GET / HTTP/1.1\r\n" + BLANKS),
    "response": (h11.CLIENT, b"HTTP/1.1 200 OK\r\n" + BLANKS),
    "trailer": (h11.CLIENT, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + BLANKS),
}


@pytest.mark.parametrize(("role", "data"), HEADS.values(), ids=HEADS)
def test_blanks_before_an_invalid_byte_take_linear_time(role: type[h11.SERVER], data: bytes) -> None:
    connection = new_connection(role, max_head_bytes=32 * KIB)
    if role is h11.CLIENT:
        connection.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        connection.send(h11.EndOfMessage())
    connection.receive_data(data)
    started = time.thread_time()
    with pytest.raises(h11.RemoteProtocolError):
        while connection.next_event() is not h11.NEED_DATA:
            pass
    assert time.thread_time() - started < 0.1


def test_blanks_around_a_value_are_removed() -> None:
    connection = new_connection(h11.SERVER, max_head_bytes=KIB)
    connection.receive_data(b"GET / HTTP/1.1\r\nhost: \t a  b\t \r\nempty: \t\r\nnone:\r\n\r\n")
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    assert list(request.headers) == [(b"host", b"a  b"), (b"empty", b""), (b"none", b"")]
