"""The capability to send HTTP requests: the section of a capability file, decisions about requests, and sentences."""

from __future__ import annotations

from wasmrt.capabilities.kinds.http._allowlist import AllowlistValidator
from wasmrt.capabilities.kinds.http._capability import HttpCapability, decide_http
from wasmrt.capabilities.kinds.http._hosts import check_addresses, check_host
from wasmrt.capabilities.kinds.http._reach import ANYWHERE
from wasmrt.capabilities.kinds.http._section import MAX_HTTP_TIMEOUT_SECONDS, read_endpoint, read_entry
from wasmrt.capabilities.kinds.http._subjects import describe_request, describe_unread

__all__ = [
    "ANYWHERE",
    "MAX_HTTP_TIMEOUT_SECONDS",
    "AllowlistValidator",
    "HttpCapability",
    "check_addresses",
    "check_host",
    "decide_http",
    "describe_request",
    "describe_unread",
    "read_endpoint",
    "read_entry",
]
