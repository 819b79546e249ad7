"""The egress proxy session of a confined program: its only network connection.

The program runs in a separate network namespace with one port. This process accepts the connections to that port and
passes them to a proxy, which connects to granted hosts only. No other process can use the proxy, and the program has no
other network.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from wasmrt.capabilities import EndpointPattern
from wasmrt.core.model import Decision
from wasmrt.egress.gateway import EgressGateway, NetworkConfig
from wasmrt.egress.rates import RateLimiter
from wasmrt.sandbox.isolation.confine import OUTLET_PORT

if TYPE_CHECKING:
    from wasmrt.egress.proxy import ProgramProxy

_VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


class EgressProxySession:
    """The proxy of one run, as a context manager that closes every connection at the end of the run.

    Attributes:
        env: Variables that common programs read to find the proxy, such as `HTTPS_PROXY`.
        descriptor: The `outlet` argument for `confined_command`.
    """

    def __init__(self, proxy: ProgramProxy) -> None:
        self._proxy = proxy
        self._ours, self._theirs = socket.socketpair()
        address = f"http://wasmrt:{self._proxy.credential}@127.0.0.1:{OUTLET_PORT}"
        # Node reads these variables only if NODE_USE_ENV_PROXY is set.
        self.env = {**dict.fromkeys(_VARIABLES, address), "NODE_USE_ENV_PROXY": "1"}
        self._thread = threading.Thread(target=self._serve, name="wasmrt-outlet", daemon=True)

    def begin(self) -> EgressProxySession:
        """Start accepting connections from the program, and return this session. The caller must close it."""
        self._thread.start()
        return self

    @property
    def descriptor(self) -> int:
        """The socket over which the program's stub (its launcher) sends its listening socket."""
        return self._theirs.fileno()

    def decisions(self) -> tuple[Decision, ...]:
        """Return the decisions made since this method was last called, denials first."""
        return self._proxy.decisions()

    def __enter__(self) -> EgressProxySession:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection and wait for the threads. Safe to call twice."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._proxy.close()
        if self._thread.ident is not None:
            self._thread.join()
        self._ours.close()
        self._theirs.close()

    def _serve(self) -> None:
        with suppress(OSError):
            _, found, _, _ = socket.recv_fds(self._ours, 1, 1)
            for descriptor in found[:1]:
                self._proxy.serve(socket.socket(fileno=descriptor))


class EgressProxySessions:
    """The sessions of one program, one for each run, with a shared gateway and a shared rate limit per user.

    Thread-safe. `close` it after the last run.

    Args:
        allowlist: The reachable hosts; if it is empty, no session is opened.
        name: The program's name in rate limits and decisions.
        network: The operator's network settings.
    """

    def __init__(self, allowlist: Sequence[EndpointPattern], *, name: str, network: NetworkConfig | None) -> None:
        self._allowlist, self._name, self._network = tuple(allowlist), name, network
        self._rates = RateLimiter()
        self._lock = threading.Lock()
        self._gateway: EgressGateway | None = None

    def open(self, user: str) -> EgressProxySession:
        """Return a new session for a run; use it as a context manager.

        Raises:
            ConfigurationError: the operator's CA file cannot be used.
        """
        from wasmrt.egress.proxy import ProgramProxy  # imported here because it imports h11

        with self._lock:
            if self._gateway is None:
                self._gateway = EgressGateway(self._network, rates=self._rates)
            gateway = self._gateway
        return EgressProxySession(ProgramProxy(self._allowlist, gateway, user=user, name=self._name, rates=self._rates))

    def close(self) -> None:
        """Close the shared gateway."""
        with self._lock:
            if self._gateway is not None:
                self._gateway.close()
                self._gateway = None


def describe_denials(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield one line for each denial in `decisions`, which explains why a program could not connect."""
    for each in decisions:
        if not each.allowed:
            yield f"wasmrt: {each.subject}: {each.rule}{f'; {each.hint}' if each.hint else ''}"
