"""The address of the metrics, apart from the endpoint, because it requires no token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wasmrt.interop.web import Request, Response, WebServer, plain

METRICS_PATH = "/metrics"
_TEXT = (("content-type", "text/plain; version=0.0.4; charset=utf-8"),)


def metrics_server(write: Callable[[], bytes], *, host: str, port: int) -> WebServer:
    """Return a server of the metrics that `write` returns. `write` runs in a thread.

    Raises:
        ConfigurationError: the address is not a loopback address.
    """

    async def handle(web: Request) -> Response:
        if web.path != METRICS_PATH:
            return plain(404)
        if web.method not in ("GET", "HEAD"):
            return plain(405, headers=(("allow", "GET, HEAD"),))
        return Response(headers=_TEXT, body=await asyncio.to_thread(write))

    return WebServer(handle, host=host, port=port)
