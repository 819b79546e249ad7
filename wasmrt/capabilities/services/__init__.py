"""Known services: data files that describe requests to a service, and scopes of its login, to users."""

from __future__ import annotations

from wasmrt.capabilities.services._match import Power, Service, describe_scope, iter_powers
from wasmrt.capabilities.services._read import known_services, read_services

__all__ = ["Power", "Service", "describe_scope", "iter_powers", "known_services", "read_services"]
