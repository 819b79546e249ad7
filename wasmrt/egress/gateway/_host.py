"""The host's own client as the gateway sees it: a capability, a user, and a call for each request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from wasmrt.capabilities import Capabilities, HttpCapability
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.model import Decision
from wasmrt.egress.gateway._config import NetworkConfig
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._model import SecretsView
from wasmrt.egress.leaks import Action, Direction, LeakDetector, LeakScanner, WatchedSecrets

OnDecision = Callable[[Decision], object]


@dataclass(slots=True)
class HostCall:
    """An `EgressCall` that belongs to no guest: no deadline and no budget but those of the capability."""

    tool: str
    user: str
    grant: Capabilities
    secrets: SecretsView | None
    watched: WatchedSecrets
    on_decision: OnDecision | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    deadline: float = float("inf")

    @property
    def scanner(self) -> LeakScanner:
        """That of `watched`."""
        return self.watched.scanner

    def watch(self, name: str, value: str) -> None:
        """Have `scanner` find `value` from now on, in this response and in later ones."""
        self.watched.watch(name, value)

    def charge_http_request(self) -> bool:
        """Count nothing: the capability's rate limit is the budget."""
        return True

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Count nothing: the capability caps each request and each response."""

    def decide(self, decision: Decision) -> None:
        """Pass a decision on."""
        if self.on_decision is not None:
            self.on_decision(decision)


class HostClient:
    """A capability with its gateway: one of its own, or one that others share.

    Raises:
        ConfigurationError: both a gateway and a network are given, or the network's CA file cannot be used.
    """

    def __init__(
        self,
        http: HttpCapability,
        *,
        network: NetworkConfig | None,
        gateway: EgressGateway | None,
        secrets: SecretsView | None,
        user: str,
        name: str,
        on_decision: OnDecision | None,
    ) -> None:
        if gateway is not None and network is not None:
            raise ConfigurationError("a gateway has its network already", hint="give one of gateway and network")
        self.gateway = gateway or EgressGateway(network)
        self.http = http
        self._owns_gateway = gateway is None
        self._grant = Capabilities.none().with_http(http)
        self._secrets = secrets
        self._user = user
        self._name = name
        self._on_decision = on_decision
        self._watched = WatchedSecrets(_detector())

    def call(self) -> HostCall:
        """Return the call of one request."""
        return HostCall(self._name, self._user, self._grant, self._secrets, self._watched, self._on_decision)

    def close(self) -> None:
        """Close the gateway, where it is this client's own."""
        if self._owns_gateway:
            self.gateway.close()


@cache
def _detector() -> LeakDetector:
    """Return the detector of the host's face: a client may receive tokens, but never a secret that was injected."""
    formats = {rule.id: {Direction.INWARD: Action.WARN} for rule in LeakDetector().rules}
    return LeakDetector(overrides=formats)
