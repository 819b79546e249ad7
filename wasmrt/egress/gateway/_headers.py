"""Check and write request headers, and find parameters that override the request's method."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from urllib.parse import unquote_plus

from wasmrt.capabilities import AllowlistValidator, fold_header, is_host_header
from wasmrt.core.limits import MAX_HEADER_BYTES, MAX_HEADERS
from wasmrt.core.model import Decision
from wasmrt.core.url import ParsedUrl
from wasmrt.egress.gateway._codings import ACCEPT_ENCODING

Headers = tuple[tuple[str, str], ...]

# RFC 9110 5.6.2 and 5.5. White space at the ends is not part of a value.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}\Z")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*\Z")

# RFC 9110 14.2 and 13.1.5. Apache httpd treats the last one as Range, for old browsers.
_PARTIAL = frozenset({"range", "if-range", "request-range"})
_SENSITIVE_PARTS = (
    "authen", "authoriz", "oauth", "token", "secret", "credential", "password", "cookie", "api-key", "apikey",
    "session", "csrf", "xsrf",
)  # fmt: skip
# `x-auth-method: token` names a method, not a credential. A name with one of the parts above is sensitive nevertheless.
_METHOD_WORDS = frozenset({"method", "methods", "scheme", "schemes", "type", "types"})
# Headers that describe the transferred bytes. The guest gets the decoded bytes instead.
FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "trailer"})


def find_header_problem(headers: Headers, body_bytes: int, owned_by_injector: Iterable[str]) -> str | None:
    """Return the reason why a guest's headers cannot be sent, or None. The text never quotes a value."""
    if len(headers) > MAX_HEADERS:
        return f"a request may have at most {MAX_HEADERS} headers"
    if header_bytes(headers) > MAX_HEADER_BYTES:
        return f"the headers of a request may have at most {MAX_HEADER_BYTES} bytes"
    owned = {fold_header(name) for name in owned_by_injector}
    for name, value in headers:
        if not _TOKEN.match(name):
            return "a header name contains an invalid character"
        if not _VALUE.match(value):
            return f"the value of the header {name} contains a control character"
        folded = fold_header(name)
        if folded in owned:
            return f"the header {name} is set from a secret and cannot be set by the tool"
        if folded == "content-length" and value.strip() == str(body_bytes):
            continue
        if is_host_header(folded):
            return f"the header {name} is set by the host"
    return None


def partial_header(headers: Headers) -> str | None:
    """Return the name of a header that requests a partial response, or None."""
    return next((name for name, _ in headers if fold_header(name) in _PARTIAL), None)


def remove_headers(headers: Headers, names: Iterable[str]) -> Headers:
    """Return `headers` without the headers named in `names`. The case of the letters does not matter."""
    dropped = {fold_header(name) for name in names}
    return tuple((name, value) for name, value in headers if fold_header(name) not in dropped)


def wire_headers(
    headers: Headers, *, authority: str, method: str, body: bytes | None, identity: bool = False
) -> list[tuple[bytes, bytes]]:
    """Build all headers of a request, in the order of sending. `identity` requests a response without content coding.

    Content-Length and Accept-Encoding are always set by the gateway, which also decodes responses.
    """
    wire = [(b"Host", authority.encode()), (b"Accept-Encoding", b"identity" if identity else ACCEPT_ENCODING.encode())]
    names = {fold_header(name) for name, _ in headers}
    if "user-agent" not in names:
        wire.append((b"User-Agent", b"wasmrt"))
    if "accept" not in names:
        wire.append((b"Accept", b"*/*"))
    for name, value in headers:
        if fold_header(name) not in ("content-length", "accept-encoding"):
            wire.append((name.encode(), value.strip(" \t").encode("utf-8", "replace")))
    # RFC 9110 8.6: methods with a defined meaning for content send a length even if it is 0. Several APIs respond with
    # 411 if it is missing.
    if body or method in ("POST", "PUT", "PATCH", "DELETE"):
        wire.append((b"Content-Length", str(len(body or b"")).encode()))
    return wire


def header_bytes(headers: Iterable[tuple[str, str]] | Iterable[tuple[bytes, bytes]]) -> int:
    """Return the approximate size of headers in bytes: their names and values, and four bytes for each header."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def visible_headers(
    headers: Iterable[tuple[bytes, bytes]], *, bodyless: bool = False, credentials: bool = False
) -> Headers:
    """Return the headers of a response without framing headers.

    Login headers are removed too, unless `credentials` is true.
    A response to `HEAD` (`bodyless`) keeps the headers with the length and coding of the body, because they are the
    requested information.
    """
    hidden = FRAMING - {"content-length", "content-encoding"} if bodyless else FRAMING
    kept = []
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1")
        if (credentials or not is_sensitive(name)) and name.lower() not in hidden:
            kept.append((name, raw_value.decode("latin-1")))
    return tuple(kept)


def is_sensitive(name: str) -> bool:
    """Return whether a header's name indicates credentials; guests do not see such response headers.

    In doubt, a name counts as sensitive: `WWW-Authenticate` may contain a part of a handshake (RFC 4559 5), and
    `X-Vendor-Auth` may contain a token.
    """
    lowered = fold_header(name)
    if "ratelimit" in lowered or "rate-limit" in lowered:
        return False  # `x-ratelimit-remaining-tokens` counts a language model's tokens
    words = lowered.split("-")
    return ("auth" in words and words[-1] not in _METHOD_WORDS) or any(part in lowered for part in _SENSITIVE_PARTS)


_PADDING = "\0+ \t\n\v\f\r"
_OVERRIDE = "_method"
_OTHERS = ("GET", "PUT", "PATCH", "DELETE")
_FORM = "application/x-www-form-urlencoded"
_PART_NAME = re.compile(rb"""(?i)[;\s]name\*?\s*=\s*(?:[\w-]*'[\w-]*')?"?([^";\r\n]{0,64})""")


def query_names(query: str | None) -> list[str]:
    """Return the names of a query's parameters. Split at both `&` and `;`, because some servers do."""
    return [unquote_plus(pair.partition("=")[0]) for pair in re.split(r"[&;]", query or "")]


def may_be_read_as(written: str, name: str) -> bool:
    """Return whether some server reads the parameter `written` as `name`.

    SECURITY: PHP drops leading white space, ends a name at NUL, converts `.`, a blank and a lone `[` to `_`, and reads
    `name[]` and `name[x]` into `name`. Other servers ignore case, or drop only the NUL.
    """
    wanted = _normalize(name)
    for text in (written.strip(_PADDING).partition("\0")[0], written.replace("\0", "")):
        reading = _normalize(text)
        if reading == wanted or reading.startswith(wanted + "[") or reading.replace("[", "_", 1) == wanted:
            return True
    return False


def check_method_override(
    allowlist: AllowlistValidator, url: ParsedUrl, method: str, headers: Headers, body: bytes | None
) -> Decision | None:
    """Return the denial of a method that the parameter `_method` of a POST request may select, or None.

    Rack, Laravel, Symfony and others treat the value of `_method`, in the query or in a form, as the request's method.
    The allowlist has checked only the real method. If it allows every method for this URL, `_method` is allowed too.
    """
    if method.upper() != "POST":
        return None
    denials = (allowlist.check(url, other) for other in _OTHERS)
    denial = next((denial for denial in denials if not denial.allowed), None)
    if denial is None or not any(may_be_read_as(name, _OVERRIDE) for name in _iter_parameter_names(url, headers, body)):
        return None
    return denial


def _iter_parameter_names(url: ParsedUrl, headers: Headers, body: bytes | None) -> Iterator[str]:
    yield from query_names(url.query)
    kinds = [value.lower() for name, value in headers if name.lower() == "content-type"]
    form, parts = not kinds or any(_FORM in kind for kind in kinds), any("multipart/" in kind for kind in kinds)
    # Without an equals sign, no parameter has a value.
    if not body or not (form or parts) or b"=" not in body or (b"%" not in body and b"method" not in body.lower()):
        return
    if form:
        yield from query_names(body.decode("latin-1"))
    if parts:
        yield from (name.decode("latin-1") for name in _PART_NAME.findall(body))


def _normalize(name: str) -> str:
    return name.strip(_PADDING).lower().replace(".", "_").replace(" ", "_")
