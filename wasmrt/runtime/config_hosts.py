"""The operator's table of host names, and the resolver that looks it up first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.url import AddressClass, InvalidUrlError, classify_address, parse_url
from wasmrt.egress.gateway import Resolver, ResolverForUsers, SystemResolver


class HostsResolver:
    """Resolves host names from the operator's table first, as a hosts file does.

    The gateway checks addresses from the table in the same way as other addresses.
    """

    def __init__(self, hosts: Mapping[str, Sequence[str]], rest: Resolver) -> None:
        self._hosts = {name.lower(): tuple(addresses) for name, addresses in hosts.items()}
        self._rest = rest

    def known(self, host: str) -> tuple[str, ...] | None:
        """Return the addresses that the table lists for a host, or None if the table does not contain the host."""
        return self._hosts.get(host)

    def for_user(self, user: str) -> Resolver:
        """Return a resolver for one user if the underlying resolver has one for each user, otherwise this object."""
        if isinstance(self._rest, ResolverForUsers):
            return HostsResolver(self._hosts, self._rest.for_user(user))
        return self

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        """Return the addresses of a host from the table, otherwise from the underlying resolver."""
        known = self.known(host)
        return known if known is not None else self._rest.resolve(host, port, timeout_seconds=timeout_seconds)


def read_hosts(value: Any, _: Path) -> dict[str, Any]:
    """Read the table `hosts` as the setting `resolver` of the network.

    Raises:
        ConfigurationError: the value is not a table of host names and lists of IP addresses.
    """
    hint = 'write it like hosts = { "api.internal" = ["10.0.0.5"] }'
    if not isinstance(value, dict):
        raise ConfigurationError("hosts must be a table that maps host names to addresses", hint=hint)
    for name, addresses in value.items():
        if not _is_host(name):
            raise ConfigurationError(f"hosts must contain only host names as keys, got {name!r:.80}", hint=hint)
        if not isinstance(addresses, list) or not addresses or not all(map(_is_address, addresses)):
            raise ConfigurationError(f"hosts must set {name!r:.80} to a list of IP addresses", hint=hint)
    return {"resolver": HostsResolver(value, SystemResolver())}


def _is_host(name: str) -> bool:
    try:
        return parse_url(f"https://{name}/").host == name.lower()
    except InvalidUrlError:
        return False


def _is_address(text: object) -> bool:
    return isinstance(text, str) and classify_address(text) is not AddressClass.UNREADABLE
