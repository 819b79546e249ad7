"""The capability to send HTTP requests: the section of a capability file, decisions about requests, and sentences."""

from __future__ import annotations

from wasmrt.capabilities.kinds.http._allowlist import (
    AllowlistValidator,
    check_addresses,
    check_host,
    describe_request,
    describe_unread,
)
from wasmrt.capabilities.kinds.http._capability import HttpCapability, decide_http
from wasmrt.capabilities.kinds.http._generalize import generalize
from wasmrt.capabilities.kinds.http._reach import ANYWHERE
from wasmrt.capabilities.kinds.http._section import read_endpoint, read_entry
from wasmrt.capabilities.kinds.http._sentences import format_path

__all__ = [
    "ANYWHERE",
    "AllowlistValidator",
    "HttpCapability",
    "check_addresses",
    "check_host",
    "decide_http",
    "describe_request",
    "describe_unread",
    "format_path",
    "generalize",
    "read_endpoint",
    "read_entry",
]
