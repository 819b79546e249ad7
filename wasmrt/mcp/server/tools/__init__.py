"""The tools of a registry as clients of the protocol get them: the offer, the calls, and who approves them."""

from __future__ import annotations

from wasmrt.mcp.server.tools._approver import PagesOf, ServedApprover
from wasmrt.mcp.server.tools._offer import Offer, served_name
from wasmrt.mcp.server.tools._toolbox import ServedTools
from wasmrt.mcp.server.tools._watch import watch

__all__ = ["Offer", "PagesOf", "ServedApprover", "ServedTools", "served_name", "watch"]
