"""Transports to a server: a confined program, or an HTTP client that sends every request through the gateway."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from wasmrt.capabilities import (
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    RateLimitConfig,
)
from wasmrt.core.errors import SecretNotFoundError
from wasmrt.core.limits import MAX_MCP_LIST_BYTES, MAX_MCP_MESSAGE_BYTES
from wasmrt.core.model import Decision
from wasmrt.core.url import parse_url
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.gateway.transports import AsyncGuardedTransport
from wasmrt.egress.secrets import SecretsStore, UserSecrets
from wasmrt.interop.mcp.client._errors import NO_STORE_HINT
from wasmrt.interop.mcp.client._guard import MessageGuard, guard_streams, make_protocol_error
from wasmrt.interop.mcp.client._settings import McpServerConfig, Transport
from wasmrt.interop.mcp.client._stdio import StdioServer

_LOOPBACK_NETWORKS = ("127.0.0.0/8", "::1/128")
_STREAM_SECONDS = 3600.0
"""Seconds for one stream; each call also has its own deadline."""
_MARK_COSTS = {b"[": 900, b"{": 500, b":": 400, b'"': 150, b",": 100, b"": 4}
"""Costs of each of these characters, and of each byte (the empty key), in a message.

A cost is the nanoseconds for which the SDK's parser stops other threads. Names, strings and bytes also take memory, so
their costs are higher than their time.
"""
_LONG_NUMBER = re.compile(rb"\d{15}")
_LONG_NUMBER_COST, _NOT_ASCII_COST = 400, 10
_ASCII = bytes(range(128))
_MAX_COST = 40_000_000
_DIGITS = re.compile(rb"\d{400}")
_MAX_DIGIT_RUNS = 500
"""Runs of 400 digits in one message; the time to read and write an integer grows with the square of its length."""
_WIDE = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")
_MAX_WIDE_BYTES = 1_500_000
"""Size limit of a message with a character beyond U+FFFF: Python stores its strings with four bytes per character."""
_FRAMING_BYTES = 64 * 1024
"""Bytes of an event that are not its message, such as the names of the event's fields."""
_RATE = RateLimitConfig(requests_per_minute=600, requests_per_hour=20_000)


def make_endpoint(url: str) -> EndpointPattern:
    """Return the allowlist entry for the origin of a URL.

    Raises:
        InvalidUrlError: the URL is ambiguous or malformed.
    """
    parsed = parse_url(url)
    return EndpointPattern(parsed.host, ports=(parsed.port,), schemes=(parsed.scheme,))


def make_capability(server: McpServerConfig, auth_origins: Iterable[str] = ()) -> HttpCapability:
    """Return the requests that a client of this server may send."""
    own = make_endpoint(server.url)
    credentials: tuple[CredentialMapping, ...] = ()
    if server.bearer and not server.is_loopback:
        credentials = (
            CredentialMapping(
                secret_name=server.bearer, location=CredentialLocation.bearer(), host_patterns=(own.host_pattern,)
            ),
        )
    return HttpCapability(
        allowlist=(own, *(make_endpoint(origin) for origin in auth_origins)),
        credentials=credentials,
        rate_limit=_RATE,
        max_request_bytes=MAX_MCP_MESSAGE_BYTES,
        max_response_bytes=2 * MAX_MCP_LIST_BYTES,
        timeout_seconds=_STREAM_SECONDS,
    )


def make_network(server: McpServerConfig, network: NetworkConfig) -> NetworkConfig:
    """Return the operator's network; for a server on this machine, with access to this machine added."""
    if not server.is_loopback:
        return network
    # SECURITY: the allowlist contains only this host and port, so a redirect cannot reach another local service.
    allowed = (*network.unsafe_allowed_networks, *_LOOPBACK_NETWORKS)
    return replace(network, unsafe_allowed_networks=allowed)


def open_client(
    server: McpServerConfig,
    network: NetworkConfig,
    *,
    secrets: SecretsStore | None = None,
    user: str = "local",
    auth: Any = None,
    auth_origins: Iterable[str] = (),
    on_decision: Callable[[Decision], object] | None = None,
) -> httpx2.AsyncClient:
    """Return a client that sends all requests through the gateway. Close it with `aclose`.

    Raises:
        SecretError: the server's token is not set.
    """
    if server.bearer and server.is_loopback:
        # The gateway sends no credentials without TLS, so this client adds them for a server on this machine.
        auth = _Bearer(UserSecrets(secrets, user) if secrets is not None else None, server.bearer)
    transport: Any = AsyncGuardedTransport(
        make_capability(server, auth_origins),
        network=make_network(server, network),
        secrets=None if secrets is None or not server.bearer else UserSecrets(secrets, user),
        user=user,
        name=f"mcp:{server.name}",
        on_decision=on_decision,
    )
    # The SDK follows redirects itself; each is a separate request to the gateway.
    timeout = httpx2.Timeout(30.0, read=_STREAM_SECONDS)
    hooks = {"response": [_check_marks]}
    return httpx2.AsyncClient(
        transport=transport, auth=auth, timeout=timeout, follow_redirects=False, event_hooks=hooks
    )


async def _check_marks(response: httpx2.Response) -> None:
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    response.stream = _Body(response.stream, is_stream=is_stream)


class _Body(httpx2.AsyncByteStream):
    """A body whose messages the SDK parses quickly: in one C call each, which stops every other thread."""

    def __init__(self, inner: Any, *, is_stream: bool) -> None:
        self._inner = inner
        self._is_stream = is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the body.

        Raises:
            GuestOutputError: a message is too large, or contains too many names, strings or values, or long numbers.
        """
        message = _Message()
        async for piece in self._inner:
            # SECURITY: an empty line ends an event of a stream, but outside a stream it is white space in JSON.
            first, *others = re.split(rb"\r?\n\r?\n", piece) if self._is_stream else [piece]
            message.add(first)
            for part in others:
                message = _Message()
                message.add(part)
            yield piece

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()


class _Message:
    """The part of a message that has arrived."""

    def __init__(self) -> None:
        self._size = self._cost = self._digit_runs = 0
        self._open_digits = self._end = b""
        self._is_wide = False

    def add(self, part: bytes) -> None:
        """Check the message with its next part.

        Raises:
            GuestOutputError: it exceeds a limit.
        """
        self._size += len(part)
        self._cost += sum(each * part.count(mark) for mark, each in _MARK_COSTS.items())
        self._cost += _LONG_NUMBER_COST * len(_LONG_NUMBER.findall(part))
        self._cost += _NOT_ASCII_COST * len(part.translate(None, _ASCII))
        if self._cost > _MAX_COST or self._size > MAX_MCP_MESSAGE_BYTES + _FRAMING_BYTES:
            raise make_protocol_error("sent a message with too many bytes, lists, objects, names or values")
        self._is_wide = self._is_wide or _WIDE.search(self._end + part) is not None
        if self._is_wide and self._size > _MAX_WIDE_BYTES:
            raise make_protocol_error(f"sent a message of over {_MAX_WIDE_BYTES:,} bytes with characters beyond U+FFFF")
        self._end = part[-5:]
        text = self._open_digits + part
        self._digit_runs += len(_DIGITS.findall(text))
        if self._digit_runs > _MAX_DIGIT_RUNS:
            raise make_protocol_error(f"sent a message with more than {_MAX_DIGIT_RUNS} runs of 400 digits")
        open_digits = (len(text) - len(text.rstrip(b"0123456789"))) % 400
        self._open_digits = text[len(text) - open_digits :]


class _Bearer(httpx2.Auth):
    """Adds a bearer token to requests to a server on this machine."""

    def __init__(self, secrets: UserSecrets | None, name: str) -> None:
        if secrets is None:
            raise SecretNotFoundError(f"the secret {name} is not set", hint=NO_STORE_HINT)
        self._token = secrets.get(name)

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the header (RFC 6750, 2.1)."""
        request.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        yield request


class Way:
    """The transport to a server: a program, or an HTTP client for a URL.

    Attributes:
        denials: The last requests that the gateway refused.
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
        """The host and port of its URL, or None for a program."""
        if self.stdio is not None:
            return None
        parts = parse_url(self.url)
        return parts.host, parts.port

    def streams(self, kind: Transport, guard: MessageGuard) -> Any:
        """Return the streams of a new connection, as a context manager."""
        if self.stdio is not None:
            return self.stdio.transport()
        if kind is Transport.SSE:
            return guard_streams(lambda: sse_client(self.url, httpx_client_factory=self._share_client), guard)
        return guard_streams(lambda: streamable_http_client(self.url, http_client=self.http), guard)

    def _share_client(self, headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return _Borrowed(self.http)

    def on_decision(self, decision: Decision) -> None:
        """Record a denial of the gateway."""
        if not decision.allowed:
            self.denials.append(decision)
            del self.denials[:-16]


class _Borrowed:
    """A shared client: leaving its context does not close it."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def __aenter__(self) -> Any:
        return self._client

    async def __aexit__(self, *_: object) -> None:
        return None
