"""Check URL paths for every way in which a server might read them, without changing them."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SEPARATORS = re.compile(r"[/\\]")
_MAX_DECODINGS = 4
_U_ESCAPE = re.compile(r"%u([0-9A-Fa-f]{4})")
# Characters that compatibility decomposition keeps, but that the best-fit mapping of some code pages replaces.
_BEST_FIT = str.maketrans({"\u2044": "/", "\u2215": "/", "\u2216": "\\", "\u00a5": "\\", "\u20a9": "\\"})
_END_OF_NAME = re.compile(r"[;#?]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
DOT_SEGMENT = "a dot segment ('.' or '..', also percent-encoded)"


def is_well_escaped(path: str) -> bool:
    """Return whether every `%` starts a two-digit escape."""
    return "%" not in path or not _BROKEN_ESCAPE.search(path)


def decode(text: str) -> str:
    """Percent-decode once; broken escapes stay, and bytes outside UTF-8 become lone surrogates."""
    if "%" not in text:
        return text
    raw = re.sub(rb"%([0-9A-Fa-f]{2})", lambda m: bytes((int(m[1], 16),)), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def split_path(path: str) -> tuple[str, ...] | None:
    """Return the decoded segments of a path that starts with `/`; an encoded slash stays inside its segment.

    None if an escape is broken: readers differ on such a path, so it is not under any prefix.
    """
    if not is_well_escaped(path):
        return None
    return tuple(decode(segment) for segment in path[1:].split("/"))


@lru_cache(maxsize=512)
def _prefix_segments(prefix: str) -> tuple[str, ...]:
    return split_path(prefix) or ()


def is_under(prefix: str | None, segments: tuple[str, ...] | None) -> bool:
    """Return whether a path, given as its segments, is under `prefix`, compared by whole segments.

    `/v1/messages` covers itself and everything below it, `/v1/` only what is below.
    """
    if prefix is None or prefix == "/":
        return True
    if segments is None:
        return False
    wanted = _prefix_segments(prefix)
    if wanted[-1] == "":
        wanted = wanted[:-1]
        return len(segments) > len(wanted) and segments[: len(wanted)] == wanted
    return segments[: len(wanted)] == wanted


def ambiguity(path: str) -> str | None:
    """Return the part of a path that some server might read differently, or None if the path is unambiguous.

    SECURITY: servers differ. Some decode twice; some split at `\\` or at a decoded `%2F`; some accept overlong UTF-8,
    `%u002e` or full-width forms for the ASCII character; some end a name at NUL, `#` or `?`, encoded or not, or at
    `;parameters`; some drop NUL or blanks before they compare. A dot segment to any of them counts as one here.
    Escapes that are not UTF-8 are refused: a lenient decoder may turn them into a dot, a slash or nothing (RFC 3629,
    10).
    """
    for _ in range(_MAX_DECODINGS):
        if any(_is_dots(piece) for piece in _SEPARATORS.split(_lenient_reading(path))):
            return DOT_SEGMENT
        decoded = decode(path)
        if decoded == path:
            return None
        if _NOT_UTF8.search(decoded):
            return "percent escapes that are not UTF-8"
        path = decoded
    return "percent escapes within percent escapes"


def _lenient_reading(path: str) -> str:
    path = _U_ESCAPE.sub(lambda m: chr(int(m[1], 16)), path)
    if path.isascii():
        return path
    return normalize("NFKC", path).translate(_BEST_FIT)


def _is_dots(piece: str) -> bool:
    if "." not in piece:
        return False
    # Some readers end a name at NUL, others treat NUL as a blank.
    return any(_name(text) in (".", "..") for text in (piece, piece.partition("\0")[0]))


def _name(piece: str) -> str:
    return _END_OF_NAME.split("".join(c for c in piece if c > " "), maxsplit=1)[0]
