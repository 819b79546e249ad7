"""Find the secrets that a tool's capability file requires and that are not set, with the commands that set them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from wasmrt.capabilities import Capabilities, LoginCapability
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.core.errors import ConfigurationError, SecretError
from wasmrt.egress.secrets import DEFAULT_USER, SecretsStore


class MissingSecret(NamedTuple):
    """A required secret that is not set."""

    name: str
    problem: str
    """For example `the secret NAME is not set`. Other problems: the secret has expired, or cannot be read."""
    hint: str | None


def missing_from(
    file: CapabilityFile,
    open_store: Callable[[], SecretsStore],
    *,
    granted: Capabilities | None = None,
    tool: str = "TOOL",
    user: str = DEFAULT_USER,
) -> list[MissingSecret]:
    """Return the secrets that a capability file requires and that are not set.

    The store is opened only if the file requires a secret. With `granted`, only the credentials of this grant are
    checked. `tool` is the tool's name in login commands.
    """
    granted = file.capabilities if granted is None else granted
    names = dict.fromkeys(_iter_required_secrets(file, granted))
    if not names:
        return []
    try:
        store = open_store()
    except (ConfigurationError, SecretError) as error:  # the tool is installed even if the store cannot be opened
        problem = f"is set is unknown: {error.message}"
        return [MissingSecret(name, f"whether the secret {name} {problem}", error.hint) for name in names]
    of = "" if user == DEFAULT_USER else f" --user {user}"
    found = [
        MissingSecret(name, problem, f"run: wasmrt auth {tool} --replace --vendor {vendor}{of}")
        for name, vendor, problem in _iter_misplaced_logins(granted.logins, store, user)
    ]
    logins = {login.secret_name: login.vendor for login in file.every_login if login.oauth is not None}
    for name in names:
        try:
            store.get(user, name)
        except SecretError as error:
            if name in logins and _is_renewable(store, user, name):
                continue
            which = f" --vendor {logins[name]}" if name in logins and len(logins) > 1 else ""
            can_log_in = name in logins and _can_store(store, user, name)
            hint = f"run: wasmrt auth {tool}{which}{of}" if can_log_in else error.hint
            found.append(MissingSecret(name, error.message, hint))
    return found


def _iter_misplaced_logins(
    logins: tuple[LoginCapability, ...], store: SecretsStore, user: str
) -> Iterator[tuple[str, str, str]]:
    """Yield secret, vendor and problem of each login that cannot be read, or whose token URL differs from the grant.

    wasmrt does not renew a login with a different token URL.
    """
    if not logins:
        return
    from wasmrt.egress.oauth import load_state  # only tools with a login need OAuth

    for login in logins:
        try:
            state = load_state(store, user, login.secret_name)
        except SecretError as error:
            yield login.secret_name, login.vendor, error.message
            continue
        if state is not None and state.token_url != login.oauth.token_url:
            problem = f"the login for {login.secret_name} has a different token URL than the grant"
            yield login.secret_name, login.vendor, problem


def _is_renewable(store: SecretsStore, user: str, name: str) -> bool:
    """Return whether an expired secret belongs to a login that is renewed at its next use."""
    from wasmrt.egress.oauth import load_state  # only tools with a login need OAuth

    with suppress(SecretError):
        state = load_state(store, user, name)
        return state is not None and state.refresh_token is not None
    return False


def _can_store(store: SecretsStore, user: str, name: str) -> bool:
    try:
        store.check_writable(user, name)
    except SecretError:
        return False
    return True


def _iter_required_secrets(file: CapabilityFile, granted: Capabilities) -> Iterator[str]:
    parts = [granted] if granted.tools is None else [tool.capabilities for tool in granted.tools]
    credentials = [mapping for part in parts if part.http is not None for mapping in part.http.credentials]
    used = {mapping.secret_name for mapping in credentials}
    login = file.auth  # in a package, the login counts only if a granted tool uses it
    if login is not None and not login.optional and (granted.tools is None or login.secret_name in used):
        yield login.secret_name
    yield from (secret.name for secret in file.setup_secrets if not secret.optional)
    yield from (mapping.secret_name for mapping in credentials if not mapping.optional)
