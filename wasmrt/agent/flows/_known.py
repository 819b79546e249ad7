"""Compare destinations with the patterns of destinations that the operator trusts."""

from __future__ import annotations

import re

from wasmrt.agent.flows._destinations import Destination, Kind

_WEB_HOST = re.compile(r"(?:(?:https?|wss?)://)?([\w.-]+)(?::\d{1,5})?(?:[/?#]\S*)?")
_PLAIN_LINK = re.compile(r"(?:https?://)?[a-zA-Z0-9.-]{1,60}(?:/[a-zA-Z0-9._~/-]{0,40})?")
_LOCAL_PART = re.compile(r"[\w.+'=&~-]{1,64}")
"""The part of an email address before the @ sign.

Characters that old servers interpret as a route to another host are excluded (`eve%evil.example@example.com`).
"""


def is_plain_link(link: Destination) -> bool:
    """Return whether a link has no query and is short, so that it can carry only little data."""
    return _PLAIN_LINK.fullmatch(link.value) is not None


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
