"""Describes requests for people and logs: in plain ASCII, without what may be a secret. Cut once they were scanned."""

from __future__ import annotations

import re
from collections.abc import Callable

from wasmrt.capabilities.model import METHODS
from wasmrt.core.limits import MAX_URL_BYTES
from wasmrt.core.url import ParsedUrl

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,15}://")


def describe_request(url: ParsedUrl, method: str) -> str:
    """Return a request without its query."""
    return f"{_verb(method)} {url.origin}{url.path}"


def describe_unread(url: object, method: str, redact: Callable[[str], str] = str) -> str:
    """Return a request whose URL could not be read, in plain ASCII: no query, fragment, user name or password.

    What cannot be seen goes before `redact` looks, so that nothing hides a secret from it by standing in between.
    """
    text = url if isinstance(url, str) else ""
    scheme = found[0] if (found := _SCHEME.match(text)) else ""
    rest = text[len(scheme) :]
    shown = re.split(r"[?#]", rest, maxsplit=1)[0]
    if "@" in rest:  # a password may hold any of `/?#`: nothing before the last `@` is shown, nor a query behind one
        shown = f"...{shown[shown.rindex('@') :]}" if shown.count("@") == rest.count("@") else "..."
    text = redact("".join(c for c in f"{scheme}{shown}"[:MAX_URL_BYTES] if c.isprintable()))
    return f"{_verb(method)} {text.encode('ascii', 'backslashreplace').decode('ascii')}".rstrip()


def _verb(method: str) -> str:
    return method.upper() if isinstance(method, str) and method.upper() in METHODS else "(unknown method)"
