"""The operator's network settings."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import CONNECT_TIMEOUT_SECONDS, MAX_CA_FILE_BYTES, MAX_CONNECTIONS_PER_ORIGIN
from wasmrt.core.url import InvalidUrlError, parse_networks, parse_url
from wasmrt.egress.gateway._exchange import Transport
from wasmrt.egress.gateway._resolver import Resolver


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Network settings that only an operator can set, not a capability file.

    Attributes:
        unsafe_allowed_networks: Internal networks that tools may reach, such as `("10.1.0.0/16",)` for a local model;
            by default only public addresses. A tool's allowlist still has to include the host.
        resolver: Resolves host names; None for the system's resolver. Every address that it returns is checked.
        ca_file: A PEM file with the trusted certificate authorities. It replaces the system's authorities, so include
            them if you need both. None for the system's.
        unsafe_unscanned_hosts: Hosts whose responses are passed on even if a part could not be decoded to look for
            injected secrets: nested or packed too deeply, or in an unknown archive format. Each one is recorded.
        max_connections: Maximum open connections to one host at one address, for all calls together.
        connect_timeout_seconds: Timeout for connecting to one address; everything after it has the call's time.
        transport: Sends the requests after all checks; None for real connections. For example, a test's recorded
            responses.

    Raises:
        ConfigurationError: a network is invalid, the CA file is missing or not PEM, or a number is not positive.

    Example:
        >>> from wasmrt import NetworkConfig
        >>> NetworkConfig(unsafe_allowed_networks=("10.1.0.0/16",)).networks
        (IPv4Network('10.1.0.0/16'),)
    """

    unsafe_allowed_networks: tuple[str | IPv4Network | IPv6Network, ...] = ()
    resolver: Resolver | None = None
    ca_file: Path | None = None
    unsafe_unscanned_hosts: tuple[str, ...] = ()
    max_connections: int = MAX_CONNECTIONS_PER_ORIGIN
    connect_timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
    transport: Transport | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "unsafe_allowed_networks", parse_networks(self.unsafe_allowed_networks))
        object.__setattr__(self, "unsafe_unscanned_hosts", _read_hosts(self.unsafe_unscanned_hosts))
        if self.ca_file is not None:
            _check_ca_file(self.ca_file)
        count, seconds = self.max_connections, self.connect_timeout_seconds
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigurationError("max_connections must be a positive whole number", hint="write it like 8")
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < float("inf"):
            raise ConfigurationError("connect_timeout_seconds must be a positive number", hint="write it like 5.0")

    @property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """`unsafe_allowed_networks`, parsed."""
        return parse_networks(self.unsafe_allowed_networks)


def _read_hosts(names: object) -> tuple[str, ...]:
    hint = 'write it like unsafe_unscanned_hosts = ["files.example.com"]'
    if not isinstance(names, (list, tuple)):
        raise ConfigurationError("unsafe_unscanned_hosts must be a list of host names", hint=hint)
    hosts = []
    for name in names:
        try:
            hosts.append(parse_url(f"https://{name}/").host)
        except InvalidUrlError:
            raise ConfigurationError(
                f"unsafe_unscanned_hosts contains {name!r:.80}, which is not a host name", hint=hint
            ) from None
    return tuple(hosts)


def _check_ca_file(path: Path) -> None:
    """Check that the file exists and looks like PEM. `ssl` checks its certificates when the gateway is created."""
    if not isinstance(path, Path):
        raise ConfigurationError("ca_file must be a pathlib.Path", hint='write it like Path("/etc/my-ca.pem")')
    hint = "set ca_file to a PEM file of certificate authorities, or leave it out for the system's"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_CA_FILE_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise ConfigurationError(f"ca_file {path} cannot be read ({reason})", hint=hint) from error
    if b"CERTIFICATE-----" not in content:
        raise ConfigurationError(f"ca_file {path} contains no PEM certificate", hint=hint)
