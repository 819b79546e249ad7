"""Parsing and checking of URLs, hosts and addresses. Nothing here resolves a name or connects."""

from __future__ import annotations

from wasmrt.core.url._host import (
    AddressClass,
    Network,
    UnreadableError,
    classify_address,
    is_exempt,
    parse_address,
    parse_networks,
    read_host,
)
from wasmrt.core.url._url import (
    DEFAULT_PORTS,
    InvalidUrlError,
    ParsedUrl,
    find_ambiguity,
    is_plain_segment,
    parse_url,
    split_path,
)

__all__ = [
    "DEFAULT_PORTS",
    "AddressClass",
    "InvalidUrlError",
    "Network",
    "ParsedUrl",
    "UnreadableError",
    "classify_address",
    "find_ambiguity",
    "is_exempt",
    "is_plain_segment",
    "parse_address",
    "parse_networks",
    "parse_url",
    "read_host",
    "split_path",
]  # fmt: skip
