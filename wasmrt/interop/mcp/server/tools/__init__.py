"""The tools of a registry as offered to MCP clients: the offer, the calls, and their approvals."""

from __future__ import annotations

from wasmrt.interop.mcp.server.tools._approver import PagesOf, ServedApprover
from wasmrt.interop.mcp.server.tools._offer import Offer, served_name
from wasmrt.interop.mcp.server.tools._toolbox import ServedTools, watch

__all__ = ["Offer", "PagesOf", "ServedApprover", "ServedTools", "served_name", "watch"]
