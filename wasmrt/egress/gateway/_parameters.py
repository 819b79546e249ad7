"""Parameters of a request as careless servers read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_plus

from wasmrt.capabilities import AllowlistValidator
from wasmrt.core.model import Decision
from wasmrt.core.url import ParsedUrl
from wasmrt.egress.gateway._headers import Headers

_PADDING = "\0+ \t\n\v\f\r"
_OVERRIDE = "_method"
_OTHERS = ("GET", "PUT", "PATCH", "DELETE")
_FORM = "application/x-www-form-urlencoded"
_PART_NAME = re.compile(rb"""(?i)[;\s]name\*?\s*=\s*(?:[\w-]*'[\w-]*')?"?([^";\r\n]{0,64})""")


def query_names(query: str | None) -> list[str]:
    """Return the names of a query's parameters. Servers disagree on `;` as a separator."""
    return [unquote_plus(pair.partition("=")[0]) for pair in re.split(r"[&;]", query or "")]


def may_be_read_as(written: str, name: str) -> bool:
    """Tell whether some server takes the parameter `written` for `name`.

    SECURITY: PHP drops white space in front, ends a name at NUL, makes `_` of `.`, of a blank and of a lone `[`, and
    reads `name[]` and `name[x]` into `name`; others ignore case, or drop the NUL alone.
    """
    wanted = _folded(name)
    for text in (written.strip(_PADDING).partition("\0")[0], written.replace("\0", "")):
        reading = _folded(text)
        if reading == wanted or reading.startswith(wanted + "[") or reading.replace("[", "_", 1) == wanted:
            return True
    return False


def overridden_method(
    allowlist: AllowlistValidator, url: ParsedUrl, method: str, headers: Headers, body: bytes | None
) -> Decision | None:
    """Return the denial of a method that a parameter of a POST may stand for; None where there is none.

    Rack, Laravel, Symfony and others take `_method`, in the query or in a form, for the method of the request; but
    the allowlist checked the real one. Where it allows every method, the parameter may hold anything.
    """
    if method.upper() != "POST":
        return None
    denials = (allowlist.check(url, other) for other in _OTHERS)
    denial = next((denial for denial in denials if not denial.allowed), None)
    if denial is None or not any(may_be_read_as(name, _OVERRIDE) for name in _names(url, headers, body)):
        return None
    return denial


def _names(url: ParsedUrl, headers: Headers, body: bytes | None) -> Iterator[str]:
    yield from query_names(url.query)
    kinds = [value.lower() for name, value in headers if name.lower() == "content-type"]
    if not body or (b"%" not in body and b"method" not in body.lower()):
        return
    if not kinds or any(_FORM in kind for kind in kinds):
        yield from query_names(body.decode("latin-1"))
    if any("multipart/" in kind for kind in kinds):
        yield from (name.decode("latin-1") for name in _PART_NAME.findall(body))


def _folded(name: str) -> str:
    return name.strip(_PADDING).lower().replace(".", "_").replace(" ", "_")
