"""The `[network]` table of the operator's configuration file: for the command line, which has no other way."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from wasmrt.capabilities import classify_address
from wasmrt.errors import ConfigurationError
from wasmrt.limits import MAX_CONFIG_FILE_BYTES
from wasmrt.net._model import NetworkConfig
from wasmrt.net._resolver import Resolver, SystemResolver

_KEYS = ("unsafe_allowed_networks", "ca_file", "hosts", "max_connections", "connect_timeout_seconds")


class HostsResolver:
    """Answers from an operator's table first, like a hosts file; every answer is judged like any other."""

    def __init__(self, hosts: Mapping[str, Sequence[str]], rest: Resolver) -> None:
        self._hosts = {name.lower(): tuple(addresses) for name, addresses in hosts.items()}
        self._rest = rest

    def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
        known = self._hosts.get(host)
        return known if known is not None else self._rest.resolve(host, port, timeout_seconds=timeout_seconds)


def read_network_config(path: Path) -> NetworkConfig:
    """Read `path`, a TOML file; one that is absent, or has no `[network]` table, leaves everything at its default.

    Raises:
        ConfigurationError: the file or a value in it cannot be used, or a key is not known.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_CONFIG_FILE_BYTES + 1)
        if len(text) > MAX_CONFIG_FILE_BYTES:
            raise ConfigurationError(f"the configuration file may have {MAX_CONFIG_FILE_BYTES} bytes")
        table = tomllib.loads(text.decode()).get("network", {})
    except FileNotFoundError:
        return NetworkConfig()
    except (OSError, ValueError) as error:
        raise ConfigurationError("the configuration file cannot be read as TOML") from error
    if not isinstance(table, dict):
        raise ConfigurationError("network in the configuration file must be a table", hint="write [network]")
    return _config(table)


def _config(table: dict[str, Any]) -> NetworkConfig:
    for key in table.keys() - set(_KEYS):
        near = get_close_matches(key, _KEYS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}"
        raise ConfigurationError(f"network.{key} is not known", hint=hint)
    given = dict(table)
    hosts = given.pop("hosts", None)
    if hosts is not None:
        given["resolver"] = HostsResolver(_hosts(hosts), SystemResolver())
    if "ca_file" in given:
        given["ca_file"] = Path(_typed(given, "ca_file", str))
    if "unsafe_allowed_networks" in given:
        networks = _typed(given, "unsafe_allowed_networks", list)
        if not all(isinstance(network, str) for network in networks):
            raise ConfigurationError("network.unsafe_allowed_networks must be a list of texts")
        given["unsafe_allowed_networks"] = tuple(networks)
    for key, kind in (("max_connections", (int,)), ("connect_timeout_seconds", (int, float))):
        if key in given and (isinstance(given[key], bool) or not isinstance(given[key], kind)):
            raise ConfigurationError(f"network.{key} must be a number")
    return NetworkConfig(**given)


def _typed(table: dict[str, Any], key: str, kind: type) -> Any:
    if not isinstance(table[key], kind):
        raise ConfigurationError(f"network.{key} must be a {'list' if kind is list else 'text'}")
    return table[key]


def _hosts(hosts: object) -> dict[str, list[str]]:
    sound = isinstance(hosts, dict) and all(
        isinstance(addresses, list) and addresses and all(_is_address(address) for address in addresses)
        for addresses in hosts.values()
    )
    if not sound:
        raise ConfigurationError(
            "network.hosts must give each name a list of addresses", hint='write "api.internal" = ["10.0.0.5"]'
        )
    assert isinstance(hosts, dict)
    return hosts


def _is_address(text: object) -> bool:
    return isinstance(text, str) and str(classify_address(text)) != "unreadable"
