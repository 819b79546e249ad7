"""The only URL parser: the value that it returns is both checked and sent, so no text is parsed twice.

Paths are checked for every way in which a server might read them, without changing them.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import quote

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_URL_BYTES
from wasmrt.core.normal_form import normalize
from wasmrt.core.url._host import UnreadableError, parse_address, read_host

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SEPARATORS = re.compile(r"[/\\]")
_MAX_DECODINGS = 4
_U_ESCAPE = re.compile(r"%u([0-9A-Fa-f]{4})")
# Characters that compatibility decomposition keeps, but that the best-fit mapping of some code pages replaces.
_BEST_FIT = str.maketrans({"\u2044": "/", "\u2215": "/", "\u2216": "\\", "\u00a5": "\\", "\u20a9": "\\"})
_END_OF_NAME = re.compile(r"[;#?]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_ENDS_SEGMENT = re.compile(r"[\x00-\x1f\x7f/\\#?]")
DOT_SEGMENT = "a dot segment ('.' or '..', also percent-encoded)"


def decode(text: str) -> str:
    """Percent-decode once; broken escapes stay, and bytes outside UTF-8 become lone surrogates."""
    if "%" not in text:
        return text
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes((int(m[1], 16),)), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def split_path(path: str) -> tuple[str, ...]:
    """Return the decoded segments of a path that starts with `/`; an encoded slash stays inside its segment."""
    return tuple(decode(segment) for segment in path[1:].split("/"))


def find_ambiguity(path: str) -> str | None:
    """Return the part of a path that some server might read differently, or None if the path is unambiguous.

    SECURITY: servers differ. Some decode twice; some split at `\\` or at a decoded `%2F`; some accept overlong UTF-8,
    `%u002e` or full-width forms for the ASCII character; some end a name at NUL, `#` or `?`, encoded or not, or at
    `;parameters`; some drop NUL or blanks before they compare. A dot segment to any of them counts as one here.
    Escapes that are not UTF-8 are refused: a lenient decoder may turn them into a dot, a slash or nothing (RFC 3629,
    10). So is a `%` without two digits, which servers drop, keep or read with the next characters (RFC 3986, 2.1).
    """
    if _BROKEN_ESCAPE.search(path):
        return "an invalid percent escape"
    for _ in range(_MAX_DECODINGS):
        if any(_is_dots(piece) for piece in _SEPARATORS.split(_read_leniently(path))):
            return DOT_SEGMENT
        decoded = decode(path)
        if decoded == path:
            return None
        if _NOT_UTF8.search(decoded):
            return "percent escapes that are not UTF-8"
        path = decoded
    return "percent escapes within percent escapes"


def is_plain_segment(segment: str) -> bool:
    """Return whether every server reads a decoded segment as one segment with a name that is not empty or only dots.

    SECURITY: the servers are those of `find_ambiguity`. A segment that some server splits, ends or drops would move the
    segments after it to other positions.
    """
    for _ in range(_MAX_DECODINGS):
        read = _read_leniently(segment)
        if _ENDS_SEGMENT.search(read) or not _read_name(read).strip("."):
            return False
        decoded = decode(segment)
        if decoded == segment:
            return True
        segment = decoded
    return False


def _read_leniently(path: str) -> str:
    path = _U_ESCAPE.sub(lambda m: chr(int(m[1], 16)), path)
    if path.isascii():
        return path
    return normalize("NFKC", path).translate(_BEST_FIT)


def _is_dots(piece: str) -> bool:
    if "." not in piece:
        return False
    # Some readers end a name at NUL, others treat NUL as a blank.
    return any(_read_name(text) in (".", "..") for text in (piece, piece.partition("\0")[0]))


def _read_name(piece: str) -> str:
    return _END_OF_NAME.split("".join(c for c in piece if c > " "), maxsplit=1)[0]


# Visible ASCII without the backslash, which some clients treat as a slash. `( ) , | { } [ ]` are allowed.
_PLAIN = re.compile(r"[\x21-\x5b\x5d-\x7e]+\Z")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]+)(/[^?#]*)?(\?[^#]*)?(#.*)?\Z")
# `https://a#@b` and `https://a?@b`: readers that look for the user name first connect to host b.
_LATE_USER = re.compile(r"[^/?#]*[?#][^/=]*@")
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z")

DEFAULT_PORTS = {"https": 443, "http": 80}


class InvalidUrlError(WasmrtError):
    """A URL is ambiguous or must not be sent; the message has the reason, and never quotes the URL."""

    code = "invalid-url"

    def __init__(self, message: str, *, hint: str = "write it plainly, like https://api.example.com/v1/items") -> None:
        super().__init__(message, hint=hint)


class ParsedUrl(NamedTuple):
    """A URL in parts, from `parse_url`. The fragment is removed; everything else is unchanged."""

    scheme: str
    """`https` or `http`."""
    host: str
    """Lower-case ASCII name, dotted IPv4, or compressed IPv6 without brackets."""
    port: int
    path: str
    """As written; `/` if the URL has no path."""
    query: str | None
    """As written, without its `?`; None if the URL has no query."""
    segments: tuple[str, ...]
    """The path's decoded segments, for checks only."""

    @property
    def target(self) -> str:
        """Path and query, as in the request line (RFC 9112, 3.2.1)."""
        return self.path if self.query is None else f"{self.path}?{self.query}"

    @property
    def authority(self) -> str:
        """Host and port, as in the Host header; the scheme's default port is omitted."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority: `https://api.example.com`."""
        return f"{self.scheme}://{self.authority}"

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The host's address, or None if the host is a name."""
        return parse_address(self.host)

    def with_query_param(self, name: str, value: str) -> ParsedUrl:
        """Return the URL with an additional query parameter, percent-encoded."""
        pair = f"{quote(name, safe='')}={quote(value, safe='')}"
        return self._replace(query=f"{self.query}&{pair}" if self.query else pair)

    def with_placeholder(self, placeholder: str, value: str) -> ParsedUrl:
        """Return the URL with `{placeholder}` in its path replaced by `value`, escaped as one segment.

        Raises:
            InvalidUrlError: the value would create a dot segment.
        """
        path = self.path.replace(f"{{{placeholder}}}", quote(value, safe=""))
        if find_ambiguity(path) is not None:
            raise InvalidUrlError("the credential cannot be part of a URL path")
        return self._replace(path=path, segments=split_path(path))

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"


def parse_url(text: object) -> ParsedUrl:
    """Parse an absolute http or https URL that all readers understand alike.

    Refused are characters other than visible ASCII, backslashes, userinfo, a missing or ambiguous host (numbers that
    are not a plain dotted IPv4 address, zone ids, percent escapes, names outside IDNA), ports that are empty, zero or
    padded, broken percent escapes in the path, and dot segments in any encoding. They are refused and not normalized,
    so that the URL that is checked is the URL that is sent, byte for byte.

    Raises:
        InvalidUrlError: the URL is refused; the message has the reason.
    """
    if not isinstance(text, str) or not text:
        raise InvalidUrlError("the URL is empty")
    if len(text) > MAX_URL_BYTES:
        raise InvalidUrlError(f"the URL is longer than {MAX_URL_BYTES} bytes")
    if not _PLAIN.match(text):
        raise InvalidUrlError(
            "the URL contains white space, a control character, a backslash or a character outside ASCII",
            hint="percent-encode it",
        )
    found = _URL.match(text)
    if not found:
        raise InvalidUrlError("the URL is not of the form https://host/path")
    scheme = found[1].lower()
    if scheme not in DEFAULT_PORTS:
        raise InvalidUrlError("the URL's scheme is neither https nor http")
    if _LATE_USER.match(text, found.start(2)):
        raise InvalidUrlError("the URL contains an '@' that some readers treat as the end of a user name")
    host, port = _read_authority(found[2], scheme)
    path = found[3] or "/"
    if (unclear := find_ambiguity(path)) is not None:
        raise InvalidUrlError(f"the URL's path contains {unclear}")
    query = found[4]
    return ParsedUrl(scheme, host, port, path, None if query is None else query[1:], split_path(path))


def _read_authority(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise InvalidUrlError("the URL contains a user name or password")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, colon, port = authority, "", ""
    if colon and not (_PORT.match(port) and int(port) < 65536):
        raise InvalidUrlError("the URL's port is not a plain number from 1 to 65535")
    try:
        return read_host(host), int(port) if colon else DEFAULT_PORTS[scheme]
    except UnreadableError as problem:
        raise InvalidUrlError(f"{problem}") from None
