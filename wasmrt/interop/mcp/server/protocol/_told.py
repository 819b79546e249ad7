"""Telemetry of one request: what was asked for, and how it ended; never what it said."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container
from typing import Any

from wasmrt.core.telemetry import STATUS_CODE, TOOL_ERROR, Telemetry
from wasmrt.interop.mcp.server.protocol._caller import SUPPORTED, VERSION_KEY, Peer
from wasmrt.interop.mcp.server.protocol._wire import Request, RpcError

OTHER = "_OTHER"
"""In place of a method that is not known: it is the client's own text."""


async def told(
    telemetry: Telemetry, request: Request, peer: Peer, answer: Awaitable[dict[str, Any]], known: Container[str]
) -> dict[str, Any]:
    """Wait for the answer to a request, and tell of it.

    Raises:
        RpcError: the request cannot be answered.
    """
    method = request.method if request.method in known else OTHER
    said = request.meta.get(VERSION_KEY)
    version = said if isinstance(said, str) and said in SUPPORTED else peer.session.version
    operation = telemetry.begin_request(method=method, version=version, transport=peer.transport, meta=request.meta)
    try:
        with operation.current():
            result = await answer
    except RpcError as error:
        operation.note({STATUS_CODE: str(error.code)})
        operation.end(str(error.code))
        raise
    except BaseException as error:
        operation.end("cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__.lower())
        raise
    operation.end(TOOL_ERROR if result.get("isError") is True else None)
    return result
