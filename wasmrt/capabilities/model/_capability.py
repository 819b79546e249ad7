"""The capabilities one by one, checked when they are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wasmrt.capabilities.model._checks import check_numbers, set_tuple, unique
from wasmrt.capabilities.model._credential import CredentialMapping, matching_credentials, read_secret_name
from wasmrt.capabilities.model._endpoint import ANY_HOST, EndpointPattern, host_matches
from wasmrt.capabilities.model._workspace_path import is_under_prefixes, read_prefix
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import (
    DEFAULT_HTTP_TIMEOUT_SECONDS,
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_RESPONSE_BYTES,
    DEFAULT_REQUESTS_PER_HOUR,
    DEFAULT_REQUESTS_PER_MINUTE,
    DEFAULT_WRITE_BYTES,
    DEFAULT_WRITE_FILE_BYTES,
    DEFAULT_WRITE_FILES,
    MAX_CAPABILITY_ENTRIES,
    MAX_WRITE_BYTES,
    MAX_WRITE_FILES,
)
from wasmrt.core.names import is_alias, is_invoked_name
from wasmrt.core.url import DEFAULT_PORTS, ParsedUrl

MAX_REQUESTS = 1_000_000
MAX_HTTP_TIMEOUT_SECONDS = 3600
_MAX_CREDENTIAL_PLACES = 4 * MAX_CAPABILITY_ENTRIES


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """Requests in sliding windows, counted for one user and one tool.

    Example:
        >>> from wasmrt import RateLimitConfig
        >>> RateLimitConfig(requests_per_minute=10).requests_per_hour
        1000
    """

    requests_per_minute: int = DEFAULT_REQUESTS_PER_MINUTE
    requests_per_hour: int = DEFAULT_REQUESTS_PER_HOUR

    def __post_init__(self) -> None:
        check_numbers(self, "requests_per_minute", "requests_per_hour", maximum=MAX_REQUESTS)


@dataclass(frozen=True, slots=True)
class HttpCapability:
    """The requests that may leave, the credentials they get, and how much of both.

    Example:
        >>> from wasmrt import Capabilities, EndpointPattern, HttpCapability
        >>> http = HttpCapability(allowlist=(EndpointPattern.host("api.example.com"),), timeout_seconds=5.0)
        >>> Capabilities.none().with_http(http).http.timeout_seconds
        5.0
    """

    allowlist: tuple[EndpointPattern, ...] = ()
    credentials: tuple[CredentialMapping, ...] = ()
    """Also taken as a mapping from name to credential. One that names no port gets its usual ones, once and for all."""
    rate_limit: RateLimitConfig = RateLimitConfig()
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    timeout_seconds: float = DEFAULT_HTTP_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if isinstance(self.credentials, Mapping):
            if not all(isinstance(mapping, CredentialMapping) for mapping in self.credentials.values()):
                raise ConfigurationError("credentials may hold CredentialMapping only")
            named = tuple(replace(mapping, name=name) for name, mapping in self.credentials.items())
            object.__setattr__(self, "credentials", named)
        set_tuple(self, "allowlist", EndpointPattern)
        set_tuple(self, "credentials", CredentialMapping)
        check_numbers(self, "max_request_bytes", "max_response_bytes")
        check_numbers(self, "timeout_seconds", maximum=MAX_HTTP_TIMEOUT_SECONDS)
        places = sum(len(mapping.host_patterns) + len(mapping.path_patterns) for mapping in self.credentials)
        if places > _MAX_CREDENTIAL_PLACES:
            raise ConfigurationError(f"the credentials may name {_MAX_CREDENTIAL_PLACES} hosts and paths together")
        if self.credentials and any(entry.host_pattern == ANY_HOST for entry in self.allowlist):
            # SECURITY: with a credential, a page from anywhere could have private answers sent anywhere.
            raise ConfigurationError(
                "any_public_host never stands together with a credential",
                hint="name the hosts, or leave one of both out",
            )
        names = [mapping.name for mapping in self.credentials]
        if len(set(names)) < len(names):
            raise ConfigurationError("two credentials have the same name", hint="give each a name of its own")
        # SECURITY: written into it now, so that a narrower copy of the allowlist never moves a secret to another port.
        object.__setattr__(self, "credentials", tuple(with_ports(each, self.allowlist) for each in self.credentials))

    def credentials_for(self, url: ParsedUrl) -> tuple[CredentialMapping, ...]:
        """Return the credentials that a request to `url` gets: one for each place, the most specific."""
        return matching_credentials(self.credentials, url)


def usual_ports(hosts: Iterable[str], allowlist: Iterable[EndpointPattern]) -> tuple[int, ...]:
    """Return the ports of a credential for these hosts that names none: 443, or the only one that the allowlist has.

    Hosts may differ in it, unless one of them would then get the credential at a port that is only another's.
    """
    entries, default = tuple(allowlist), DEFAULT_PORTS["https"]
    listed = [
        {
            port
            for entry in entries
            if host_matches(entry.host_pattern, host) or host_matches(host, entry.host_pattern)
            for port in entry.ports_for("https")
        }
        for host in hosts
    ]
    usual = [ports if len(ports) == 1 else {default} for ports in listed]
    every = set().union(*(own for own, ports in zip(usual, listed, strict=True) if ports)) or {default}
    fits = all(ports & every <= own for own, ports in zip(usual, listed, strict=True))
    return tuple(sorted(every)) if fits else (default,)


def with_ports(mapping: CredentialMapping, allowlist: Iterable[EndpointPattern]) -> CredentialMapping:
    """Return the credential, where it names no port with the usual ones of this allowlist."""
    return mapping if mapping.ports else replace(mapping, ports=usual_ports(mapping.host_patterns, allowlist))


@dataclass(frozen=True, slots=True)
class WorkspaceCapability:
    """The parts of the workspace that may be read. The prefix `""` is all of it; no prefix is nothing.

    Example:
        >>> from wasmrt import WorkspaceCapability
        >>> reports = WorkspaceCapability(("reports/",))
        >>> reports.allows("reports/may.txt"), reports.allows("notes.txt")
        (True, False)
    """

    allowed_prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _set_prefixes(self)

    def allows(self, path: str) -> bool:
        """Tell whether a path that was already found valid lies under a prefix, by whole segments."""
        return is_under_prefixes(path, self.allowed_prefixes)


@dataclass(frozen=True, slots=True)
class WorkspaceWriteCapability:
    """The parts of the workspace that may be written, and how much of it. The prefix `""` is all of it.

    Reading is a capability of its own. Identity files and what wasmrt decides by are never written, whatever stands
    here.
    """

    allowed_prefixes: tuple[str, ...] = ()
    max_file_bytes: int = DEFAULT_WRITE_FILE_BYTES
    """Of one file."""
    max_bytes: int = DEFAULT_WRITE_BYTES
    """Of all that one call writes; what is written twice counts twice."""
    max_files: int = DEFAULT_WRITE_FILES
    """Names that one call makes, writes, moves or removes."""
    remove: bool = False
    """True where files and empty folders may be removed that the call itself has not made."""

    def __post_init__(self) -> None:
        _set_prefixes(self)
        check_numbers(self, "max_file_bytes", "max_bytes", maximum=MAX_WRITE_BYTES)
        check_numbers(self, "max_files", maximum=MAX_WRITE_FILES)
        if not isinstance(self.remove, bool):
            raise ConfigurationError("remove must be true or false")

    def allows(self, path: str) -> bool:
        """Tell whether a path that was already found valid lies under a prefix, by whole segments."""
        return is_under_prefixes(path, self.allowed_prefixes)


def _set_prefixes(owner: WorkspaceCapability | WorkspaceWriteCapability) -> None:
    set_tuple(owner, "allowed_prefixes", str)
    prefixes = unique(read_prefix, owner.allowed_prefixes)
    object.__setattr__(owner, "allowed_prefixes", ("",) if "" in prefixes else prefixes)


@dataclass(frozen=True, slots=True)
class SecretsCapability:
    """The names whose existence a guest may ask about: exact, or ending in `*`.

    Example:
        >>> from wasmrt import SecretsCapability
        >>> SecretsCapability(("github_*",)).allows("github_token")
        True
    """

    allowed_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_tuple(self, "allowed_names", str)
        object.__setattr__(self, "allowed_names", unique(read_secret_glob, self.allowed_names))

    def allows(self, name: str) -> bool:
        """Tell whether a guest may ask about a name, in any case."""
        return any(glob_covers(pattern, name.lower()) for pattern in self.allowed_names)


@dataclass(frozen=True, slots=True)
class ToolInvokeCapability:
    """The tools that may be called, by alias; the guest never learns the names behind them.

    Example:
        >>> from wasmrt import ToolInvokeCapability
        >>> ToolInvokeCapability((("parse", "json"),)).resolve("parse")
        'json'
    """

    aliases: tuple[tuple[str, str], ...] = ()
    """Pairs of alias and tool name, sorted; also taken as a mapping."""
    rate_limit: RateLimitConfig = RateLimitConfig()

    def __post_init__(self) -> None:
        pairs = self.aliases.items() if isinstance(self.aliases, Mapping) else self.aliases
        try:
            object.__setattr__(self, "aliases", tuple(sorted((str(a), str(t)) for a, t in pairs)))
        except (TypeError, ValueError):
            raise ConfigurationError("aliases must map an alias to a tool's name") from None
        set_tuple(self, "aliases", tuple)
        if len(dict(self.aliases)) < len(self.aliases):
            raise ConfigurationError("one alias stands for two tools")
        for alias, tool in self.aliases:
            read_alias(alias)
            read_tool_name(tool)

    def resolve(self, alias: str) -> str | None:
        """Return the tool behind an alias; None where it stands for nothing."""
        return dict(self.aliases).get(alias)


def glob_covers(pattern: str, name: str) -> bool:
    """Tell whether `pattern` covers a name, or everything that a second pattern covers."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def read_alias(text: object) -> str:
    """Return an alias as it is.

    Raises:
        ConfigurationError: it holds anything but letters, digits, `_`, `-` and `.`.
    """
    if not isinstance(text, str) or not is_alias(text):
        raise ConfigurationError(f"alias {text!r} may hold letters, digits, '_', '-' and '.' only")
    return text


def read_tool_name(text: object) -> str:
    """Return the name of the tool behind an alias as it is.

    Raises:
        ConfigurationError: it is empty, long or holds invisible characters.
    """
    if not isinstance(text, str) or not is_invoked_name(text):
        raise ConfigurationError(f"{text!r} is not a tool's name")
    return text


def read_secret_glob(text: str) -> str:
    """Return a secret's name, or a `*`-ended beginning of names, in lower case.

    Raises:
        ConfigurationError: the text is neither.
    """
    stem, star = text.removesuffix("*"), text.endswith("*")
    if not star:
        return read_secret_name(text)
    if "*" in stem:
        raise ConfigurationError(f"secret name {text!r} may hold '*' only at its end")
    # A stem may end in a mark that a whole name may not: `openai-*`.
    return f"{read_secret_name(stem + 'x')[:-1]}*" if stem else "*"
