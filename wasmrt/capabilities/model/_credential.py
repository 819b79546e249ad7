"""A credential: a secret, its place in a request, and the requests it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from wasmrt.capabilities.model._endpoint import (
    EndpointPattern,
    host_matches,
    read_host_pattern,
    read_path_prefix,
    read_ports,
)
from wasmrt.capabilities.model._host_headers import is_host_header
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.names import is_secret_name
from wasmrt.core.url import DEFAULT_PORTS, ParsedUrl, is_under

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_PLACEHOLDER = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_MAX_NAME_LENGTH = 128
_VISIBLE = re.compile(r"[\x20-\x7e]{0,256}\Z")
USUAL_PORTS = (DEFAULT_PORTS["https"],)
"""The ports of a credential that names none, where no allowlist says otherwise."""


_AWS_WORD = re.compile(r"[a-z0-9-]{1,64}\Z")
_AWS_HEADERS = ("authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
_ENCODINGS = ("hex", "base64")


def _check_header(name: str, prefix: str) -> None:
    if not _HEADER_NAME.match(name) or not _VISIBLE.match(prefix):
        raise ConfigurationError(f"header {name!r} or its prefix is not what a header can hold")
    if is_host_header(name):
        raise ConfigurationError(f"header {name!r} belongs to the host, not to a credential")


def read_secret_name(text: object) -> str:
    """Return a secret's name in lower case.

    Raises:
        ConfigurationError: the name holds anything but letters, digits, `_`, `-` and `.`.
    """
    name = text.lower() if isinstance(text, str) else ""
    if not is_secret_name(name):
        raise ConfigurationError(f"secret name {text!r} may hold letters, digits, '_', '-' and '.' only")
    return name


class LocationType(StrEnum):
    """The places of a request that can hold a secret."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY_PARAM = "query_param"
    URL_PATH = "url_path"
    AWS_SIGV4 = "aws_sigv4"
    """Signs the request; the secret is `ID:SECRET` of an access key, or `ID:SECRET:SESSION-TOKEN`."""
    HMAC_SHA256 = "hmac_sha256"
    """Signs the body."""


@dataclass(frozen=True, slots=True)
class CredentialLocation:
    """The place a secret is put. Use the constructors; each kind has its own part.

    Raises:
        ConfigurationError: a part is missing, or could break out of its place.

    Example:
        >>> from wasmrt import CredentialLocation
        >>> CredentialLocation.header("X-Api-Key").as_dict()
        {'type': 'header', 'name': 'X-Api-Key'}
    """

    type: LocationType
    name: str = ""
    """The header or query parameter."""
    prefix: str = ""
    """Text before the secret in a header."""
    username: str = ""
    placeholder: str = ""
    """The word that a guest writes as `{word}` in the URL's path."""
    region: str = ""
    """The region of AWS, such as `eu-central-1`."""
    service: str = ""
    """The service of AWS, such as `s3`."""
    encoding: str = ""
    """Of a signature: `hex`, which it is where nothing is said, or `base64`."""
    timestamp_name: str = ""
    """The header with the time, where it is signed together with the body."""

    @classmethod
    def bearer(cls) -> CredentialLocation:
        """Put it into `Authorization: Bearer` (RFC 6750)."""
        return cls(LocationType.BEARER)

    @classmethod
    def basic(cls, username: str) -> CredentialLocation:
        """Make it the password of `Authorization: Basic` (RFC 7617)."""
        return cls(LocationType.BASIC, username=username)

    @classmethod
    def header(cls, name: str, prefix: str = "") -> CredentialLocation:
        """Put it into a header, after `prefix`."""
        return cls(LocationType.HEADER, name=name, prefix=prefix)

    @classmethod
    def query_param(cls, name: str) -> CredentialLocation:
        """Make it the value of a query parameter."""
        return cls(LocationType.QUERY_PARAM, name=name)

    @classmethod
    def url_path(cls, placeholder: str) -> CredentialLocation:
        """Put it where the guest wrote `{placeholder}` in the URL's path."""
        return cls(LocationType.URL_PATH, placeholder=placeholder)

    @classmethod
    def aws_sigv4(cls, region: str, service: str) -> CredentialLocation:
        """Sign the request with it, by AWS Signature Version 4."""
        return cls(LocationType.AWS_SIGV4, region=region, service=service)

    @classmethod
    def hmac_sha256(
        cls, name: str, prefix: str = "", *, encoding: str = "hex", timestamp_name: str = ""
    ) -> CredentialLocation:
        """Sign the body with it, into a header after `prefix`; the time as well where a header for it is named."""
        return cls(LocationType.HMAC_SHA256, name=name, prefix=prefix, encoding=encoding, timestamp_name=timestamp_name)

    def __post_init__(self) -> None:
        parts = tuple(getattr(self, f.name) for f in fields(self) if f.name != "type")
        if not isinstance(self.type, LocationType) or not all(isinstance(part, str) for part in parts):
            raise ConfigurationError("a credential's place is made with bearer(), basic(), header(), ...")
        match self.type:
            case LocationType.BASIC if ":" in self.username or not _VISIBLE.match(self.username):
                raise ConfigurationError("a basic credential's user name may not hold ':' or control characters")
            case LocationType.HEADER:
                _check_header(self.name, self.prefix)
            case LocationType.HMAC_SHA256:
                _check_header(self.name, self.prefix)
                if self.timestamp_name:
                    _check_header(self.timestamp_name, "")
                if self.encoding not in ("", *_ENCODINGS) or self.timestamp_name.lower() == self.name.lower():
                    raise ConfigurationError(f"a signature is in {' or '.join(_ENCODINGS)}, in a header of its own")
                object.__setattr__(self, "encoding", self.encoding or _ENCODINGS[0])
            case LocationType.AWS_SIGV4 if not _AWS_WORD.match(self.region) or not _AWS_WORD.match(self.service):
                raise ConfigurationError(
                    "a signature for AWS needs a region like 'eu-central-1' and a service like 's3'"
                )
            case LocationType.QUERY_PARAM if not self.name or not _VISIBLE.match(self.name):
                raise ConfigurationError("a query parameter needs a name of visible characters")
            case LocationType.URL_PATH:
                word = self.placeholder.removeprefix("{").removesuffix("}")
                if not _PLACEHOLDER.match(word):
                    raise ConfigurationError(f"placeholder {word!r} must be a word like 'api_token'")
                object.__setattr__(self, "placeholder", word)

    @property
    def header_name(self) -> str | None:
        """The header that the guest may not set itself, in lower case; None for a place in the URL."""
        if self.type in (LocationType.BEARER, LocationType.BASIC, LocationType.AWS_SIGV4):
            return "authorization"
        return self.name.lower() if self.type in (LocationType.HEADER, LocationType.HMAC_SHA256) else None

    @property
    def header_names(self) -> tuple[str, ...]:
        """Every header that the guest may not set itself, in lower case."""
        if self.type is LocationType.AWS_SIGV4:
            return _AWS_HEADERS
        return tuple(name.lower() for name in (self.header_name, self.timestamp_name) if name)

    @property
    def signs(self) -> bool:
        """True for a secret that signs requests and never goes into one."""
        return self.type in (LocationType.AWS_SIGV4, LocationType.HMAC_SHA256)

    @property
    def slot(self) -> str:
        """A name of the place, so that two credentials never share one."""
        if self.header_name is not None:
            return f"header {self.header_name}"
        return f"query {self.name}" if self.type is LocationType.QUERY_PARAM else f"path {{{self.placeholder}}}"

    def as_dict(self) -> dict[str, Any]:
        """Return the capability file's object that says the same."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "type"}
        if self.encoding == _ENCODINGS[0]:
            del parts["encoding"]
        return {"type": str(self.type)} | {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialMapping:
    """A secret, the place it goes, and the hosts and paths whose requests get it.

    No path patterns means every path of those hosts. Without the secret such a request is refused, unless the
    credential is `optional`.

    Raises:
        ConfigurationError: no host, or a part that cannot be read in exactly one way.

    Example:
        >>> from wasmrt import CredentialLocation, CredentialMapping
        >>> token = CredentialMapping(
        ...     secret_name="api_token", location=CredentialLocation.bearer(), host_patterns=("api.example.com",)
        ... )
        >>> token.secret_name, token.optional
        ('api_token', False)
    """

    secret_name: str
    location: CredentialLocation
    host_patterns: tuple[str, ...]
    path_patterns: tuple[str, ...] = ()
    optional: bool = False
    ports: tuple[int, ...] = ()
    """The ports of those hosts. None are 443, or the only port that the allowlist has where that is another; the
    `HttpCapability` that it is put into writes them here."""
    name: str = ""
    """Its key in the capability file; the secret's name where none is given."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "secret_name", read_secret_name(self.secret_name))
        put(self, "name", self.name or self.secret_name)
        if len(self.name) > _MAX_NAME_LENGTH or not _VISIBLE.match(self.name):
            raise ConfigurationError("a credential's name must be short and of visible characters")
        if not isinstance(self.location, CredentialLocation) or not isinstance(self.optional, bool):
            raise ConfigurationError(f"credential {self.name!r} needs a CredentialLocation, and optional as a flag")
        if not self.host_patterns:
            raise ConfigurationError(f"credential {self.name!r} names no host", hint='add "host_patterns"')
        put(self, "host_patterns", _read_each(self.host_patterns, read_host_pattern))
        put(self, "path_patterns", _read_each(self.path_patterns, read_path_prefix))
        put(self, "ports", read_ports(self.ports))

    def matches(self, url: ParsedUrl) -> bool:
        """Tell whether a request to `url` gets this credential; that it goes over TLS is the caller's to check."""
        return self._host_rank(url) is not None and self._path_rank(url) is not None

    def has_place(self, url: ParsedUrl) -> bool:
        """Tell whether a request to `url` has the place for it: a placeholder in the path may be missing."""
        location = self.location
        return location.type is not LocationType.URL_PATH or f"{{{location.placeholder}}}" in url.path

    def precedence(self, url: ParsedUrl) -> tuple[int, int, str, str]:
        """Return a key that sorts matching credentials from general to specific: path prefix, host, then the names."""
        return (self._path_rank(url) or 0, self._host_rank(url) or 0, self.secret_name, self.name)

    def _host_rank(self, url: ParsedUrl) -> int | None:
        ranks = [len(p) + 1000 * (p[0] != "*") for p in self.host_patterns if host_matches(p, url.host)]
        return max(ranks, default=None)

    def _path_rank(self, url: ParsedUrl) -> int | None:
        if not self.path_patterns:
            return 0
        return max((len(p) for p in self.path_patterns if is_under(p, url.segments)), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the capability file's object that says the same; its name is the key."""
        data: dict[str, Any] = {
            "secret_name": self.secret_name,
            "location": self.location.as_dict(),
            "host_patterns": list(self.host_patterns),
        }
        if self.path_patterns:
            data["path_patterns"] = list(self.path_patterns)
        if self.ports:
            data["ports"] = list(self.ports)
        if self.optional:
            data["optional"] = True
        return data


def matching_credentials(credentials: Iterable[CredentialMapping], url: ParsedUrl) -> tuple[CredentialMapping, ...]:
    """Return the credentials that a request to `url` gets: one for each place, the most specific winning.

    SECURITY: a credential belongs to a scheme, a host and a port. Over http it matches at every port, so that
    the request is refused and not sent without it.
    """
    winners: dict[str, CredentialMapping] = {}
    for mapping in sorted((m for m in credentials if m.matches(url)), key=lambda m: m.precedence(url)):
        if url.scheme == "http" or url.port in (mapping.ports or USUAL_PORTS):
            winners[mapping.location.slot] = mapping
    return tuple(winners[slot] for slot in sorted(winners))


def exposed_credential(credentials: Iterable[CredentialMapping], url: ParsedUrl) -> CredentialMapping | None:
    """Return a credential that a request to `url` would carry over plain http; None where it would carry none."""
    if url.scheme == "https":
        return None
    return next((mapping for mapping in matching_credentials(credentials, url) if mapping.has_place(url)), None)


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


def _read_each(items: Iterable[str], read: Any) -> tuple[str, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    found = tuple(dict.fromkeys(read(item) for item in items))
    if len(found) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"a credential may name {MAX_CAPABILITY_ENTRIES} hosts or paths")
    return found
