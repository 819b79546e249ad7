"""Entries of an allowlist, with their hosts, ports, paths and methods, and the headers that no request may set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from wasmrt.capabilities.model._path import PathPattern, path_pattern, read_path_pattern
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.url import DEFAULT_PORTS, UnreadableError, parse_address, read_host

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
READ_METHODS = ("GET", "HEAD")
"""Methods that only read (RFC 9110, 9.2.1); OPTIONS and TRACE are left out because no tool needs them."""
ANY_HOST = "*"
"""The host of an entry for every public host. A capability file cannot contain this value as a host."""
_WITH_PORT = re.compile(r"(\[[^\[\]]+\]|[^:\[\]/@?]+):([0-9]*)\Z")
_URL = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#@]*@)?)?(?P<host>\[[^\[\]]+\]|[^:\[\]/@?#]+)(?::(?P<port>[0-9]+))?"
    r"(?P<path>/[\x21-\x22\x24-\x3e\x40-\x7e]*)?(?:[?#].*)?\Z"
)


def read_host_pattern(text: object) -> str:
    """Return the canonical spelling of an exact host or a `*.` pattern.

    Raises:
        ConfigurationError: the pattern is invalid, or is a wildcard below a top-level domain, such as `*.com`.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"a host must be text, not {type(text).__name__}")
    wildcard = text.startswith("*.")
    bare = text[2:] if wildcard else text
    if "*" in bare:
        hint = 'for every public host write "any_public_host": true instead of a host' if text == ANY_HOST else None
        raise ConfigurationError(f"host {text!r}: '*' is only allowed as a leading '*.' before a domain", hint=hint)
    try:
        host = read_host(bare, brackets=False)
    except UnreadableError as problem:
        reason = _find_host_problem(text) or problem
        raise ConfigurationError(f"invalid host {text!r}: {reason}", hint=_find_host_hint(text)) from None
    if not wildcard:
        return host
    if parse_address(host) is not None or "." not in host:
        raise ConfigurationError(
            f"host {text!r} is too wide: '*.' needs a domain of at least two labels after it",
            hint="write '*.example.com'",
        )
    return f"*.{host}"


def _find_host_problem(text: str) -> str | None:
    if "://" in text:
        return "expected only a host, got a URL"
    if any(mark in text for mark in "/?#@"):
        return "expected only a host, got a part of a URL"
    return "it contains a port" if _WITH_PORT.match(text) else None


def _find_host_hint(text: str) -> str | None:
    if any(mark in text for mark in "/?#@"):
        found = _URL.match(text)
        parts = "" if found is None else f": {_write_url_members(**found.groupdict())}"
        return f"write only the host, without scheme, path or user{parts}"
    if found := _WITH_PORT.match(text):
        return f'write the port separately: "host": "{found[1]}", "port": {found[2] or 443}'
    if any(mark in text for mark in ":[]"):
        return (
            'write an IPv6 address like "2606:4700::1111" or "[2606:4700::1111]", and an IPv4 address without brackets'
        )
    return None


def _write_url_members(scheme: str | None, host: str, port: str | None, path: str | None) -> str:
    """Return JSON members, without braces, of an allowlist entry for a URL. `scheme` is None if the URL has none."""
    try:
        parts = [f'"host": "{host[:2] if host.startswith("*.") else ""}{read_host(host.removeprefix("*."))}"']
    except UnreadableError:
        parts = ['"host": "api.example.com"']
    parts += [f'"port": {port}'] if port else []
    parts += ['"scheme": "http"'] if scheme == "http" else []
    return ", ".join(parts + ([f'"path_prefix": {json.dumps(path)}'] if path and path != "/" else []))


def host_matches(pattern: str, host: str) -> bool:
    """Return whether a pattern covers a host. `*.` covers subdomains at any depth, but not the domain itself.

    Both arguments must be in canonical spelling. `ANY_HOST` covers every host; whether the host is public is checked by
    its addresses.
    """
    if pattern == ANY_HOST:
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return pattern == host


@dataclass(frozen=True, slots=True)
class EndpointPattern:
    """Requests that a tool may send: a host, and optionally ports, schemes, methods, and a path or path prefix.

    Without ports, the default port of the scheme applies (443 for https); without methods, all seven apply. Use
    `EndpointPattern.any_public_host()` for every public host.

    Raises:
        ConfigurationError: a part is ambiguous or invalid.

    Examples:
        >>> from wasmrt import EndpointPattern
        >>> EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET").as_line()
        '{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}'
    """

    host_pattern: str
    path_prefix: str | None = None
    methods: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    schemes: tuple[str, ...] = ("https",)
    path: str | None = None
    """A single path without its subpaths, instead of a prefix; queries are allowed."""
    public_only: bool = False
    """SECURITY: allows only public addresses, even if an operator exempts networks for other entries."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.public_only, bool):
            raise ConfigurationError('"public_only" must be true or false')
        if self.host_pattern != ANY_HOST or not self.public_only:
            put(self, "host_pattern", read_host_pattern(self.host_pattern))
        if self.path is not None:
            if self.path_prefix is not None:
                raise ConfigurationError(
                    'an entry must not have both "path" and "path_prefix"', hint="keep one of these keys"
                )
            put(self, "path", read_path_pattern(self.path))
        if self.path_prefix is not None:
            prefix = read_path_pattern(self.path_prefix)
            put(self, "path_prefix", None if prefix == "/" else prefix)
        put(self, "methods", _read_methods(self.methods))
        put(self, "ports", read_ports(self.ports))
        put(self, "schemes", _read_schemes(self.schemes))

    @classmethod
    def host(cls, host_pattern: str) -> EndpointPattern:
        """Allow all paths and methods of one host, or of the subdomains of `*.domain`, over https."""
        return cls(host_pattern)

    @classmethod
    def any_public_host(cls) -> EndpointPattern:
        """Allow all hosts with public addresses, over https. Such an entry cannot be combined with credentials."""
        return cls(ANY_HOST, public_only=True)

    def with_path_prefix(self, prefix: str) -> EndpointPattern:
        """Allow only paths under a prefix, compared by whole segments. The segment `*` matches any one segment."""
        return replace(self, path_prefix=prefix, path=None)

    def with_path(self, path: str) -> EndpointPattern:
        """Allow only this path, without its subpaths. The segment `*` matches any one segment."""
        return replace(self, path=path, path_prefix=None)

    def with_methods(self, *methods: str | Iterable[str]) -> EndpointPattern:
        """Allow only these methods, given as arguments or as one list."""
        return replace(self, methods=_flatten_items(methods))

    def with_ports(self, *ports: int | Iterable[int]) -> EndpointPattern:
        """Allow these ports instead of the scheme's default port."""
        return replace(self, ports=_flatten_items(ports))

    def with_schemes(self, *schemes: str | Iterable[str]) -> EndpointPattern:
        """Allow the given schemes (`https`, `http`); the default is only https."""
        return replace(self, schemes=_flatten_items(schemes))

    @property
    def path_pattern(self) -> PathPattern:
        """The paths that the entry covers."""
        if self.path is not None:
            return path_pattern(self.path, is_exact=True)
        return path_pattern(self.path_prefix or "/", is_exact=False)

    def with_path_pattern(self, pattern: PathPattern) -> EndpointPattern:
        """Allow only the paths of a pattern."""
        return self.with_path_prefix(pattern.text) if pattern.most is None else self.with_path(pattern.text)

    def get_ports(self, scheme: str) -> tuple[int, ...]:
        """Return the ports that the entry covers for `scheme`, or `()` if the entry does not cover `scheme`."""
        if scheme not in self.schemes:
            return ()
        return self.ports or (DEFAULT_PORTS[scheme],)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as in a capability file."""
        is_any = self.host_pattern == ANY_HOST
        line: dict[str, Any] = {"any_public_host": True} if is_any else {"host": self.host_pattern}
        if self.public_only and not is_any:
            line["public_only"] = True
        if self.ports:
            line |= {"port": self.ports[0]} if len(self.ports) == 1 else {"ports": list(self.ports)}
        if self.schemes != ("https",):
            line |= {"scheme": self.schemes[0]} if len(self.schemes) == 1 else {"schemes": list(self.schemes)}
        if self.path_prefix is not None:
            line["path_prefix"] = self.path_prefix
        if self.path is not None:
            line["path"] = self.path
        if self.methods:
            line["methods"] = list(self.methods)
        return line

    def as_line(self) -> str:
        """Return the entry as one line of JSON."""
        return json.dumps(self.as_dict())


def _flatten_items(items: Iterable[Any]) -> tuple[Any, ...]:
    """Replace each list among the items by its own items."""
    flat: list[Any] = []
    for item in items:
        flat += item if isinstance(item, (list, tuple, set, frozenset)) else [item]
    return tuple(flat)


def _check_list(items: object, what: str, kind: type) -> None:
    if not isinstance(items, (list, tuple, set, frozenset)) or not all(isinstance(item, kind) for item in items):
        raise ConfigurationError(f"{what} must be a list of {'numbers' if kind is int else 'strings'}")


def _read_methods(methods: Iterable[str]) -> tuple[str, ...]:
    _check_list(methods, "methods", str)
    upper = {method.upper() for method in methods}
    unknown = upper - set(METHODS)
    if unknown:
        raise ConfigurationError(f"method {min(unknown)!r} is not one of {', '.join(METHODS)}")
    return tuple(m for m in METHODS if m in upper)


def read_ports(ports: Iterable[int]) -> tuple[int, ...]:
    _check_list(ports, "ports", int)
    found: set[int] = set()
    for port in ports:
        if isinstance(port, bool) or not 0 < port < 65536:
            raise ConfigurationError(f"port {port!r} must be a whole number from 1 to 65535")
        found.add(port)
    if len(found) > MAX_CAPABILITY_ENTRIES:
        raise ConfigurationError(f"an entry must have at most {MAX_CAPABILITY_ENTRIES} ports")
    return tuple(sorted(found))


def _read_schemes(schemes: Iterable[str]) -> tuple[str, ...]:
    _check_list(schemes, "schemes", str)
    lower = {scheme.lower() for scheme in schemes}
    if not lower or lower - set(DEFAULT_PORTS):
        raise ConfigurationError("a scheme must be 'https' or 'http'", hint='omit it for "https"')
    return tuple(s for s in ("https", "http") if s in lower)


_PUNCTUATION = re.compile(r"[^a-z0-9]")

# SECURITY: these headers frame the message, or state its destination or origin. If a guest could set them, it could
# smuggle a second request past the allowlist, make a shared front end route the request to another server, or
# impersonate a client that a server trusts by its address.
_NAMES = frozenset(
    [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "http2-settings",
        "proxy-authorization",
        "proxy-connection",
        "forwarded",
        "x-forwarded",
        "x-host",
        "x-http-host-override",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "client-ip",
        # Frameworks use these headers instead of the method in the request line, which the allowlist checks.
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ]
)
_PREFIXES = ("x-forwarded-", "x-original-", "x-rewrite-")


def fold_header(name: str) -> str:
    """Return the form of a header name in which lenient servers compare it: some read `X_Api.Key` as `x-api-key`."""
    return _PUNCTUATION.sub("-", name.lower())


def is_host_header(name: str) -> bool:
    """Return whether a header is reserved for the host, in any spelling."""
    folded = fold_header(name)
    return folded in _NAMES or folded.startswith(_PREFIXES)
