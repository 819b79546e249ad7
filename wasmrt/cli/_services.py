"""The gateway and the call of commands that run no tool."""

from __future__ import annotations

from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import AuthSection, parse
from wasmrt.config_file import read_config_file
from wasmrt.egress import EgressGateway, HostCall
from wasmrt.errors import ConfigurationError
from wasmrt.install.find import FoundTool
from wasmrt.leaks import LeakDetector, WatchedSecrets
from wasmrt.oauth import Renewals, token_renewer
from wasmrt.places import find_places
from wasmrt.rates import RateLimiter
from wasmrt.secrets import SecretsStore


def open_gateway() -> EgressGateway:
    """Return a gateway with the network settings of the operator's configuration file."""
    config = read_config_file(find_places().config)
    return EgressGateway(config.network, rates=RateLimiter(redis_url=config.rate_limit_storage))


def auth_section(found: FoundTool, *, hint: str) -> AuthSection:
    """Return the auth section of a tool's capability file; `hint` is the next step where there is none.

    Raises:
        ConfigurationError: there is none.
    """
    auth = None if found.sidecar is None else parse(found.sidecar).auth
    if auth is None:
        raise ConfigurationError(
            f"the capability file of {found.name} has no auth section"
            if found.sidecar is not None
            else f"{found.name} has no capability file, and so no auth section",
            hint=hint,
        )
    return auth


def call_for(tool: str, user: str, grant: Capabilities, gateway: EgressGateway, secrets: SecretsStore) -> HostCall:
    """Return a call without a guest, under the tool's own grant: what passes here passes for the tool as well."""
    view = Renewals(secrets, token_renewer(lambda: gateway)).of(user)
    return HostCall(tool, user, grant, view, WatchedSecrets(LeakDetector()))
