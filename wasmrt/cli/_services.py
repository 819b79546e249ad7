"""The secrets, the network and the call of commands that are not a tool's run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.errors import ConfigurationError

if TYPE_CHECKING:
    from wasmrt.call import Call
    from wasmrt.capabilities import Capabilities
    from wasmrt.capabilities.file import AuthSection
    from wasmrt.egress import EgressGateway
    from wasmrt.install import FoundTool
    from wasmrt.secrets import SecretsStore


def store() -> SecretsStore:
    """The secrets store of this installation."""
    from wasmrt.places import find_places
    from wasmrt.secrets import open_store

    return open_store(find_places().data)


def open_gateway() -> EgressGateway:
    """A way out, with what the operator's configuration file says about the network."""
    from wasmrt.config_file import read_config_file
    from wasmrt.egress import EgressGateway
    from wasmrt.places import find_places
    from wasmrt.rates import RateLimiter

    config = read_config_file(find_places().config)
    return EgressGateway(config.network, rates=RateLimiter(redis_url=config.rate_limit_storage))


def auth_section(found: FoundTool, *, hint: str) -> AuthSection:
    """Return what a tool's sidecar says about getting its credential; `hint` is the step where it says nothing.

    Raises:
        ConfigurationError: it says nothing.
    """
    from wasmrt.capabilities.file import parse

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
    from wasmrt.call import Backends, Call
    from wasmrt.call.http import GuestHttp
    from wasmrt.guest.engine import make_kernel
    from wasmrt.leaks import LeakDetector
    from wasmrt.limits import ResourceLimits
    from wasmrt.oauth import Renewals, token_renewer

    detector = LeakDetector(kernel=make_kernel)
    backends = Backends(
        detector, http=GuestHttp(gateway), secrets_of=Renewals(secrets, token_renewer(lambda: gateway)).of
    )
    limits = grant.limits.over(ResourceLimits())
    return Call(call_id="cli", tool=tool, user=user, limits=limits, grant=grant, backends=backends)
