"""Request headers that belong to the host: neither a guest nor a credential may set one."""

from __future__ import annotations

import re

_PUNCTUATION = re.compile(r"[^a-z0-9]")

# SECURITY: they frame the message, say where it goes, or say where it came from. A guest that could set one could
# smuggle a second request past the allowlist, have a shared front end route the first one elsewhere, or pass for
# somebody whom a server trusts by address.
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
        # Frameworks take them for the request line, and it is the request line that the allowlist was asked about.
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ]
)
_PREFIXES = ("x-forwarded-", "x-original-", "x-rewrite-")


def folded_header(name: str) -> str:
    """Return a header's name as the most careless server reads it: to some CGIs `X_Api.Key` is `X-Api-Key`."""
    return _PUNCTUATION.sub("-", name.lower())


def is_host_header(name: str) -> bool:
    """Tell whether a header is the host's, under any spelling of its name."""
    folded = folded_header(name)
    return folded in _NAMES or folded.startswith(_PREFIXES)
