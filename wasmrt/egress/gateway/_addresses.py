"""From a host to the addresses that may be dialled."""

from __future__ import annotations

import time
from collections.abc import Sequence

from wasmrt.capabilities import check_addresses, check_host
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import Network, ParsedUrl
from wasmrt.egress.gateway._resolver import ResolveError, Resolver


def checked_addresses(
    url: ParsedUrl, networks: Sequence[Network], resolver: Resolver, ends_at: float
) -> tuple[tuple[str, ...], Decision]:
    """Resolve once and check every answer; no address where the decision is a refusal.

    SECURITY: the addresses returned are the addresses dialled. The name is not looked up a second time.
    """
    if (refused := check_host(url, networks)) is not None:
        return (), refused
    if url.address is not None:
        # `check_host` has checked it.
        return (str(url.address),), Decision(True, Reason.ALLOWED, "a literal address", None, "http", url.origin)
    try:
        left = max(0.0, ends_at - time.monotonic())
        addresses = resolver.resolve(url.host, url.port, timeout_seconds=left)
    except ResolveError as error:
        hint = "check its spelling, and that this machine is online and can look names up"
        return (), Decision(False, Reason.NO_ADDRESS, error.message, hint, "http", url.origin)
    decision = check_addresses(addresses, networks, url.origin)
    return (addresses if decision.allowed else ()), decision
