"""The way to a server, of which each connection takes the streams: a program, or an HTTP client for a URL."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from wasmrt.core.model import Decision
from wasmrt.core.url import parse_url
from wasmrt.interop.mcp.client._guard import MessageGuard
from wasmrt.interop.mcp.client._settings import Transport
from wasmrt.interop.mcp.client._stdio import StdioServer
from wasmrt.interop.mcp.client._streams import guarded


class Way:
    """The way to a server: a program, or an HTTP client for a URL.

    Attributes:
        denials: Requests that the gateway refused, the last ones.
    """

    def __init__(
        self, *, stdio: StdioServer | None = None, url: str = "", transport: Transport = Transport.AUTO
    ) -> None:
        self.stdio = stdio
        self.url = url
        self.http: Any = None
        self.transport = transport
        self.denials: list[Decision] = []

    @cached_property
    def address(self) -> tuple[str, int] | None:
        """The host and port of its URL; None for a program."""
        if self.stdio is not None:
            return None
        parts = parse_url(self.url)
        return parts.host, parts.port

    def streams(self, kind: Transport, guard: MessageGuard) -> Any:
        """Return the streams of a new connection, as a context manager."""
        if self.stdio is not None:
            return self.stdio.transport()
        if kind is Transport.SSE:
            return guarded(lambda: sse_client(self.url, httpx_client_factory=self._shared), guard)
        return guarded(lambda: streamable_http_client(self.url, http_client=self.http), guard)

    def _shared(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return _Borrowed(self.http)

    def on_decision(self, decision: Decision) -> None:
        """Keep the denials of the gateway."""
        if not decision.allowed:
            self.denials.append(decision)
            del self.denials[:-16]


class _Borrowed:
    """A client that is lent: leaving it does not close it."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __aenter__(self) -> Any:
        return self._client

    async def __aexit__(self, *_: object) -> None:
        return None
