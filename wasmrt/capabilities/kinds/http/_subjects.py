"""Describe requests in ASCII, without parts that often contain secrets. Callers scan the result, then truncate it."""

from __future__ import annotations

import re
from collections.abc import Callable

from wasmrt.capabilities.model import METHODS
from wasmrt.core.limits import MAX_URL_BYTES
from wasmrt.core.url import ParsedUrl

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://")


def describe_request(url: ParsedUrl, method: str) -> str:
    """Return the method and URL of a request, without its query."""
    return f"{_verb(method)} {url.origin}{url.path}"


def describe_unread(url: object, method: str, redact: Callable[[str], str] = str) -> str:
    """Describe a request whose URL cannot be parsed, without the URL's query, fragment, user name and password.

    Non-printable characters are removed before `redact` is called, because they could hide a secret from `redact`.
    """
    text = url if isinstance(url, str) else ""
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    rest = text[len(scheme) :]
    shown = re.split(r"[?#]", rest, maxsplit=1)[0]
    if "@" in rest:  # a password may contain `/?#`: omit everything before the last `@`, and any query
        shown = f"...{shown[shown.rindex('@') :]}" if shown.count("@") == rest.count("@") else "..."
    text = redact("".join(c for c in f"{scheme}{shown}"[:MAX_URL_BYTES] if c.isprintable()))
    return f"{_verb(method)} {text.encode('ascii', 'backslashreplace').decode('ascii')}".rstrip()


def _verb(method: str) -> str:
    return method.upper() if isinstance(method, str) and method.upper() in METHODS else "(unknown method)"
