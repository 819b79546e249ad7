"""The head of a request: its shape is checked before h11 reads it, and what h11 lets pass after."""

from __future__ import annotations

import re

import h11

from wasmrt.interop.web._bounds import WebBounds
from wasmrt.interop.web._message import Request

END_OF_HEAD = re.compile(rb"\n\r?\n")
"""Of any head, also of one that ends its lines wrongly, so that it is refused and not waited for."""
_BAD_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLD = re.compile(rb"\n[ \t]")
_LENGTH = re.compile(rb"(?im)^content-length:([^\r]*)")
_ONE_LENGTH = re.compile(rb"[ \t]*[0-9]{1,15}[ \t]*")
_ALONE = ("authorization", "content-length", "content-type", "cookie", "expect", "host", "origin", "transfer-encoding")
"""Headers that two values of would be two requests; RFC 9110 lets none of them be sent twice."""


class Refused(Exception):  # noqa: N818 - it carries a response's status, and never leaves this package
    """A request that is answered with `status`, and its connection closed after it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def check_shape(head: bytes, bounds: WebBounds) -> None:
    """Refuse a head that another server could read as another request.

    SECURITY: h11 takes lines that end in a bare LF, joins folded ones, and makes one of equal lengths (RFC 9112, 2.2,
    5.2 and 6.3); a proxy in front of this server may not, and then the two see different requests.
    """
    if len(head) > bounds.head_bytes or head.count(b"\n") > bounds.headers + 2:
        raise Refused(431)
    if _BAD_LINE_END.search(head) or _FOLD.search(head):
        raise Refused(400)
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or not all(map(_ONE_LENGTH.fullmatch, lengths)):
        raise Refused(400)


def parse(event: h11.Request, client: str) -> Request:
    """Return the request of a head, its body still to come.

    SECURITY: of two lengths, or a length and chunks, a proxy may choose the other (RFC 9112, 6.1): refused. So is a
    target that names a server (`http://...`, RFC 9112, 3.2.2), which would contradict the Host header.
    """
    headers = tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers)
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ALONE) or {"content-length", "transfer-encoding"} <= {*names}:
        raise Refused(400)
    target = event.target.decode("ascii")
    if not target.startswith("/") or "#" in target:
        raise Refused(400)
    if event.http_version != b"1.1" and (event.http_version != b"1.0" or "transfer-encoding" in names):
        raise Refused(400 if event.http_version == b"1.0" else 505)
    path, _, query = target.partition("?")
    method = event.method.decode("ascii")
    return Request(method=method, path=path, query=query, headers=headers, client=client)


def body_length(request: Request, bounds: WebBounds) -> int:
    """Return the declared length of a body, 0 where there is none or it comes in chunks.

    Raises:
        Refused: it is too long, encoded, or asked about in a way that is not known here.
    """
    if (request.header("content-encoding") or "identity").lower() != "identity":
        raise Refused(415)
    if (request.header("expect") or "100-continue").lower() != "100-continue":
        raise Refused(417)
    length = int(request.header("content-length") or 0)
    if length > bounds.body_bytes:
        raise Refused(413)
    return length
