"""Decisions: one use of one capability, allowed or refused with a rule and the step that would change it."""

from __future__ import annotations

from wasmrt.capabilities.decide._allowlist import AllowlistValidator
from wasmrt.capabilities.decide._decide import (
    SOME_TOOL,
    decide_http,
    decide_secret,
    decide_tool,
    decide_workspace,
    decide_workspace_write,
)
from wasmrt.capabilities.decide._hosts import check_addresses, check_host, internal_host
from wasmrt.capabilities.decide._subjects import describe_request, describe_unread

__all__ = [
    "SOME_TOOL",
    "AllowlistValidator",
    "check_addresses",
    "check_host",
    "decide_http",
    "decide_secret",
    "decide_tool",
    "decide_workspace",
    "decide_workspace_write",
    "describe_request",
    "describe_unread",
    "internal_host",
]
