"""Headers of a response that nobody has to think of."""

from __future__ import annotations

from email.utils import formatdate

from wasmrt.interop.web._message import Response

_FRAMING = ("connection", "content-length", "keep-alive", "transfer-encoding", "upgrade")
_DEFAULTS = (
    ("content-security-policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # `no-referrer` would have a browser send `Origin: null` with the forms of our own pages (Fetch, 3.2).
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)


def response_headers(response: Response) -> list[tuple[str, str]]:
    """Return a response's headers and the defaults that it does not set, without those of framing.

    SECURITY: where nothing else is said, a response is for the origin that asked: not kept, not framed, not sniffed,
    and nothing in it runs or loads anything.
    """
    headers = [(name.lower(), value) for name, value in response.headers]
    if wrong := [name for name, _ in headers if name in _FRAMING]:
        raise ValueError(f"{wrong[0]} is the server's to set")
    known = {name for name, _ in headers}
    headers += [(name, value) for name, value in _DEFAULTS if name not in known]
    headers.append(("date", formatdate(usegmt=True)))  # RFC 9110, 6.6.1
    return headers
