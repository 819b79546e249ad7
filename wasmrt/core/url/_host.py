"""Read a host name or address into its canonical spelling.

Canonical means lower-case ASCII, A-labels for international names, dotted-quad IPv4, and compressed IPv6 without
brackets. Every other spelling that some client would resolve is refused, so that no two readers can disagree.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

_LABEL = re.compile(r"[a-z0-9_-]{1,63}\Z")
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_MAX_NAME = 253


class UnreadableError(ValueError):
    """A text has no single meaning; the message is a clause with the reason, for the caller's own error."""


def read_host(text: str, *, brackets: bool = True) -> str:
    """Return the canonical spelling of `text`. In a URL, IPv6 needs brackets; elsewhere they are optional.

    Raises:
        UnreadableError: the host is empty, encoded, international without an A-label, or a disguised number.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            raise UnreadableError("the IPv6 host has no closing bracket")
        return _read_ipv6(text[1:-1])
    if text.endswith("]"):
        raise UnreadableError("the IPv6 host has no opening bracket")
    if ":" in text and not brackets:
        return _read_ipv6(text)
    if not text:
        raise UnreadableError("the host is empty")
    if not text.isascii():
        raise UnreadableError("the host is not ASCII; write an international name as its xn-- label")
    name = text.lower()
    if _NUMERIC_LABEL.match(name.rstrip(".").rpartition(".")[2]):
        return _read_ipv4(name)
    return _read_name(name.removesuffix("."))


@lru_cache(maxsize=256)
def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address if a canonical host is one, or None for a name."""
    if not (":" in host or (host[-1:].isdigit() and _NUMERIC_LABEL.match(host.rpartition(".")[2]))):
        return None
    return ip_address(host)


def spell_ipv6(address: IPv6Address) -> str:
    """Return an IPv6 address in the form of RFC 5952, but always in hexadecimal: Python versions differ."""
    words = [f"{(int(address) >> shift) & 0xFFFF:x}" for shift in range(112, -1, -16)]
    best_start, best_length = -1, 1
    start = 0
    while start < 8:
        end = start
        while end < 8 and words[end] == "0":
            end += 1
        if end - start > best_length:
            best_start, best_length = start, end - start
        start = max(end, start + 1)
    if best_start < 0:
        return ":".join(words)
    return f"{':'.join(words[:best_start])}::{':'.join(words[best_start + best_length :])}"


def _read_ipv6(text: str) -> str:
    if "%" in text:
        raise UnreadableError("the IPv6 host has a zone id")
    if not text.isascii():
        raise UnreadableError("the host is not ASCII")
    try:
        return spell_ipv6(IPv6Address(text))
    except ValueError:
        raise UnreadableError("the host is not a valid IPv6 address") from None


def _read_ipv4(text: str) -> str:
    # WHATWG URL, host parsing: a name whose last label is a number must be an IPv4 address.
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise UnreadableError("the host is a number that is not a plain dotted IPv4 address") from None


def _read_name(name: str) -> str:
    if len(name) > _MAX_NAME:
        raise UnreadableError(f"the host is longer than {_MAX_NAME} characters")
    for label in name.split("."):
        if not _LABEL.match(label):
            raise UnreadableError("the host has a label that is empty, too long or has an invalid character")
        if label.startswith("xn--"):
            _check_a_label(label)
    return name


def _check_a_label(label: str) -> None:
    """Reject an A-label that is not the only spelling of a valid U-label. RFC 5891 4.2 and 5.4, RFC 5892, RFC 5893."""
    import idna  # its tables take 20 ms to load, and few hosts have such a label

    try:
        # Convert both ways: some releases of the library accept a second spelling of a label.
        valid = idna.alabel(idna.ulabel(label)) == label.encode("ascii")
    except (idna.IDNAError, UnicodeError):
        valid = False
    if not valid:
        raise UnreadableError("the host has an xn-- label that IDNA does not allow")
