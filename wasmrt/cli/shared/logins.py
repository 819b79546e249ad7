"""The gateway and the call of commands that run no tool."""

from __future__ import annotations

from collections.abc import Sequence

from wasmrt.agent.config import read_config_file
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import AuthSection, OAuthConfig, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.core.errors import ConfigurationError, SecretNotFoundError
from wasmrt.core.names import did_you_mean, setting_of
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import EgressGateway, HostCall
from wasmrt.egress.leaks import LeakDetector, WatchedSecrets
from wasmrt.egress.oauth import Renewals, token_renewer
from wasmrt.egress.secrets import SecretsStore


def open_gateway() -> EgressGateway:
    """Return a gateway with the network settings of the operator's configuration file."""
    config = read_config_file(find_places().config)
    return EgressGateway(config.network, rates=config.rate_limiter())


def logins_of(found: FoundTool, *, hint: str) -> tuple[AuthSection, ...]:
    """Return the logins of a tool's capability file, at least one; `hint` is the next step where there is none.

    Raises:
        ConfigurationError: there is none.
    """
    logins = () if found.sidecar is None else parse(found.sidecar).every_login
    if not logins:
        raise ConfigurationError(
            f"the capability file of {found.name} has no auth section"
            if found.sidecar is not None
            else f"{found.name} has no capability file, and so no auth section",
            hint=hint,
        )
    return logins


def choose_login(tool: str, logins: Sequence[AuthSection], vendor: str | None) -> AuthSection:
    """Return the login of a vendor; without one, the only login, or the only one that a browser does.

    Raises:
        ConfigurationError: there is no such vendor, or there are several to choose from.
    """
    known = [login.vendor for login in logins]
    if vendor is None:
        by_browser = [login for login in logins if login.oauth is not None]
        chosen = by_browser if len(by_browser) == 1 else list(logins)
        if len(chosen) == 1:
            return chosen[0]
        raise ConfigurationError(
            f"{tool} has several logins", hint=f"choose one: {'; '.join(f'--vendor {name}' for name in known)}"
        )
    if vendor not in known:
        near = did_you_mean(vendor, known)
        hint = f"did you mean {near}?" if near else f"there are: {', '.join(known)}"
        raise ConfigurationError(f"{tool} has no login of {vendor!r:.80}", hint=hint)
    return logins[known.index(vendor)]


def settings(kept: SecretsStore, user: str, tool: str, oauth: OAuthConfig) -> dict[str, str]:
    """Return the client of a login as far as it is kept as settings, under the names of the variables it may be in.

    SECURITY: a tool chooses the name and the address that the value is sent to. Only a setting that is called after
    the tool is read; any other could be another tool's client.
    """
    found = {}
    for variable in (oauth.client_id_env, oauth.client_secret_env):
        if variable is None:
            continue
        try:
            found[variable] = kept.get(user, setting_of(tool, variable)).reveal()
        except SecretNotFoundError:
            continue
    return found


def call_for(tool: str, user: str, grant: Capabilities, gateway: EgressGateway, secrets: SecretsStore) -> HostCall:
    """Return a call without a guest, under the tool's own grant: what passes here passes for the tool as well."""
    view = Renewals(secrets, token_renewer(lambda: gateway)).of(user)
    return HostCall(tool, user, grant, view, WatchedSecrets(LeakDetector()))
