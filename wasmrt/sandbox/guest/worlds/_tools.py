"""Other tools by alias: the guest never learns what stands behind one."""

from __future__ import annotations

from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.requests import InvokeTool
from wasmrt.sandbox.guest.worlds._failure import as_failure, as_text, result


def agent_invoke(ctx: GuestCall, alias: str, params: str) -> Ok | Err:
    """near:agent's `tool-invoke`."""
    return result(as_text, ctx.services.handle, InvokeTool(alias, params))


def invoke(ctx: GuestCall, alias: str, params: str) -> Ok | Err:
    """wasmrt:tool's `tools.invoke`."""
    return result(as_failure, ctx.services.handle, InvokeTool(alias, params))
