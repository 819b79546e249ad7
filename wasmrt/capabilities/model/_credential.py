"""A credential: a secret, its place in a request, and the requests it belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wasmrt.capabilities.model._endpoint import host_matches, read_host_pattern, read_path_prefix
from wasmrt.capabilities.model._host_headers import is_host_header
from wasmrt.errors import ConfigurationError
from wasmrt.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.names import is_secret_name
from wasmrt.url import ParsedUrl, is_under

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}\Z")
_PLACEHOLDER = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_MAX_NAME_LENGTH = 128
_VISIBLE = re.compile(r"[\x20-\x7e]{0,256}\Z")


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


@dataclass(frozen=True, slots=True)
class CredentialLocation:
    """The place a secret is put. Use the constructors; each kind has its own part.

    Raises:
        ConfigurationError: a part is missing, or could break out of its place.
    """

    type: LocationType
    name: str = ""
    """The header or query parameter."""
    prefix: str = ""
    """Text before the secret in a header."""
    username: str = ""
    placeholder: str = ""
    """The word that a guest writes as `{word}` in the URL's path."""

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

    def __post_init__(self) -> None:
        parts = (self.name, self.prefix, self.username, self.placeholder)
        if not isinstance(self.type, LocationType) or not all(isinstance(part, str) for part in parts):
            raise ConfigurationError("a credential's place is made with bearer(), basic(), header(), ...")
        match self.type:
            case LocationType.BASIC if ":" in self.username or not _VISIBLE.match(self.username):
                raise ConfigurationError("a basic credential's user name may not hold ':' or control characters")
            case LocationType.HEADER if not _HEADER_NAME.match(self.name) or not _VISIBLE.match(self.prefix):
                raise ConfigurationError(f"header {self.name!r} or its prefix is not what a header can hold")
            case LocationType.HEADER if is_host_header(self.name):
                raise ConfigurationError(f"header {self.name!r} belongs to the host, not to a credential")
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
        if self.type in (LocationType.BEARER, LocationType.BASIC):
            return "authorization"
        return self.name.lower() if self.type is LocationType.HEADER else None

    @property
    def slot(self) -> str:
        """A name of the place, so that two credentials never share one."""
        if self.header_name is not None:
            return f"header {self.header_name}"
        return f"query {self.name}" if self.type is LocationType.QUERY_PARAM else f"path {{{self.placeholder}}}"

    def as_dict(self) -> dict[str, Any]:
        """Return the capability file's object that says the same."""
        parts = {"name": self.name, "prefix": self.prefix, "username": self.username, "placeholder": self.placeholder}
        return {"type": str(self.type)} | {key: value for key, value in parts.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialMapping:
    """A secret, the place it goes, and the hosts and paths whose requests get it.

    No path patterns means every path of those hosts. Without the secret such a request is refused, unless the
    credential is `optional`.

    Raises:
        ConfigurationError: no host, or a part that cannot be read in exactly one way.
    """

    secret_name: str
    location: CredentialLocation
    host_patterns: tuple[str, ...]
    path_patterns: tuple[str, ...] = ()
    optional: bool = False
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
        if self.optional:
            data["optional"] = True
        return data


def matching_credentials(credentials: Iterable[CredentialMapping], url: ParsedUrl) -> tuple[CredentialMapping, ...]:
    """Return the credentials that a request to `url` gets: one for each place, the most specific winning."""
    winners: dict[str, CredentialMapping] = {}
    for mapping in sorted((m for m in credentials if m.matches(url)), key=lambda m: m.precedence(url)):
        winners[mapping.location.slot] = mapping
    return tuple(winners[slot] for slot in sorted(winners))


def exposed_credential(credentials: Iterable[CredentialMapping], url: ParsedUrl) -> CredentialMapping | None:
    """Return a credential that a request to `url` would carry over plain http; None where it would carry none."""
    if url.scheme == "https":
        return None
    return next((mapping for mapping in matching_credentials(credentials, url) if mapping.has_place(url)), None)


def _read_each(items: Iterable[str], read: Any) -> tuple[str, ...]:
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigurationError(f"{items!r} must be a list")
    found = tuple(dict.fromkeys(read(item) for item in items))
    if len(found) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"a credential may name {MAX_CAPABILITY_ENTRIES} hosts or paths")
    return found
