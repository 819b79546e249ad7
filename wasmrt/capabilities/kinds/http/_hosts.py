"""Decide by the name or the addresses of a host whether the host is public."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wasmrt.core.model import Decision, Exemption, Reason
from wasmrt.core.url import (
    AddressClass,
    Network,
    ParsedUrl,
    classify_address,
    is_exempt,
    parse_address,
    parse_networks,
)

_PRIVATE_NAMES = ("localhost", "localdomain", "local", "internal", "home.arpa")


def check_host(url: ParsedUrl, networks: Sequence[Network] = ()) -> Decision | None:
    """Return a denial if the host is recognizably internal without a DNS lookup, or None.

    Internal names are reserved by RFC 6761 (localhost), RFC 6762 (local), RFC 8375 (home.arpa) and ICANN (internal).
    """
    rule = internal_host(url.host, networks)
    if rule is None:
        return None
    address = parse_address(url.host)
    return _denied(Reason.ADDRESS_NOT_ALLOWED, rule, url.origin, _exemption(None if address is None else str(address)))


def internal_host(host: str, networks: Sequence[Network] = ()) -> str | None:
    """Return the reason why a host or host pattern in canonical spelling is internal, or None if it is not internal."""
    if (address := parse_address(host)) is not None:
        return _address_problem(str(address), networks)
    last_two = host.split(".")[-2:]
    private = last_two[-1] in _PRIVATE_NAMES or ".".join(last_two) in _PRIVATE_NAMES
    return "the host name is reserved for private networks" if private and not networks else None


def check_addresses(addresses: Iterable[str], networks: Iterable[Network | str] = (), subject: str = "") -> Decision:
    """Decide whether a request may be sent to a host with these addresses.

    The host must have an address, and each address must be public or in one of the exempted `networks`.
    """
    exempt = parse_networks(networks)
    count = 0
    for address in addresses:
        count += 1
        if (problem := _address_problem(address, exempt)) is not None:
            return _denied(Reason.ADDRESS_NOT_ALLOWED, problem, subject, _exemption(address))
    if not count:
        return _denied(Reason.NO_ADDRESS, "the host has no address", subject, "check the host's name")
    return Decision(True, Reason.ALLOWED, "every address is public or exempt", capability="http", subject=subject)


def _address_problem(address: str, exempt: Sequence[Network]) -> str | None:
    kind = classify_address(address)
    if kind is AddressClass.PUBLIC or (kind is not AddressClass.UNREADABLE and is_exempt(address, exempt)):
        return None
    shown = address if kind is not AddressClass.UNREADABLE else "a DNS answer that is not an address"
    return f"{shown} is {kind}, not public"


def _exemption(address: str | None) -> Exemption:
    """Return the exemption for the network with only this address, or for no network if the address is not valid."""
    kind = AddressClass.UNREADABLE if address is None else classify_address(address)
    if address is None or kind in (AddressClass.UNREADABLE, AddressClass.PUBLIC):
        return Exemption(None)
    return Exemption(f"{address}/{128 if ':' in address else 32}")


def _denied(reason: Reason, rule: str, subject: str, hint: str | Exemption) -> Decision:
    return Decision(False, reason, rule, hint, "http", subject)
