"""The outlet of a confined program: its only way to the network, which leads to a proxy of ours and no further.

The program has a network of its own with one port in it. The socket that listens there is accepted from here, by a
proxy that speaks to granted hosts alone: nobody else on the machine can use it, and the program nothing else.
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
    """The way out of one run, as a context manager: it is closed when the run is over, with every connection.

    Attributes:
        env: Variables by which ordinary programs find the proxy: `HTTPS_PROXY` and its like.
        descriptor: What `confined_command` takes as `outlet`.
    """

    def __init__(self, proxy: ProgramProxy) -> None:
        self._proxy = proxy
        self._ours, self._theirs = socket.socketpair()
        address = f"http://wasmrt:{self._proxy.credential}@127.0.0.1:{OUTLET_PORT}"
        # Node reads these variables only when it is told to.
        self.env = {**dict.fromkeys(_VARIABLES, address), "NODE_USE_ENV_PROXY": "1"}
        self._thread = threading.Thread(target=self._serve, name="wasmrt-outlet", daemon=True)

    def begin(self) -> EgressProxySession:
        """Wait for the program from now on; what was begun has to be closed."""
        self._thread.start()
        return self

    @property
    def descriptor(self) -> int:
        """The socket over which the program's stub sends the one that listens."""
        return self._theirs.fileno()

    def decisions(self) -> tuple[Decision, ...]:
        """Return what was decided since the last time that this was asked; refusals first."""
        return self._proxy.decisions()

    def __enter__(self) -> EgressProxySession:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection, and wait for the threads. Safe to call twice."""
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
    """The outlets of one program: one for each run, all with the same gateway and the same rate for a user.

    Any thread may use it. `close` it when no run is left.

    Args:
        allowlist: The hosts that are reached; without any there is no outlet.
        name: The program, in rate limits and decisions.
        network: The operator's settings of the network.
    """

    def __init__(self, allowlist: Sequence[EndpointPattern], *, name: str, network: NetworkConfig | None) -> None:
        self._allowlist, self._name, self._network = tuple(allowlist), name, network
        self._rates = RateLimiter()
        self._lock = threading.Lock()
        self._gateway: EgressGateway | None = None

    def open(self, user: str) -> EgressProxySession:
        """Return the outlet of a run that is about to start; to be entered.

        Raises:
            ConfigurationError: the CA file of the operator cannot be used.
        """
        from wasmrt.egress.proxy import ProgramProxy  # with h11

        with self._lock:
            if self._gateway is None:
                self._gateway = EgressGateway(self._network, rates=self._rates)
            gateway = self._gateway
        return EgressProxySession(ProgramProxy(self._allowlist, gateway, user=user, name=self._name, rates=self._rates))

    def close(self) -> None:
        """Close what all outlets share."""
        with self._lock:
            if self._gateway is not None:
                self._gateway.close()
                self._gateway = None


def refusal_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """Yield a line for each refusal, for whoever wonders why a program could not connect."""
    for each in decisions:
        if not each.allowed:
            yield f"wasmrt: {each.subject}: {each.rule}{f'; {each.hint}' if each.hint else ''}"
