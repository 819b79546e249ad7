"""The secrets, the network and the call of commands that are not a tool's run."""

from __future__ import annotations

from wasmrt.call import Backends, Call
from wasmrt.call.http import GuestHttp
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import AuthSection, parse
from wasmrt.config_file import read_config_file
from wasmrt.egress import EgressGateway
from wasmrt.errors import ConfigurationError
from wasmrt.install.find import FoundTool
from wasmrt.leaks import LeakDetector
from wasmrt.limits import ResourceLimits
from wasmrt.oauth import Renewals, token_renewer
from wasmrt.places import find_places
from wasmrt.rates import RateLimiter
from wasmrt.secrets import SecretsStore, open_store


def store() -> SecretsStore:
    """The secrets store of this installation."""
    return open_store(find_places().data)


def open_gateway() -> EgressGateway:
    """A way out, with what the operator's configuration file says about the network."""
    config = read_config_file(find_places().config)
    return EgressGateway(config.network, rates=RateLimiter(redis_url=config.rate_limit_storage))


def auth_section(found: FoundTool, *, hint: str) -> AuthSection:
    """Return what a tool's sidecar says about getting its credential; `hint` is the step where it says nothing.

    Raises:
        ConfigurationError: it says nothing.
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


def call_for(tool: str, user: str, grant: Capabilities, gateway: EgressGateway, secrets: SecretsStore) -> Call:
    """A call without a guest, under the tool's own grant: what passes here passes for the tool as well."""
    detector = LeakDetector()
    backends = Backends(
        detector, http=GuestHttp(gateway), secrets_of=Renewals(secrets, token_renewer(lambda: gateway)).of
    )
    limits = grant.limits.over(ResourceLimits())
    return Call(call_id="cli", tool=tool, user=user, limits=limits, grant=grant, backends=backends)
