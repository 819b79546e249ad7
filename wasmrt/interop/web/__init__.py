"""A small web server for pages and protocols: HTTP/1.1 on loopback, bounded, and closed to other origins."""

from __future__ import annotations

from wasmrt.interop.web._access import Origins, Session, Sessions, TokenDigest, bearer_token, new_token
from wasmrt.interop.web._connection import Gate
from wasmrt.interop.web._message import Handler, Request, Response, WebBounds, plain
from wasmrt.interop.web._server import WebServer

__all__ = [
    "Gate",
    "Handler",
    "Origins",
    "Request",
    "Response",
    "Session",
    "Sessions",
    "TokenDigest",
    "WebBounds",
    "WebServer",
    "bearer_token",
    "new_token",
    "plain",
]
