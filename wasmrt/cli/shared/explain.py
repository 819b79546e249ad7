"""Capabilities in sentences as this operator's configuration has it: with its own services and exempted networks."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.sentences import explain, tool_groups
from wasmrt.capabilities.services import Service, known_services
from wasmrt.core.places import find_places
from wasmrt.core.url import Network


def explained(capabilities: Capabilities) -> tuple[str, ...]:
    """Return what `capabilities.sentences.explain` says."""
    services, networks = _known()
    return explain(capabilities, services=services, networks=networks)


def explained_groups(capabilities: Capabilities) -> dict[tuple[str, ...], list[str]]:
    """Return what `capabilities.sentences.tool_groups` says."""
    services, networks = _known()
    return tool_groups(capabilities, services=services, networks=networks)


def about(name: str, description: str | None) -> str:
    """Return a tool's name with its description, which is the words of its author and is said to be."""
    words = " ".join((description or "").split())
    return f"{name}, in its author's words: {words}" if words else name


def _known() -> tuple[tuple[Service, ...], tuple[Network, ...]]:
    """Return the services that this operator knows, its own first, and the networks that it exempts."""
    path = find_places().config
    if not path.exists():
        return known_services(), ()
    from wasmrt.agent.config import (
        read_config_file,  # with the network behind it, which these commands do not use
    )

    config = read_config_file(path)
    return (*config.services, *known_services()), config.network.networks
