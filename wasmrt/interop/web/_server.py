"""WebServer: accept connections, limit them per client, and clean up on close."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Iterable
from types import TracebackType

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.web._access import Origins
from wasmrt.interop.web._connection import Connection, Gate, OnRefusal, Service
from wasmrt.interop.web._message import Handler, Request, Response, WebBounds
from wasmrt.interop.web._reader import ClientReader

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: 1\r\n\r\n"
_GRACE_SECONDS = 5.0


class WebServer:
    """An HTTP/1.1 server (RFC 9112) in the caller's event loop. An asynchronous context manager.

    Requests reach `gate` and `handler` only if they are for one of the server's own host names and not from another
    origin's page. Requests are not logged.

    Args:
        handler: Handles each request.
        host: A loopback address, or `localhost`.
        port: 0 for any free port.
        gate: Refuses requests before their body is read, for example by their token.
        origins: Additional origins of the server, such as that of a TLS proxy in front of it.
        bounds: Limits for clients.
        on_refusal: Called with the status of each request that is refused before `gate`: for its host name, its
            origin, its form or a limit.
        unsafe_beyond_loopback: Allow a `host` that other machines can reach. There is no TLS.

    Raises:
        ConfigurationError: `host` is not a loopback address, or an origin is invalid.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        gate: Gate | None = None,
        origins: Iterable[str] = (),
        bounds: WebBounds | None = None,
        on_refusal: OnRefusal = lambda _: None,
        unsafe_beyond_loopback: bool = False,
    ) -> None:
        self._more = tuple(origins)
        self._host = _check_host(host, self._more, anywhere=unsafe_beyond_loopback)
        self._port = port
        self._origins = Origins.of(self._host, port, self._more)
        self._gate = gate
        self._bounds = bounds or WebBounds()
        self._on_refusal = on_refusal
        self._service = Service(self._admit, handler, self._bounds, on_refusal)
        self._server: asyncio.Server | None = None
        self._running: dict[asyncio.Task[None], Connection] = {}
        self._clients: Counter[str] = Counter()
        self._evicted: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WebServer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def origins(self) -> Origins:
        """The server's origins; with the actual port once it has started."""
        return self._origins

    @property
    def url(self) -> str:
        """The address for users, without a path: the first of `origins`."""
        return self._origins.all[0]

    @property
    def port(self) -> int:
        """The server's port; the requested one before the start."""
        return self._port

    async def start(self) -> None:
        """Start listening.

        Raises:
            ConfigurationError: the port is in use, or the address is not one of this machine.
        """
        try:
            self._server = await asyncio.get_running_loop().create_server(
                self._protocol, self._host, self._port, backlog=self._bounds.connections
            )
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ConfigurationError(
                f"cannot listen at {self._host} port {self._port}: {reason}", hint="choose another port, or 0 for any"
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        self._origins = Origins.of(self._host, self._port, self._more)

    async def close(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Stop listening, wait for running responses, then cancel the rest."""
        if self._server is None:
            return
        self._server.close()
        for task, connection in self._running.items():
            connection.last = True
            if not connection.busy:
                task.cancel()
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace_seconds)
        tasks = [*self._running, *self._evicted]
        for task, connection in self._running.items():
            connection.reader.unwatch()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _admit(self, request: Request) -> Response | None:
        refusal = self._origins.refusal(request)
        if refusal is not None:
            self._on_refusal(refusal.status)
            return refusal
        return None if self._gate is None else await self._gate(request)

    def _protocol(self) -> asyncio.Protocol:
        reader = ClientReader()
        return asyncio.StreamReaderProtocol(reader, lambda _, writer: self._on_connect(reader, writer))

    def _on_connect(self, reader: ClientReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        address = str(peer[0]).partition("%")[0] if peer else ""
        client = _get_client_key(address)
        if not self._has_room(client):
            self._on_refusal(503)
            writer.write(_BUSY)
            writer.close()
            return
        connection = Connection(reader, writer, self._service, address)
        task = asyncio.get_running_loop().create_task(connection.run())
        self._running[task] = connection
        self._clients[client] += 1
        task.add_done_callback(lambda task: self._on_end(task, client))

    def _has_room(self, client: str) -> bool:
        """Return whether there is room for another connection of a client. If there is none, try to end an old one.

        SECURITY: connections without an admitted request cost a client nothing, so the oldest of them makes room.
        """
        is_over = self._clients[client] >= self._bounds.connections_per_client
        if not is_over and len(self._running) < self._bounds.connections:
            return True
        for task, connection in self._running.items():
            owner = _get_client_key(connection.client)
            if not connection.admitted and (owner == client or not is_over):
                self._evicted.add(task)
                task.add_done_callback(self._evicted.discard)
                self._remove(task, owner)
                task.cancel()
                connection.abort()
                return True
        return False

    def _on_end(self, task: asyncio.Task[None], client: str) -> None:
        if task in self._running:
            self._remove(task, client)

    def _remove(self, task: asyncio.Task[None], client: str) -> None:
        del self._running[task]
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]


def _check_host(host: str, origins: tuple[str, ...], *, anywhere: bool) -> str:
    """Return the address to listen at. SECURITY: addresses that other machines reach need an explicit option."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        raise ConfigurationError(f"{host!r:.80} is not an IP address", hint="use 127.0.0.1 or ::1") from None
    if not address.is_loopback and not anywhere:
        raise ConfigurationError(
            f"{address} can be reached by other machines", hint="listen at 127.0.0.1, behind a TLS proxy"
        )
    if address.is_unspecified and not origins:
        raise ConfigurationError(
            "a server that listens at all addresses needs the origin that clients use",
            hint="pass the origin: https://HOST",
        )
    return str(address)


def _get_client_key(address: str) -> str:
    """Return the key for counting a client's connections."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address
