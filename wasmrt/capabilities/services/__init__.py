"""Known services: data files that describe requests to a service, and scopes of its login, to users."""

from __future__ import annotations

from wasmrt.capabilities.services._match import Power, Service, powers_of, scope_in_words
from wasmrt.capabilities.services._read import known_services, read_services

__all__ = ["Power", "Service", "known_services", "powers_of", "read_services", "scope_in_words"]
