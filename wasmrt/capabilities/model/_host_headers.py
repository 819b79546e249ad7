"""Request headers that are reserved for the host: neither a guest nor a credential may set them."""

from __future__ import annotations

import re

_PUNCTUATION = re.compile(r"[^a-z0-9]")

# SECURITY: these headers frame the message, or state its destination or origin. If a guest could set them, it could
# smuggle a second request past the allowlist, make a shared front end route the request to another server, or
# impersonate a client that a server trusts by its address.
_NAMES = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "http2-settings",
        "proxy-authorization",
        "proxy-connection",
        "forwarded",
        "x-forwarded",
        "x-host",
        "x-http-host-override",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "client-ip",
        # Frameworks use these headers instead of the method in the request line, which the allowlist checks.
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ]
)
_PREFIXES = ("x-forwarded-", "x-original-", "x-rewrite-")


def folded_header(name: str) -> str:
    """Return the form of a header name in which lenient servers compare it: some read `X_Api.Key` as `x-api-key`."""
    return _PUNCTUATION.sub("-", name.lower())


def is_host_header(name: str) -> bool:
    """Return whether a header is reserved for the host, in any spelling."""
    folded = folded_header(name)
    return folded in _NAMES or folded.startswith(_PREFIXES)
