"""The names that a server is reached by. A request to another name, or from a page of another origin, is refused."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from wasmrt.core.errors import ConfigurationError
from wasmrt.interop.web._message import Request, Response, plain

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins of one server (RFC 6454): `http://127.0.0.1:8931`, in small letters, without a default port."""

    all: tuple[str, ...]
    """The first is the one to show to people."""

    @classmethod
    def of(cls, host: str, port: int, more: Iterable[str] = ()) -> Origins:
        """Return the origins of an address that is listened at, and those that an operator names beside.

        Raises:
            ConfigurationError: one that was named is no origin.
        """
        address = ipaddress.ip_address(host)
        hosts = [] if address.is_unspecified else [f"[{address}]" if address.version == 6 else str(address)]
        hosts += ["localhost"] if address.is_loopback or address.is_unspecified else []
        return cls((*map(origin, more), *(_spelled("http", name, port) for name in hosts)))

    def refusal(self, request: Request) -> Response | None:
        """Return the refusal of a request that was sent to another name, or by another origin's page.

        SECURITY: a page in a person's browser can send requests here. One whose name was rebound to this address is
        known by its Host (421), any other by its Origin (403), `null` included; programs send no Origin.
        """
        host = request.header("host")
        if host is None:
            return plain(400)
        if host.lower() not in {origin.partition("://")[2] for origin in self.all}:
            return plain(421, "This server is not reached by that name.")
        if request.has("origin") and (request.header("origin") or "").lower() not in self.all:
            return plain(403, "Requests of other origins are refused.")
        return None


def origin(text: str) -> str:
    """Return an origin in its one spelling.

    Raises:
        ConfigurationError: the text is none.
    """
    try:
        parts = urlsplit(text)
        if parts.scheme in _DEFAULT_PORTS and parts.hostname and text.isascii() and text.isprintable():
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            found = _spelled(parts.scheme, host, parts.port or _DEFAULT_PORTS[parts.scheme])
            if text.lower().rstrip("/") in (found, f"{parts.scheme}://{host}:{parts.port}"):
                return found
    except ValueError:
        pass
    raise ConfigurationError(f"{text!r:.80} is no origin", hint="write https://HOST or http://HOST:PORT")


def _spelled(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{host}" if port == _DEFAULT_PORTS[scheme] else f"{scheme}://{host}:{port}"
