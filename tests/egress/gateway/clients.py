"""Synchronous and asynchronous clients of httpx and httpx2 that send requests through a world's gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import httpx2
import pytest

from wasmrt import AsyncGuardedTransport, GuardedTransport
from wasmrt.capabilities import CredentialLocation, CredentialMapping, EndpointPattern, HttpCapability
from wasmrt.core.model import Decision
from wasmrt.egress.secrets import Secret, UserSecrets

from .world import HOST, World

OTHER = "other.example.com"
SECRET = "Zq9kT7ab" + "vX2mB4nC6pD8eF"
TOKEN = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"

both_families = pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])


def capability(
    w: World,
    *credentials: CredentialMapping,
    hosts: Sequence[str] = (HOST, OTHER),
    port: int | None = None,
    **http: Any,
) -> HttpCapability:
    ports = (port or w.server.port,)
    patterns = tuple(EndpointPattern(host, ports=ports, schemes=("https", "http")) for host in hosts)
    return HttpCapability(patterns, credentials, **http)


def bearer(host: str = HOST) -> CredentialMapping:
    return CredentialMapping(secret_name="token", location=CredentialLocation.bearer(), host_patterns=(host,))


def view(w: World, secrets: Mapping[str, str] | None = None) -> UserSecrets:
    for name, value in (secrets or {"token": SECRET}).items():
        w.store.set("ann", name, Secret(value))
    return UserSecrets(w.store, "ann")


def guarded(w: World, *credentials: CredentialMapping, decisions: list[Decision] | None = None, **http: Any) -> Any:
    """Return the transport of a synchronous client that uses the world's own gateway."""
    record = None if decisions is None else decisions.append
    return GuardedTransport(
        capability(w, *credentials, **http), gateway=w.gateway, secrets=view(w), user="ann", on_decision=record
    )


def guarded_async(w: World, *credentials: CredentialMapping, **http: Any) -> Any:
    """Return the transport of an asynchronous client that uses the world's own gateway."""
    return AsyncGuardedTransport(capability(w, *credentials, **http), gateway=w.gateway, secrets=view(w), user="ann")
