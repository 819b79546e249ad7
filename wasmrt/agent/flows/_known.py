"""Values that the operator trusts: patterns of destinations, and the values of trusted results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wasmrt.agent.flows._destinations import Destination, Kind
from wasmrt.agent.flows._forms import parse_number
from wasmrt.core.normal_form import normalize

_WEB_HOST = re.compile(r"(?:(?:https?|wss?)://)?([\w.-]+)(?::\d{1,5})?(?:[/?#]\S*)?")
_AMOUNT = b"\0#"
"""The prefix of the mark of a known amount."""
_LOCAL_PART = re.compile(r"[\w.+'=&~-]{1,64}")
"""The part of an email address before the @ sign.

Characters that old servers interpret as a route to another host are excluded (`eve%evil.example@example.com`).
"""


def matches_pattern(destination: Destination, pattern: str) -> bool:
    """Return whether an operator's pattern matches a destination: an address, `*@DOMAIN`, a host or `*.HOST`."""
    if not str(destination.value).isprintable():
        return False  # contains a line break or an invisible character
    value = str(destination.value).strip().lower()
    if destination.kind is Kind.URL:
        found = _WEB_HOST.fullmatch(value)
        if found is None or "@" in value or "\\" in value:
            return False
        value = found[1]
        if pattern.startswith("*."):
            return value.endswith(pattern[1:].lower())
    if pattern.startswith("*@") and destination.kind is Kind.ADDRESS:
        local, _, domain = value.partition("@")
        return _LOCAL_PART.fullmatch(local) is not None and domain == pattern[2:].lower()
    return value == pattern.lower()


def complete_values(result: Any) -> Iterable[str]:
    """Return the complete values in a result. If the result is a single string, return its words.

    SECURITY: parts of longer values are not returned. A destination inside a longer value is therefore not trusted.
    """
    return (word.strip(".,;:<>()\"'") for word in result.split()) if isinstance(result, str) else flow_texts(result)


def normalize_value(value: object) -> bytes:
    """Return a value without differences in case, Unicode normalization and surrounding blanks."""
    return normalize("NFC", str(value)).casefold().strip().encode("utf-8", "replace")


def known_mark(value: object) -> bytes:
    """Return the mark of a known value. The mark of a number can match only amounts."""
    if isinstance(value, (int, float)) and (found := parse_number(value)) is not None:
        return _AMOUNT + found.encode()
    return normalize_value(value)


def known_marks(destination: Destination) -> tuple[bytes, ...]:
    """Return the marks of known values that make a destination known."""
    found = parse_number(destination.value) if destination.kind is Kind.AMOUNT else None
    whole = normalize_value(destination.value)
    return (whole,) if found is None else (whole, _AMOUNT + found.encode())


def flow_texts(value: Any) -> Iterator[str]:
    """Yield every string and number in a result, including the names of object members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from flow_texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from flow_texts(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
