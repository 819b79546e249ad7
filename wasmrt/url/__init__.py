"""URLs and addresses as they are judged and sent: one parser, one host rule, one table of networks. Pure."""

from __future__ import annotations

from wasmrt.url._addresses import (
    AddressClass,
    Network,
    classify_address,
    is_exempt,
    parse_networks,
)
from wasmrt.url._url import (
    DEFAULT_PORTS,
    InvalidUrlError,
    ParsedUrl,
    parse_url,
)

__all__ = [
    "DEFAULT_PORTS",
    "AddressClass",
    "InvalidUrlError",
    "Network",
    "ParsedUrl",
    "classify_address",
    "is_exempt",
    "parse_networks",
    "parse_url",
]
