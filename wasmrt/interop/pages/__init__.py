"""Browser pages that show pending requests, remembered answers, receipts and grants."""

from __future__ import annotations

from wasmrt.interop.pages._announced import announce_address, announced_address
from wasmrt.interop.pages._pages import OperatorPages, PageSources
from wasmrt.interop.pages._webhooks import WEBHOOKS, RoutineWebhooks, webhook_secret

__all__ = [
    "WEBHOOKS",
    "OperatorPages",
    "PageSources",
    "RoutineWebhooks",
    "announce_address",
    "announced_address",
    "webhook_secret",
]
