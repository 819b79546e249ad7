"""The store of credentials of this installation, for commands."""

from __future__ import annotations

from wasmrt.core.places import find_places
from wasmrt.egress.secrets import SecretsStore, open_store


def open_secrets() -> SecretsStore:
    """Open the store that the operator's configuration file names, or the one that is found.

    Raises:
        ConfigurationError, SecretBackendError: the file or the store cannot be used.
    """
    places = find_places()
    if not places.config.exists():
        return open_store(places.data)
    from wasmrt.agent.config import (
        read_config_file,  # with the network behind it, which these commands do not use
    )

    return read_config_file(places.config).open_secrets()
