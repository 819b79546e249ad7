"""A credential: a secret, its location in a request, and the requests that carry it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from wasmrt.capabilities.model._endpoint import (
    EndpointPattern,
    host_matches,
    is_host_header,
    read_host_pattern,
    read_ports,
)
from wasmrt.capabilities.model._path import PathPattern, path_pattern, read_path_pattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.names import is_secret_name
from wasmrt.core.url import DEFAULT_PORTS, ParsedUrl

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_PLACEHOLDER = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_MAX_NAME_LENGTH = 128
_VISIBLE = re.compile(r"[\x20-\x7e]{0,256}\Z")
USUAL_PORTS = (DEFAULT_PORTS["https"],)
"""The default ports of a credential. If the allowlist has a single other port for the hosts, that port applies."""


_AWS_WORD = re.compile(r"[a-z0-9-]{1,64}\Z")
_AWS_HEADERS = ("authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")
_ENCODINGS = ("hex", "base64")


def _check_header(name: str, prefix: str) -> None:
    if not _HEADER_NAME.match(name):
        raise ConfigurationError(f"invalid header name {name!r}")
    if not _VISIBLE.match(prefix):
        raise ConfigurationError(f"invalid prefix for the header {name!r}: expected at most 256 ASCII characters")
    if is_host_header(name):
        raise ConfigurationError(f"header {name!r} is reserved for the host")


def read_secret_name(text: object) -> str:
    """Return a secret's name in lower case.

    Raises:
        ConfigurationError: the name is empty or too long, or contains characters other than letters, digits, `_`, `-`
            and `.`.
    """
    name = text.lower() if isinstance(text, str) else ""
    if not is_secret_name(name):
        raise ConfigurationError(f"secret name {text!r} must contain only letters, digits, '_', '-' and '.'")
    return name


class LocationType(StrEnum):
    """The locations in a request that can contain a secret or a signature."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY_PARAM = "query_param"
    URL_PATH = "url_path"
    AWS_SIGV4 = "aws_sigv4"
    """A signature of the request. The secret is an access key: `ID:SECRET` or `ID:SECRET:SESSION-TOKEN`."""
    HMAC_SHA256 = "hmac_sha256"
    """A signature of the body."""


@dataclass(frozen=True, slots=True)
class CredentialLocation:
    """The location of a secret in a request. Create it with the method for its type, such as `bearer()` or `header()`.

    Raises:
        ConfigurationError: a part is missing, or contains characters that could change other parts of the request.

    Examples:
        >>> from wasmrt import CredentialLocation
        >>> CredentialLocation.header("X-Api-Key").as_dict()
        {'type': 'header', 'name': 'X-Api-Key'}
    """

    type: LocationType
    name: str = ""
    """The name of the header or query parameter."""
    prefix: str = ""
    """Text before the secret in a header."""
    username: str = ""
    placeholder: str = ""
    """The word that a guest writes as `{word}` in the URL's path."""
    region: str = ""
    """The AWS region, such as `eu-central-1`."""
    service: str = ""
    """The AWS service, such as `s3`."""
    encoding: str = ""
    """The encoding of a signature: `hex` (the default) or `base64`."""
    timestamp_name: str = ""
    """The name of the header for the time, if the time is signed together with the body."""

    @classmethod
    def bearer(cls) -> CredentialLocation:
        """Send the secret in `Authorization: Bearer` (RFC 6750)."""
        return cls(LocationType.BEARER)

    @classmethod
    def basic(cls, username: str) -> CredentialLocation:
        """Send the secret as the password of `Authorization: Basic` (RFC 7617)."""
        return cls(LocationType.BASIC, username=username)

    @classmethod
    def header(cls, name: str, prefix: str = "") -> CredentialLocation:
        """Send the secret in a header, after `prefix`."""
        return cls(LocationType.HEADER, name=name, prefix=prefix)

    @classmethod
    def query_param(cls, name: str) -> CredentialLocation:
        """Send the secret as the value of a query parameter."""
        return cls(LocationType.QUERY_PARAM, name=name)

    @classmethod
    def url_path(cls, placeholder: str) -> CredentialLocation:
        """Replace `{placeholder}` in the URL's path with the secret."""
        return cls(LocationType.URL_PATH, placeholder=placeholder)

    @classmethod
    def aws_sigv4(cls, region: str, service: str) -> CredentialLocation:
        """Sign the request with AWS Signature Version 4."""
        return cls(LocationType.AWS_SIGV4, region=region, service=service)

    @classmethod
    def hmac_sha256(
        cls, name: str, prefix: str = "", *, encoding: str = "hex", timestamp_name: str = ""
    ) -> CredentialLocation:
        """Sign the body with HMAC-SHA256, and send the signature in the header `name`, after `prefix`.

        With `timestamp_name`, the time is sent in that header, and signed together with the body.
        """
        return cls(LocationType.HMAC_SHA256, name=name, prefix=prefix, encoding=encoding, timestamp_name=timestamp_name)

    def __post_init__(self) -> None:
        parts = tuple(getattr(self, f.name) for f in fields(self) if f.name != "type")
        if not isinstance(self.type, LocationType) or not all(isinstance(part, str) for part in parts):
            raise ConfigurationError("create a CredentialLocation with bearer(), basic(), header(), ...")
        match self.type:
            case LocationType.BASIC if ":" in self.username or not _VISIBLE.match(self.username):
                raise ConfigurationError("a basic credential's user name must not contain ':' or control characters")
            case LocationType.HEADER:
                _check_header(self.name, self.prefix)
            case LocationType.HMAC_SHA256:
                _check_header(self.name, self.prefix)
                if self.timestamp_name:
                    _check_header(self.timestamp_name, "")
                if self.encoding not in ("", *_ENCODINGS) or self.timestamp_name.lower() == self.name.lower():
                    raise ConfigurationError(
                        "a signature and its timestamp need different headers, and the encoding must be "
                        f"{' or '.join(_ENCODINGS)}"
                    )
                object.__setattr__(self, "encoding", self.encoding or _ENCODINGS[0])
            case LocationType.AWS_SIGV4 if not _AWS_WORD.match(self.region) or not _AWS_WORD.match(self.service):
                raise ConfigurationError("an AWS signature needs a region like 'eu-central-1' and a service like 's3'")
            case LocationType.QUERY_PARAM if not self.name or not _VISIBLE.match(self.name):
                raise ConfigurationError("a query parameter needs a name of visible characters")
            case LocationType.URL_PATH:
                word = self.placeholder.removeprefix("{").removesuffix("}")
                if not _PLACEHOLDER.match(word):
                    raise ConfigurationError(f"placeholder {word!r} must be a word like 'api_token'")
                object.__setattr__(self, "placeholder", word)

    @property
    def header_name(self) -> str | None:
        """The lower-case name of the header with the secret or signature, or None for a location in the URL."""
        if self.type in (LocationType.BEARER, LocationType.BASIC, LocationType.AWS_SIGV4):
            return "authorization"
        return self.name.lower() if self.type in (LocationType.HEADER, LocationType.HMAC_SHA256) else None

    @property
    def header_names(self) -> tuple[str, ...]:
        """The lower-case names of all headers that the host sets for this location. A guest must not set them."""
        if self.type is LocationType.AWS_SIGV4:
            return _AWS_HEADERS
        return tuple(name.lower() for name in (self.header_name, self.timestamp_name) if name)

    @property
    def signs(self) -> bool:
        """True if the secret only signs requests, and is never sent."""
        return self.type in (LocationType.AWS_SIGV4, LocationType.HMAC_SHA256)

    @property
    def slot(self) -> str:
        """A text that is equal for two locations if a request can contain only one of them."""
        if self.header_name is not None:
            return f"header {self.header_name}"
        return f"query {self.name}" if self.type is LocationType.QUERY_PARAM else f"path {{{self.placeholder}}}"

    def as_dict(self) -> dict[str, Any]:
        """Return the location as in a capability file."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "type"}
        if self.encoding == _ENCODINGS[0]:
            del parts["encoding"]
        return {"type": str(self.type)} | {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialMapping:
    """A credential: a secret, its location in a request, and the hosts and paths whose requests carry the secret.

    Without path patterns, requests to all paths of the hosts carry the secret. If the secret is not set, these requests
    are refused, or sent without the secret if the credential is `optional`.

    Raises:
        ConfigurationError: there is no host, or a part is ambiguous or invalid.

    Examples:
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
    """The ports of the hosts. If it is empty, `HttpCapability` sets it to 443, or to the only port that the allowlist
    has for the hosts."""
    name: str = ""
    """The key of the credential in the capability file; by default the name of the secret."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "secret_name", read_secret_name(self.secret_name))
        put(self, "name", self.name or self.secret_name)
        if len(self.name) > _MAX_NAME_LENGTH or not _VISIBLE.match(self.name):
            raise ConfigurationError(
                f"a credential's name must have at most {_MAX_NAME_LENGTH} characters, all visible ASCII"
            )
        if not isinstance(self.location, CredentialLocation) or not isinstance(self.optional, bool):
            raise ConfigurationError(
                f"credential {self.name!r}: location must be a CredentialLocation, and optional a bool"
            )
        if not self.host_patterns:
            raise ConfigurationError(f"credential {self.name!r} has no host", hint='add "host_patterns"')
        put(self, "host_patterns", _read_each(self.host_patterns, read_host_pattern))
        put(self, "path_patterns", _read_each(self.path_patterns, read_path_pattern))
        put(self, "ports", read_ports(self.ports))

    def matches(self, url: ParsedUrl) -> bool:
        """Return whether a request to `url` carries this credential. The caller checks that the request uses TLS."""
        return self._rank_host(url) is not None and self._rank_path(url) is not None

    def has_place(self, url: ParsedUrl) -> bool:
        """Return whether the secret can be put into a request to `url`: a placeholder, if any, must be in the path."""
        location = self.location
        return location.type is not LocationType.URL_PATH or f"{{{location.placeholder}}}" in url.path

    @property
    def paths(self) -> tuple[PathPattern, ...]:
        """The paths whose requests carry the secret; without path patterns, every path."""
        return tuple(path_pattern(text, is_exact=False) for text in self.path_patterns or ("/",))

    def get_precedence(self, url: ParsedUrl) -> tuple[tuple[int, int, int], int, str, str]:
        """Return a sort key that orders matching credentials from general to specific: by path, host, then names."""
        return (self._rank_path(url) or (0, 0, 0), self._rank_host(url) or 0, self.secret_name, self.name)

    def _rank_host(self, url: ParsedUrl) -> int | None:
        ranks = [len(p) + 1000 * (p[0] != "*") for p in self.host_patterns if host_matches(p, url.host)]
        return max(ranks, default=None)

    def _rank_path(self, url: ParsedUrl) -> tuple[int, int, int] | None:
        if not self.path_patterns:
            return (0, 0, 0)
        return max((pattern.rank for pattern in self.paths if pattern.matches(url.segments)), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return the credential as in a capability file, without the name, which is the key of the credential there."""
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
    """Return the credentials that a request to `url` carries, only the most specific one for each location.

    SECURITY: a credential is only sent to its ports over https. For an http URL, credentials of all ports are returned,
    so that the caller refuses the request instead of sending it without the credential.
    """
    winners: dict[str, CredentialMapping] = {}
    for mapping in sorted((m for m in credentials if m.matches(url)), key=lambda m: m.get_precedence(url)):
        if url.scheme == "http" or url.port in (mapping.ports or USUAL_PORTS):
            winners[mapping.location.slot] = mapping
    return tuple(winners[slot] for slot in sorted(winners))


def exposed_credential(credentials: Iterable[CredentialMapping], url: ParsedUrl) -> CredentialMapping | None:
    """Return a credential that a request to `url` would send unencrypted, or None."""
    if url.scheme == "https":
        return None
    return next((mapping for mapping in matching_credentials(credentials, url) if mapping.has_place(url)), None)


def usual_ports(hosts: Iterable[str], allowlist: Iterable[EndpointPattern]) -> tuple[int, ...]:
    """Return the default ports of a credential for these hosts: 443, or the only port of a host in the allowlist.

    If the hosts have different ports, the result contains all of them. But if a host would then get the credential on a
    port that only applies to another host, the result is 443.
    """
    entries, default = tuple(allowlist), DEFAULT_PORTS["https"]
    listed = [
        {
            port
            for entry in entries
            if host_matches(entry.host_pattern, host) or host_matches(host, entry.host_pattern)
            for port in entry.get_ports("https")
        }
        for host in hosts
    ]
    usual = [ports if len(ports) == 1 else {default} for ports in listed]
    every = set().union(*(own for own, ports in zip(usual, listed, strict=True) if ports)) or {default}
    fits = all(ports & every <= own for own, ports in zip(usual, listed, strict=True))
    return tuple(sorted(every)) if fits else (default,)


def with_ports(mapping: CredentialMapping, allowlist: Iterable[EndpointPattern]) -> CredentialMapping:
    """Set the ports of a credential without ports to the default ports for this allowlist."""
    return mapping if mapping.ports else replace(mapping, ports=usual_ports(mapping.host_patterns, allowlist))


def _read_each(items: Iterable[str], read: Any) -> tuple[str, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    found = tuple(dict.fromkeys(read(item) for item in items))
    if len(found) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"a credential must have at most {MAX_CAPABILITY_ENTRIES} hosts or paths")
    return found
