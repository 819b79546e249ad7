"""Browser pages that show pending requests, remembered answers, receipts and grants."""

from __future__ import annotations

from wasmrt.interop.pages._announced import announce_address, announced_address
from wasmrt.interop.pages._pages import OperatorPages, PageSources

__all__ = ["OperatorPages", "PageSources", "announce_address", "announced_address"]
