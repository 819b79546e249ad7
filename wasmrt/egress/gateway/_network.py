"""The operator's network settings, and the resolution of host names within a time limit."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Protocol, runtime_checkable

from wasmrt.capabilities import check_addresses, check_host
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import (
    CONNECT_TIMEOUT_SECONDS,
    MAX_CA_FILE_BYTES,
    MAX_CONNECTIONS_PER_ORIGIN,
    MAX_DNS_ANSWERS,
    MAX_DNS_LOOKUPS,
)
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import Network, ParsedUrl, parse_networks
from wasmrt.egress.gateway._exchange import Transport
from wasmrt.egress.gateway._slots import Slots
from wasmrt.egress.gateway._unscanned import read_unscanned_hosts, read_unscanned_responses


class ResolveError(WasmrtError):
    """A host name has no address, or its lookup did not end in time."""

    code = "no-address"


class Resolver(Protocol):
    """The interface of an object that resolves host names. Many threads call it."""

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`, or raise `ResolveError`."""


@runtime_checkable
class ResolverForUsers(Protocol):
    """A resolver that shares its capacity between users."""

    def for_user(self, user: str) -> Resolver:
        """Return the resolver of one user."""


class SystemResolver:
    """The resolver of the operating system.

    `getaddrinfo` cannot be interrupted and may take half a minute. Each lookup therefore runs on a separate thread, so
    that a call ends at its deadline even if a name server is slow. At most 64 lookups, shared between users, run at a
    time.
    """

    def __init__(self) -> None:
        self._slots = Slots(MAX_DNS_LOOKUPS)

    def for_user(self, user: str) -> Resolver:
        """Return a resolver whose lookups use up the share of `user`."""
        return _UserResolver(self._slots, user)

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return every address of `host`.

        Raises:
            ResolveError: the name is unknown or has too many addresses, or the lookup timed out.
        """
        return self.for_user("").resolve(host, port, timeout_seconds=timeout_seconds)


class _UserResolver:
    def __init__(self, slots: Slots, user: str) -> None:
        self._slots = slots
        self._user = user

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        ends_at = time.monotonic() + timeout_seconds

        def left() -> float:
            seconds = ends_at - time.monotonic()
            if seconds <= 0:
                raise ResolveError("too many name lookups are running")
            return seconds

        self._slots.take(self._user, left)
        lookup = _Lookup(host, port, self._slots, self._user)
        try:
            threading.Thread(target=lookup.run, name="wasmrt-resolve", daemon=True).start()
        except RuntimeError:
            self._slots.release_slot(self._user)
            raise ResolveError("no thread is available for a name lookup") from None
        if not lookup.done.wait(max(0.0, ends_at - time.monotonic())):
            raise ResolveError("the name server did not respond in time")
        if lookup.problem:
            raise ResolveError(lookup.problem)
        return lookup.answers


class _Lookup:
    def __init__(self, host: str, port: int, slots: Slots, user: str) -> None:
        self.done = EndEvent()
        self.problem = ""
        self.answers: tuple[str, ...] = ()
        self._host, self._port, self._slots, self._user = host, port, slots, user

    def run(self) -> None:
        """Resolve the name and release the slot."""
        try:
            found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            # SECURITY: all addresses are returned for checking, or none if there are too many. A scope id (`%eth0`)
            # stays in the address, and the check refuses such an address.
            addresses = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
            self.answers = tuple(addresses)
            if len(addresses) > MAX_DNS_ANSWERS:
                self.problem = (
                    f"the host name has {len(addresses)} addresses, and at most {MAX_DNS_ANSWERS} are checked"
                )
        except (OSError, UnicodeError):
            self.problem = "the host name is unknown"
        finally:
            self._slots.release_slot(self._user)
            self.done.set()


def checked_addresses(
    url: ParsedUrl, networks: Sequence[Network], resolver: Resolver, ends_at: float
) -> tuple[tuple[str, ...], Decision]:
    """Resolve the host of `url` and check every address; return the addresses and the decision.

    For a denial, there are no addresses.

    SECURITY: connections are made to the returned addresses; the name is not resolved a second time.
    """
    if (refused := check_host(url, networks)) is not None:
        return (), refused
    if url.address is not None:
        # `check_host` has checked this address.
        return (str(url.address),), Decision(True, Reason.ALLOWED, "a literal address", None, "http", url.origin)
    try:
        left = max(0.0, ends_at - time.monotonic())
        addresses = resolver.resolve(url.host, url.port, timeout_seconds=left)
    except ResolveError as error:
        hint = "check the host name, and that this machine is online and can resolve names"
        return (), Decision(False, Reason.NO_ADDRESS, error.message, hint, "http", url.origin)
    decision = check_addresses(addresses, networks, url.origin)
    return (addresses if decision.allowed else ()), decision


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Network settings that only an operator can set, not a capability file.

    Attributes:
        unsafe_allowed_networks: Internal networks that tools may reach, such as `("10.1.0.0/16",)` for a local model;
            by default only public addresses. A tool's allowlist still has to include the host.
        resolver: Resolves host names; None for the system's resolver. Every address that it returns is checked.
        ca_file: A PEM file with the trusted certificate authorities. They replace the system's authorities, so the file
            must include those too if you need both. None for the system's authorities.
        unsafe_unscanned_hosts: Hosts whose responses are passed on even if a part cannot be searched for injected
            secrets, because it is nested or compressed too deeply, or in an unknown archive format. Every such response
            is recorded.
        unsafe_unscanned_responses: The same for single responses, each entry as `HOST/PATH TYPE`. A path that ends in
            `/` covers everything below it, `*` is any one segment, and the type may be like `image/*`.
        max_connections: Maximum number of open connections to one host at one address, for all calls together.
        connect_timeout_seconds: Timeout for connecting to one address. After that, the timeout of the request applies.
        transport: Sends the requests after all checks, for example to recorded responses in a test. None for real
            connections.

    Raises:
        ConfigurationError: a network, host, entry or number is invalid, or the CA file is missing or not PEM.

    Examples:
        >>> from wasmrt import NetworkConfig
        >>> NetworkConfig(unsafe_allowed_networks=("10.1.0.0/16",)).networks
        (IPv4Network('10.1.0.0/16'),)
    """

    unsafe_allowed_networks: tuple[str | IPv4Network | IPv6Network, ...] = ()
    resolver: Resolver | None = None
    ca_file: Path | None = None
    unsafe_unscanned_hosts: tuple[str, ...] = ()
    unsafe_unscanned_responses: tuple[str, ...] = ()
    max_connections: int = MAX_CONNECTIONS_PER_ORIGIN
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    transport: Transport | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unsafe_allowed_networks", parse_networks(self.unsafe_allowed_networks))
        object.__setattr__(self, "unsafe_unscanned_hosts", read_unscanned_hosts(self.unsafe_unscanned_hosts))
        entries = read_unscanned_responses(self.unsafe_unscanned_responses)
        object.__setattr__(self, "unsafe_unscanned_responses", tuple(entry.text for entry in entries))
        if self.ca_file is not None:
            _check_ca_file(self.ca_file)
        count, seconds = self.max_connections, self.connect_timeout_seconds
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigurationError("max_connections must be a positive whole number", hint="for example: 8")
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            raise ConfigurationError("connect_timeout_seconds must be a positive number", hint="for example: 5")

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The parsed networks of `unsafe_allowed_networks`."""
        return parse_networks(self.unsafe_allowed_networks)


def _check_ca_file(path: Path) -> None:
    """Check that the file exists and looks like PEM. `ssl` checks its certificates when the gateway is created."""
    if not isinstance(path, Path):
        raise ConfigurationError("ca_file must be a pathlib.Path", hint='write it like Path("/etc/my-ca.pem")')
    hint = "set ca_file to a PEM file of certificate authorities, or leave it out to use the system's authorities"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CA_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigurationError(f"ca_file {path} cannot be read ({reason})", hint=hint) from error
    if b"CERTIFICATE-----" not in content:
        raise ConfigurationError(f"ca_file {path} contains no PEM certificate", hint=hint)
