"""The pool of connections. A connection is reused for requests with the same scheme, host, port and checked address."""

from __future__ import annotations

import ssl
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_IDLE_CONNECTIONS
from wasmrt.egress.gateway._connection import Connection, dial
from wasmrt.egress.gateway._exchange import ExchangeBudget, Wait
from wasmrt.egress.gateway._slots import Slots


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a connection.

    SECURITY: it includes the host, so that a connection with a certificate for one name never carries a request for
    another name. It includes the address, so that a reused connection leads to an address that was checked for this
    request.
    """

    scheme: str
    host: str
    port: int
    address: str


class Pool:
    """All connections of a gateway. Idle connections are closed after half a minute, or if there are too many.

    Raises:
        ConfigurationError: the CA file cannot be used.
    """

    def __init__(self, *, ca_file: Path | None, max_connections: int, connect_timeout_seconds: float) -> None:
        self._tls = _make_tls_context(ca_file)
        self._max_connections = max_connections
        self._connect_timeout = connect_timeout_seconds
        self._lock = threading.Lock()
        self._slots: WeakValueDictionary[Route, Slots] = WeakValueDictionary()  # dropped with the last user
        self._users: dict[Connection, tuple[Slots, str]] = {}
        self._idle: OrderedDict[Connection, Route] = OrderedDict()  # the connection that has been idle longest is first
        self._idle_of: dict[Route, dict[Connection, None]] = {}  # the same connections, in the same order
        self._closed = False

    def has_idle(self, route: Route) -> bool:
        """Return whether there is an idle connection to `route`."""
        with self._lock:
            return route in self._idle_of

    def take(self, route: Route, budget: ExchangeBudget) -> tuple[Connection, bool]:
        """Return a connection to `route`, and whether it was used before.

        Raises:
            UnreachableError: there is no idle connection, and the address does not accept a new one.
            HttpFailure: the handshake failed, or the budget ran out while every connection was in use.
        """
        budget.begin(Wait.POOL)
        with self._lock:
            slots = self._slots.setdefault(route, Slots(self._max_connections))
        slots.take(budget.user, budget.wait_seconds, budget.waking)
        with self._lock:
            found, dead = self._pick(route)
            if found is not None:
                self._users[found] = slots, budget.user
        _close(dead)
        if found is not None:
            return found, True
        try:
            tls = self._tls if route.scheme == "https" else None
            socket = dial(route.address, route.port, route.host, tls, budget, self._connect_timeout)
        except BaseException:
            slots.release_slot(budget.user)
            raise
        connection = Connection(socket)
        with self._lock:
            self._users[connection] = slots, budget.user
        return connection, False

    def return_connection(self, route: Route, connection: Connection, *, healthy: bool) -> None:
        """Return a connection to the pool if it can be reused, otherwise close it."""
        keep = healthy and connection.become_idle()
        with self._lock:
            slots, user = self._users.pop(connection)
            if keep:
                self._idle[connection] = route
                self._idle_of.setdefault(route, {})[connection] = None
            dead = self._take_surplus()
        slots.release_slot(user)
        _close(dead if keep else [*dead, connection])

    def close(self) -> None:
        """Close all idle connections now, and every other connection when it is given back."""
        with self._lock:
            self._closed = True
            dead, self._idle, self._idle_of = list(self._idle), OrderedDict(), {}
        _close(dead)

    def _take_surplus(self) -> list[Connection]:
        """Remove and return idle connections that are too old or too many. The caller closes them."""
        dead: list[Connection] = []
        now = time.monotonic()
        while self._idle:
            oldest = next(iter(self._idle))
            if not (self._closed or len(self._idle) > MAX_IDLE_CONNECTIONS or oldest.is_expired(now)):
                break
            dead.append(oldest)
            self._forget_idle(oldest)
        return dead

    def _pick(self, route: Route) -> tuple[Connection | None, list[Connection]]:
        """Remove and return the most recently used idle connection that is still usable, if any.

        The second result has the unusable connections that were tried before it. The caller closes them.
        """
        now = time.monotonic()
        dead: list[Connection] = []
        while idle := self._idle_of.get(route):
            connection = next(reversed(idle))
            self._forget_idle(connection)
            if connection.is_fresh(now):
                return connection, dead
            dead.append(connection)
        return None, dead

    def _forget_idle(self, connection: Connection) -> None:
        route = self._idle.pop(connection)
        idle = self._idle_of[route]
        del idle[connection]
        if not idle:
            del self._idle_of[route]


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


def _make_tls_context(ca_file: Path | None) -> ssl.SSLContext:
    # No setting disables the checks of certificates and of their host names.
    try:
        context = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as error:
        hint = "run openssl x509 -noout -text -in FILE to see what is wrong with the file"
        raise ConfigurationError(f"ca_file {ca_file} contains an unreadable certificate", hint=hint) from error
    # SECURITY: otherwise Python would write the keys of every connection to the file in SSLKEYLOGFILE.
    context.keylog_filename = None  # type: ignore[assignment]  # the stub does not allow None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
