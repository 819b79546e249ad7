"""The web servers: of the endpoint with additional local pages, and of the metrics, which require no token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from wasmrt.interop.mcp.server.http._endpoint import Endpoint
from wasmrt.interop.mcp.server.http._entrance import Entrance
from wasmrt.interop.mcp.server.protocol import MAX_MESSAGE_BYTES, Server
from wasmrt.interop.web import Gate, Handler, Request, Response, WebBounds, WebServer, plain

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


class MountedHandler(NamedTuple):
    """A handler for a second path, which accepts no bearer tokens."""

    base: str
    """The path prefix; begins and ends with `/`."""
    gate: Gate
    handler: Handler


async def serve_http(
    server: Server,
    entrance: Entrance,
    *,
    host: str,
    port: int,
    ended: asyncio.Event,
    started: Callable[[str], None],
    mounted: MountedHandler | None = None,
    origin: str | None = None,
) -> None:
    """Serve over HTTP until `ended` is set.

    Args:
        server: Answers the messages.
        entrance: Authenticates requests.
        host: The address to listen at.
        port: The port; 0 for any free port.
        ended: Set to stop serving.
        started: Called with the server's own address; the endpoint is at `PATH` below it.
        mounted: An additional handler, for example for pages.
        origin: An additional origin of the endpoint only, such as that of a TLS proxy.

    Raises:
        ConfigurationError: the address is not a loopback address, or it is in use.
    """
    endpoint = Endpoint(server, entrance)
    public = (origin or "").partition("://")[2]

    def is_mounted(web: Request) -> bool:
        # SECURITY: pages for the local user must not be reachable under the public name.
        return (
            mounted is not None and web.path.startswith(mounted.base) and (web.header("host") or "").lower() != public
        )

    async def gate(web: Request) -> Response | None:
        return await (mounted.gate(web) if mounted is not None and is_mounted(web) else endpoint.gate(web))

    async def handle(web: Request) -> Response:
        return await (mounted.handler(web) if mounted is not None and is_mounted(web) else endpoint.handle(web))

    bounds = WebBounds(body_bytes=MAX_MESSAGE_BYTES)
    names = () if origin is None else (origin,)
    async with WebServer(
        handle, host=host, port=port, gate=gate, bounds=bounds, origins=names, on_refusal=endpoint.count_refused_request
    ) as web:
        started(web.origins.all[len(names)])
        try:
            await ended.wait()
        finally:  # a signal cancels the wait
            server.close()
