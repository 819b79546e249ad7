"""Check that headers match the message's body (2026-07-28, streamable HTTP, Request Metadata)."""

from __future__ import annotations

import base64
import binascii
import re

from wasmrt.interop.mcp.server.protocol import (
    HEADER_MISMATCH,
    LEGACY,
    MODERN,
    SUPPORTED,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Request,
    RpcError,
    begins_session,
    is_marked_modern,
)
from wasmrt.interop.web import Request as WebRequest

VERSION_HEADER = "mcp-protocol-version"
SESSION_HEADER = "mcp-session-id"
_METHOD_HEADER, _NAME_HEADER = "mcp-method", "mcp-name"
_FIRST_HTTP_VERSION = "2025-03-26"
"""The version assumed for a legacy request without the header, which was added in 2025-06-18."""
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


def is_modern(request: Request, web: WebRequest) -> bool:
    """Return whether a request is modern: by its metadata, or by a header that names a modern version."""
    return is_marked_modern(request) or (web.header(VERSION_HEADER) in MODERN and not begins_session(request))


def check_modern(request: Request, web: WebRequest) -> None:
    """Check that the headers of a modern request match its body.

    Raises:
        RpcError: a header is missing, repeated, malformed, or differs from the body (-32020).
    """
    version = request.meta.get(VERSION_KEY)
    if isinstance(version, str):  # without it, the error names the missing header
        _compare(web, VERSION_HEADER, version)
    _compare(web, _METHOD_HEADER, request.method)
    if request.method == "tools/call":
        name = request.params.get("name")
        _compare(web, _NAME_HEADER, name if isinstance(name, str) else "", encoded=True)


def legacy_version(web: WebRequest) -> str:
    """Return the version of a legacy request.

    Raises:
        RpcError: the header names an unknown version.
    """
    if not web.has(VERSION_HEADER):
        return _FIRST_HTTP_VERSION
    version = web.header(VERSION_HEADER)
    if version not in LEGACY:
        data = {"supported": list(SUPPORTED), "requested": (version or "")[:64]}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return version


def _compare(web: WebRequest, name: str, expected: str, *, encoded: bool = False) -> None:
    value = web.header(name)
    if value is None:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} must be sent exactly once")
    if encoded and (found := _ENCODED.fullmatch(value)) is not None:
        try:
            value = base64.b64decode(found[1], validate=True).decode()
        except (binascii.Error, ValueError):
            raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} cannot be decoded") from None
    elif not value.isascii() or not value.isprintable():
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} contains characters that must be encoded")
    if value != expected:
        raise RpcError(HEADER_MISMATCH, f"Header mismatch: {name} differs from the body")
