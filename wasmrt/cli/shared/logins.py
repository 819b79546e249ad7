"""Logins of a tool's capability file, for the commands that log in or test a credential."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from wasmrt.agent.config import read_config_file
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import AuthSection, OAuthConfig, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.tools import find_named
from wasmrt.core.errors import ConfigurationError, SecretBackendError, SecretNotFoundError
from wasmrt.core.names import did_you_mean, setting_secret_name
from wasmrt.core.places import find_places
from wasmrt.egress.gateway import EgressGateway, HostCall
from wasmrt.egress.leaks import LeakDetector, WatchedSecrets
from wasmrt.egress.oauth import Renewals, token_renewer
from wasmrt.egress.secrets import SecretsStore


def open_gateway() -> EgressGateway:
    """Return a gateway with the network settings of the configuration file."""
    config = read_config_file(find_places().config)
    return EgressGateway(config.network, rates=config.rate_limiter())


def list_logins(found: FoundTool, *, hint: str) -> tuple[AuthSection, ...]:
    """Return the logins of a tool's capability file.

    Raises:
        ConfigurationError: the file has no login; `hint` is the suggested fix.
    """
    logins = () if found.sidecar is None else parse(found.sidecar).every_login
    if not logins:
        raise ConfigurationError(
            f"the capability file of {found.name} has no auth section"
            if found.sidecar is not None
            else f"{found.name} has no capability file, so it has no auth section",
            hint=hint,
        )
    return logins


def choose_login(tool: str, logins: Sequence[AuthSection], vendor: str | None) -> AuthSection:
    """Return the login of a vendor; without a vendor, the only OAuth login, or else the only login.

    Raises:
        ConfigurationError: the vendor is unknown, or `vendor` is None and there are several logins.
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
        hint = f"did you mean {near}?" if near else f"choose one of: {', '.join(known)}"
        raise ConfigurationError(f"{tool} has no login for {vendor!r:.80}", hint=hint)
    return logins[known.index(vendor)]


def check_login_storable(store: SecretsStore, user: str, name: str, instead: str = "") -> None:
    """Check, before the user logs in, that the store can keep the token of a login, which is the secret `name`.

    `instead` is the step that works with a read-only store; by default, the user stores a token.

    Raises:
        SecretBackendError: the store is read-only.
    """
    try:
        store.check_writable(user, name)
    except SecretBackendError as error:
        step = instead or f"create a token at the service, and store it yourself; {error.hint}"
        raise SecretBackendError(f"{error.message}, so a login cannot be stored", hint=step) from None


def settings(store: SecretsStore, user: str, tool: str, oauth: OAuthConfig) -> dict[str, str]:
    """Return the stored client id and client secret of a login, keyed by their environment variables.

    SECURITY: the tool chooses both the name of the variable and the address that its value is sent to. Only settings
    named after this tool are read, because any other setting could be another tool's client secret.
    """
    found = {}
    for variable in (oauth.client_id_env, oauth.client_secret_env):
        if variable is None:
            continue
        try:
            found[variable] = store.get(user, setting_secret_name(tool, variable)).reveal()
        except SecretNotFoundError:
            continue
    return found


def call_for(tool: str, user: str, grant: Capabilities, gateway: EgressGateway, secrets: SecretsStore) -> HostCall:
    """Create a call that wasmrt makes without the tool's code. Under the grant, it may send the tool's requests."""
    view = Renewals(secrets, token_renewer(lambda: gateway)).of(user)
    return HostCall(tool, user, grant, view, WatchedSecrets(LeakDetector()))


_MAX_SHOWN_CHARS = 1000
_MAX_URL_CHARS = 2048

login_file_option = click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a tool that is not installed: read its login and grant from FILE, not from the file next to it.",
)


def find_with_login(tool: str, capabilities: Path | None) -> FoundTool:
    """Find a tool as `find_named` does; if `capabilities` is given, read the login and the grant from that file.

    Raises:
        ConfigurationError: the component has no capability file, or `capabilities` is given for an installed tool.
        NotInstalledError: the tool does not exist.
    """
    found = find_named(tool, capabilities=capabilities)
    if capabilities is not None:
        text = read_capability_file(capabilities).decode("utf-8", "replace")
        return found._replace(grant=parse(text).capabilities, sidecar=text)
    if found.origin == "file" and found.sidecar is None:
        raise ConfigurationError(
            f"there is no capability file next to {found.name}", hint="pass its path: --capabilities FILE"
        )
    return found


def author_instructions(auth: AuthSection) -> dict[str, str]:
    """Return the author's instructions for getting the credential, each truncated to one printable line.

    SECURITY: the text is untrusted. It is shown as the author's words, and its URLs are never opened.
    """
    written = {"setup_url": auth.setup_url, "instructions": auth.instructions, "token_hint": auth.token_hint}
    return {
        key: _to_printable_line(text, _MAX_URL_CHARS if key == "setup_url" else _MAX_SHOWN_CHARS)
        for key, text in written.items()
        if text
    }


def print_instructions(tool: str, instructions: dict[str, str]) -> None:
    """Print the result of `author_instructions`, marked as the author's words."""
    if not instructions:
        return
    print_message(f"instructions by the author of {tool}:")
    for key, text in instructions.items():
        print_message(f"  {key}: {text}")


def _to_printable_line(text: str, most: int) -> str:
    visible = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(visible.split())
    return line if len(line) <= most else line[:most] + " [cut]"
