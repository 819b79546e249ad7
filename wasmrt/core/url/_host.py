"""Read host names and addresses into their canonical spelling, and classify addresses.

Canonical means lower-case ASCII, A-labels for international names, dotted-quad IPv4, and compressed IPv6 without
brackets. Every other spelling that some client would resolve is refused, so that no two readers can disagree.

The table of networks has IANA's two special-purpose registries, multicast, and unregistered ranges that clouds and
relays use. For IPv6 only 2000::/3 is in use, so all other addresses are refused. The predicates of `ipaddress` are not
used: they differ between Python versions and accept hundreds of these addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from wasmrt.core.errors import ConfigurationError

_LABEL = re.compile(r"[a-z0-9_-]{1,63}\Z")
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_MAX_NAME = 253


class UnreadableError(ValueError):
    """A text has no single meaning; the message is a clause with the reason, for the caller's own error."""


def read_host(text: str, *, brackets: bool = True) -> str:
    """Return the canonical spelling of `text`. In a URL, IPv6 needs brackets; elsewhere they are optional.

    Raises:
        UnreadableError: the host is empty, encoded, international without an A-label, or a disguised number.
    """
    if text.startswith("["):
        if not text.endswith("]"):
            raise UnreadableError("the IPv6 host has no closing bracket")
        return _read_ipv6(text[1:-1])
    if text.endswith("]"):
        raise UnreadableError("the IPv6 host has no opening bracket")
    if ":" in text and not brackets:
        return _read_ipv6(text)
    if not text:
        raise UnreadableError("the host is empty")
    if not text.isascii():
        raise UnreadableError("the host is not ASCII; write an international name as its xn-- label")
    name = text.lower()
    if _NUMERIC_LABEL.match(name.rstrip(".").rpartition(".")[2]):
        return _read_ipv4(name)
    return _read_name(name.removesuffix("."))


@lru_cache(maxsize=256)
def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that a canonical host spells, or None if the host is a name."""
    if not (":" in host or (host[-1:].isdigit() and _NUMERIC_LABEL.match(host.rpartition(".")[2]))):
        return None
    return ip_address(host)


def spell_ipv6(address: IPv6Address) -> str:
    """Return an IPv6 address in the form of RFC 5952, but always in hexadecimal: Python versions differ."""
    words = [f"{(int(address) >> shift) & 0xFFFF:x}" for shift in range(112, -1, -16)]
    best_start, best_length = -1, 1
    start = 0
    while start < 8:
        end = start
        while end < 8 and words[end] == "0":
            end += 1
        if end - start > best_length:
            best_start, best_length = start, end - start
        start = max(end, start + 1)
    if best_start < 0:
        return ":".join(words)
    return f"{':'.join(words[:best_start])}::{':'.join(words[best_start + best_length :])}"


def _read_ipv6(text: str) -> str:
    if "%" in text:
        raise UnreadableError("the IPv6 host has a zone id")
    if not text.isascii():
        raise UnreadableError("the host is not ASCII")
    try:
        return spell_ipv6(IPv6Address(text))
    except ValueError:
        raise UnreadableError("the host is not a valid IPv6 address") from None


def _read_ipv4(text: str) -> str:
    # WHATWG URL, host parsing: a name whose last label is a number must be an IPv4 address.
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise UnreadableError("the host is a number that is not a plain dotted IPv4 address") from None


def _read_name(name: str) -> str:
    if len(name) > _MAX_NAME:
        raise UnreadableError(f"the host is longer than {_MAX_NAME} characters")
    for label in name.split("."):
        if not _LABEL.match(label):
            raise UnreadableError("the host has a label that is empty, too long or has an invalid character")
        if label.startswith("xn--"):
            _check_a_label(label)
    return name


def _check_a_label(label: str) -> None:
    """Reject an A-label that is not the only spelling of a valid U-label. RFC 5891 4.2 and 5.4, RFC 5892, RFC 5893."""
    import idna  # its tables take 20 ms to load, and few hosts have such a label

    try:
        # Convert both ways: some releases of the library accept a second spelling of a label.
        valid = idna.alabel(idna.ulabel(label)) == label.encode("ascii")
    except (idna.IDNAError, UnicodeError):
        valid = False
    if not valid:
        raise UnreadableError("the host has an xn-- label that IDNA does not allow")


Network = IPv4Network | IPv6Network
_NETWORKS = (IPv4Network, IPv6Network)


class AddressClass(StrEnum):
    """The kind of an address. Connections are made to `PUBLIC` addresses only."""

    PUBLIC = "public"
    THIS_NETWORK = "this-network"
    PRIVATE = "private"
    SHARED = "shared"
    LOOPBACK = "loopback"
    LINK_LOCAL = "link-local"
    PROTOCOL = "protocol-assignment"
    DOCUMENTATION = "documentation"
    BENCHMARKING = "benchmarking"
    RELAY = "relay"
    PLATFORM = "cloud-platform"
    MULTICAST = "multicast"
    RESERVED = "reserved"
    EMBEDDED_IPV4 = "embedded-ipv4"
    NOT_GLOBAL = "not-global-unicast"
    UNREADABLE = "unreadable"


_IPV4 = (
    ("0.0.0.0/8", AddressClass.THIS_NETWORK),
    ("10.0.0.0/8", AddressClass.PRIVATE),
    ("100.64.0.0/10", AddressClass.SHARED),
    ("127.0.0.0/8", AddressClass.LOOPBACK),
    ("168.63.129.16/32", AddressClass.PLATFORM),  # Azure's wire server, reachable from every virtual machine
    ("169.254.0.0/16", AddressClass.LINK_LOCAL),
    ("172.16.0.0/12", AddressClass.PRIVATE),
    ("192.0.0.0/24", AddressClass.PROTOCOL),
    ("192.0.2.0/24", AddressClass.DOCUMENTATION),
    ("192.31.196.0/24", AddressClass.RELAY),  # AS112, RFC 7535
    ("192.52.193.0/24", AddressClass.RELAY),  # AMT, RFC 7450
    ("192.88.99.0/24", AddressClass.RELAY),  # 6to4 anycast, RFC 7526
    ("192.168.0.0/16", AddressClass.PRIVATE),
    ("192.175.48.0/24", AddressClass.RELAY),  # AS112, RFC 7534
    ("198.18.0.0/15", AddressClass.BENCHMARKING),
    ("198.51.100.0/24", AddressClass.DOCUMENTATION),
    ("203.0.113.0/24", AddressClass.DOCUMENTATION),
    ("224.0.0.0/4", AddressClass.MULTICAST),
    ("240.0.0.0/4", AddressClass.RESERVED),
)
_IPV6 = (
    ("::/128", AddressClass.THIS_NETWORK),
    ("::1/128", AddressClass.LOOPBACK),
    ("::/96", AddressClass.EMBEDDED_IPV4),  # compatible, RFC 4291 2.5.5.1
    ("::ffff:0:0/96", AddressClass.EMBEDDED_IPV4),  # mapped
    ("::ffff:0:0:0/96", AddressClass.EMBEDDED_IPV4),  # translated, RFC 2765
    ("64:ff9b::/96", AddressClass.EMBEDDED_IPV4),  # NAT64, RFC 6052
    ("64:ff9b:1::/48", AddressClass.EMBEDDED_IPV4),  # local NAT64, RFC 8215
    ("100::/64", AddressClass.RESERVED),
    ("fc00::/7", AddressClass.PRIVATE),
    ("fe80::/10", AddressClass.LINK_LOCAL),
    ("fec0::/10", AddressClass.PRIVATE),
    ("ff00::/8", AddressClass.MULTICAST),
    ("2001::/32", AddressClass.EMBEDDED_IPV4),  # Teredo, RFC 4380
    ("2001::/23", AddressClass.PROTOCOL),
    ("2001:db8::/32", AddressClass.DOCUMENTATION),
    ("2002::/16", AddressClass.EMBEDDED_IPV4),  # 6to4, RFC 3056
    ("2620:4f:8000::/48", AddressClass.RELAY),  # AS112
    ("3fff::/20", AddressClass.DOCUMENTATION),
)


def _make_table(rows: tuple[tuple[str, AddressClass], ...]) -> tuple[tuple[int, int, AddressClass], ...]:
    networks = ((ip_network(text), kind) for text, kind in rows)
    return tuple((int(net.network_address), int(net.netmask), kind) for net, kind in networks)


_IPV4_TABLE = _make_table(_IPV4)
_IPV6_TABLE = _make_table(_IPV6)


def classify_address(address: str | IPv4Address | IPv6Address) -> AddressClass:
    """Return the kind of an address; a string that is not exactly one address is `UNREADABLE`."""
    read = _read(address)
    if read is None:
        return AddressClass.UNREADABLE
    value = int(read)
    if isinstance(read, IPv4Address):
        return _look_up(_IPV4_TABLE, value)
    found = _look_up(_IPV6_TABLE, value)
    if found is not AddressClass.PUBLIC:
        return found
    if value >> 125 != 0b001:
        return AddressClass.NOT_GLOBAL
    # ISATAP (RFC 5214 6.1): a tunnel router forwards to the IPv4 address at the end of this interface id.
    if (value >> 32) & 0xFFFFFFFF in (0x00005EFE, 0x02005EFE):
        return AddressClass.EMBEDDED_IPV4
    return AddressClass.PUBLIC


def _look_up(table: tuple[tuple[int, int, AddressClass], ...], value: int) -> AddressClass:
    for base, mask, kind in table:
        if value & mask == base:
            return kind
    return AddressClass.PUBLIC


def _read(address: str | IPv4Address | IPv6Address) -> IPv4Address | IPv6Address | None:
    if isinstance(address, str):
        if not address.isascii() or "%" in address:
            return None
        try:
            return ip_address(address)
        except ValueError:
            return None
    if isinstance(address, (IPv4Address, IPv6Address)) and not getattr(address, "scope_id", None):
        return address
    return None


def parse_networks(networks: Iterable[Network | str]) -> tuple[Network, ...]:
    """Parse the networks that an operator exempts from the address check.

    Raises:
        ConfigurationError: an entry is not a network in CIDR form, or `networks` is not a list.
    """
    if isinstance(networks, (str, bytes, Mapping, *_NETWORKS)) or not isinstance(networks, Iterable):
        # These types are iterable, but iterating them does not give networks.
        raise ConfigurationError("unsafe_allowed_networks must be a list of networks", hint='write ["10.1.0.0/16"]')
    try:
        return tuple(net if isinstance(net, _NETWORKS) else ip_network(_format_network(net)) for net in networks)
    except ValueError as problem:
        raise ConfigurationError(
            f"unsafe_allowed_networks contains an invalid network: {problem}", hint='write it like "10.1.0.0/16"'
        ) from None


def _format_network(network: object) -> str:
    if isinstance(network, str):
        return network
    raise ValueError(f"{network!r:.80} is not a string")  # ip_network would read a number as an address


def is_exempt(address: str | IPv4Address | IPv6Address, networks: Iterable[Network]) -> bool:
    """Return whether an operator exempted a network that contains this address."""
    read = _read(address)
    return read is not None and any(read.version == net.version and read in net for net in networks)
