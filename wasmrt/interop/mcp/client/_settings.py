"""One configured server: its address or command, its grants, and the trust in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from blake3 import blake3

from wasmrt.capabilities import EndpointPattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MCP_CALL_SECONDS
from wasmrt.core.url import InvalidUrlError, ParsedUrl, parse_url
from wasmrt.interop.mcp.packages import Package

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?")
_DOMAIN = b"wasmrt mcp server v1\0"
LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


class Trust(StrEnum):
    """Levels of trust in a server. They decide which effects its tools are assigned."""

    LOCAL = "local"
    """The tools' annotations count."""
    VERIFIED = "verified"
    """Every call requires approval, and sub-agents have no access."""
    COMMUNITY = "community"
    """Limited like `verified`. The default for a server that was not reviewed."""


class Transport(StrEnum):
    """The transport to a server with a URL."""

    AUTO = "auto"
    """Streamable HTTP, or SSE if the server does not support it."""
    STREAMABLE_HTTP = "streamable-http"
    SSE = "sse"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthConfig:
    """Settings of a login; missing ones are discovered."""

    client_id: str = ""
    authorization_url: str = ""
    token_url: str = ""
    scopes: tuple[str, ...] = ()
    use_pkce: bool = True
    extra_params: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("authorization_url", "token_url"):
            if (url := getattr(self, name)) and urlsplit(url).scheme != "https":
                raise ConfigurationError(f"{name} must begin with https://")
        if not self.use_pkce:
            raise ConfigurationError("use_pkce cannot be false", hint="omit it: PKCE with S256 is always used")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerConfig:
    """The configuration of a server: its URL, or its command, which communicates over standard streams.

    Raises:
        ConfigurationError: the parts contradict each other.

    Examples:
        >>> from wasmrt import McpServerConfig
        >>> docs = McpServerConfig(name="docs", url="https://mcp.example.com/mcp")
        >>> docs.trust.value, docs.requires_auth
        ('community', True)
    """

    name: str
    """The prefix of its tools: lower-case letters and digits, separated by - or _."""
    url: str = ""
    command: tuple[str, ...] = ()
    """The program and its arguments, run without a shell."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the program. Of wasmrt's own variables it inherits only `PATH`, language, time zone and terminal."""
    secret_env: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values are secrets: variable name to secret name."""
    workspace: str = ""
    """The working directory, which it may read."""
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    """Files and folders that it may read and write."""
    package: Package | None = None
    """The installed package that contains the program."""
    network: bool = False
    """True if the program may use the network without the gateway and its rules."""
    hosts: tuple[EndpointPattern, ...] = ()
    """The hosts that the program may reach through wasmrt's proxy; empty for none."""
    transport: Transport = Transport.AUTO
    bearer: str = ""
    """The name of the secret that is sent to the server's own origin as a bearer token."""
    oauth: OAuthConfig | None = None
    trust: Trust = Trust.COMMUNITY
    enabled: bool = True
    description: str = ""
    timeout_seconds: float = MCP_CALL_SECONDS
    """Timeout of a call."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r:.60} is not a valid server name",
                hint="use 1 to 32 lower-case letters and digits, separated by - or _",
            )
        if bool(self.url) == bool(self.command):
            raise ConfigurationError("a server needs either a URL or a command, not both")
        if self.url:
            self._check_url()
        else:
            self._check_command()

    def _check_url(self) -> None:
        try:
            parsed = self.parsed_url
        except InvalidUrlError as error:
            raise ConfigurationError(f"url cannot be used: {error.message}", hint=error.hint) from None
        if parsed.scheme != "https" and not self.is_loopback:
            raise ConfigurationError(
                "url must begin with https://", hint="http:// is allowed only for servers on this machine"
            )
        of_programs = ("env", "secret_env", "workspace", "read", "write", "network", "hosts", "package")
        given = [name for name in of_programs if getattr(self, name)]
        if given:
            raise ConfigurationError(
                f"{given[0]} is only for servers with a command",
                hint="omit it, or set a command",
            )
        if self.bearer and self.oauth is not None:
            raise ConfigurationError("a server needs either a bearer token or a login, not both")

    def _check_command(self) -> None:
        if not all(isinstance(part, str) and "\0" not in part for part in self.command) or not self.command[0]:
            raise ConfigurationError("command must be a program and its arguments")
        given = [name for name in ("bearer", "oauth") if getattr(self, name)]
        if given or self.transport is not Transport.AUTO:
            raise ConfigurationError(
                f"{given[0] if given else 'transport'} is only for servers with a URL", hint="omit it"
            )
        if self.network and self.hosts:
            raise ConfigurationError("network and hosts cannot both be set", hint="omit one of them")
        both = self.env.keys() & self.secret_env.keys()
        if both:
            raise ConfigurationError(f"the variable {min(both)} is set twice")
        for name in (*self.env, *self.secret_env):
            if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,127}", name):
                raise ConfigurationError(f"{name!r:.60} is not a valid variable name")
            if name.startswith(("LD_", "DYLD_")):
                raise ConfigurationError(f"the variable {name} changes which code a program loads")

    @property
    def parsed_url(self) -> ParsedUrl:
        """The URL, parsed."""
        return parse_url(self.url)

    @property
    def is_loopback(self) -> bool:
        """True if the server is reached over HTTP on this machine."""
        return bool(self.url) and self.parsed_url.host in LOOPBACK

    @property
    def requires_auth(self) -> bool:
        """True if a login is configured, or the server is remote and has no token."""
        return self.oauth is not None or (bool(self.url) and not self.is_loopback and not self.bearer)

    @property
    def consent_digest(self) -> str:
        """BLAKE3 of all approved settings, in hex: command, variables, grants, address, but no secrets."""
        parts = {
            "url": self.url,
            "command": list(self.command),
            "env": dict(self.env),
            "secret_env": dict(self.secret_env),
            "workspace": self.workspace,
            "read": list(self.read),
            "write": list(self.write),
            "network": self.network,
            "bearer": self.bearer,
        }
        if self.hosts:
            parts["hosts"] = [entry.as_dict() for entry in self.hosts]
        if self.package is not None:
            parts["package"] = self.package.as_json()
        return blake3(_DOMAIN + json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return the server's entry in the file, without default values."""
        data: dict[str, Any] = {"name": self.name}
        for name in ("url", "workspace", "bearer", "description"):
            if value := getattr(self, name):
                data[name] = value
        for name in ("command", "read", "write"):
            if values := getattr(self, name):
                data[name] = list(values)
        for name in ("env", "secret_env"):
            if variables := getattr(self, name):
                data[name] = dict(variables)
        if self.package is not None:
            data["package"] = self.package.as_json()
        if network := [entry.as_dict() for entry in self.hosts] or self.network:
            data["network"] = network
        if self.transport is not Transport.AUTO:
            data["transport"] = str(self.transport)
        if self.oauth is not None:
            data["oauth"] = _write_oauth(self.oauth)
        if self.timeout_seconds != MCP_CALL_SECONDS:
            data["timeout_seconds"] = self.timeout_seconds
        return data | {"trust": str(self.trust), "enabled": self.enabled}


def _write_oauth(oauth: OAuthConfig) -> dict[str, Any]:
    given = {name: getattr(oauth, name) for name in ("client_id", "authorization_url", "token_url")}
    data: dict[str, Any] = {name: value for name, value in given.items() if value}
    if oauth.scopes:
        data["scopes"] = list(oauth.scopes)
    if oauth.extra_params:
        data["extra_params"] = dict(oauth.extra_params)
    return data
