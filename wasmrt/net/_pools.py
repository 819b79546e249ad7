"""Connections kept between calls, by (scheme, host, port, judged address)."""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpcore

from wasmrt.errors import ConfigurationError
from wasmrt.limits import KEEPALIVE_SECONDS, MAX_IDLE_CONNECTIONS_PER_ORIGIN, MAX_POOLED_ORIGINS
from wasmrt.net._backend import PinnedBackend


@dataclass(frozen=True, slots=True)
class Route:
    """Where a connection leads.

    SECURITY: the host is part of it, so that a connection whose certificate was checked for one name never carries
    a request for another; the address is, so that a reused connection leads to an address judged for this request.
    """

    scheme: str
    host: str
    port: int
    address: str


@dataclass(slots=True)
class _Pool:
    connections: httpcore.ConnectionPool
    users: int = 0
    idle_since: float = 0.0


class Pools:
    """One small connection pool for each route; routes unused for half a minute are closed.

    Raises:
        ConfigurationError: the CA file cannot be used.
    """

    def __init__(self, *, ca_file: Path | None, max_connections: int, connect_timeout_seconds: float) -> None:
        self._tls = _tls_context(ca_file)
        self._max_connections = max_connections
        self._connect_timeout = connect_timeout_seconds
        self._lock = threading.Lock()
        self._pools: OrderedDict[Route, _Pool] = OrderedDict()
        self._closed = False

    @contextlib.contextmanager
    def lease(self, route: Route) -> Iterator[httpcore.ConnectionPool]:
        """Give out the pool of `route`; it is not closed while anybody has it."""
        with self._lock:
            closing = self._forget_unused()
            pool = self._pools.get(route)
            if pool is None:
                pool = self._pools[route] = _Pool(self._new(route.address))
            pool.users += 1
        _close(closing)
        try:
            yield pool.connections
        finally:
            with self._lock:
                pool.users -= 1
                pool.idle_since = time.monotonic()
                self._pools.move_to_end(route)
                closing = self._forget_unused() if not self._closed else self._forget_all()
            _close(closing)

    def has(self, route: Route) -> bool:
        """Whether there may be an open connection to `route`."""
        return route in self._pools

    def close(self) -> None:
        """Close every connection that is not in use, and the others as they are given back."""
        with self._lock:
            self._closed = True
            closing = self._forget_all()
        _close(closing)

    def _new(self, address: str) -> httpcore.ConnectionPool:
        return httpcore.ConnectionPool(
            ssl_context=self._tls,
            max_connections=self._max_connections,
            max_keepalive_connections=MAX_IDLE_CONNECTIONS_PER_ORIGIN,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=PinnedBackend(address, self._connect_timeout),
        )

    def _forget_unused(self) -> list[_Pool]:
        # Least recently used first: the loop ends at the first route that is still fresh.
        stale = time.monotonic() - KEEPALIVE_SECONDS
        closing = []
        for route, pool in list(self._pools.items()):
            if pool.users == 0 and (pool.idle_since < stale or len(self._pools) > MAX_POOLED_ORIGINS):
                closing.append(self._pools.pop(route))
            elif pool.idle_since >= stale and len(self._pools) <= MAX_POOLED_ORIGINS:
                break
        return closing

    def _forget_all(self) -> list[_Pool]:
        unused = [route for route, pool in self._pools.items() if pool.users == 0]
        return [self._pools.pop(route) for route in unused]


def _close(pools: list[_Pool]) -> None:
    for pool in pools:
        pool.connections.close()


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    # SECURITY: the system's or the operator's authorities, never SSL_CERT_FILE from the environment of whoever
    # started us when an operator named a file; certificates and host names are always checked.
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        raise ConfigurationError("ca_file cannot be read as PEM certificates") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
