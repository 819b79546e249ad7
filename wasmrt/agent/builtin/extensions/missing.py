"""The secrets that a tool's capability file names and that are not set, each with the step that sets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.core.errors import ConfigurationError, SecretError
from wasmrt.egress.secrets import DEFAULT_USER, SecretsStore


class MissingSecret(NamedTuple):
    """A secret that the tool cannot do without."""

    name: str
    problem: str
    """`the secret NAME is not set`, or that it has expired or cannot be read."""
    hint: str | None


def missing_from(
    file: CapabilityFile,
    open_store: Callable[[], SecretsStore],
    *,
    granted: Capabilities | None = None,
    tool: str = "TOOL",
    user: str = DEFAULT_USER,
) -> list[MissingSecret]:
    """Look each secret up that a file needs, in a store opened where there is any; optional ones are left out.

    `granted` narrows which credentials count; `tool` is what a login is for.
    """
    names = dict.fromkeys(_needed(file, file.capabilities if granted is None else granted))
    if not names:
        return []
    try:
        kept = open_store()
    except (ConfigurationError, SecretError) as error:  # what was installed is installed all the same
        problem = f"is set is unknown: {error.message}"
        return [MissingSecret(name, f"whether the secret {name} {problem}", error.hint) for name in names]
    power = file.capabilities if granted is None else granted
    found = _moved(power, kept, user, tool)
    logins = {login.secret_name: login.vendor for login in file.every_login if login.oauth is not None}
    for name in names:
        try:
            kept.get(user, name)
        except SecretError as error:
            if name in logins and _renews_itself(kept, user, name):
                continue
            which = f" --vendor {logins[name]}" if name in logins and len(logins) > 1 else ""
            hint = f"run: wasmrt auth {tool}{which}" if name in logins else error.hint
            found.append(MissingSecret(name, error.message, hint))
    return found


def _moved(granted: Capabilities, kept: SecretsStore, user: str, tool: str) -> list[MissingSecret]:
    if not granted.logins:
        return []
    from wasmrt.agent.builtin.extensions.kept_logins import moved  # with OAuth, which a tool without a login needs not

    step = f"run: wasmrt auth {tool} --replace --vendor"
    return [
        MissingSecret(login.secret_name, problem, f"{step} {login.vendor}")
        for login, problem in moved(granted.logins, kept, user)
    ]


def _renews_itself(kept: SecretsStore, user: str, name: str) -> bool:
    from wasmrt.agent.builtin.extensions.kept_logins import renews_itself  # as in `_moved`

    return renews_itself(kept, user, name)


def _needed(file: CapabilityFile, granted: Capabilities) -> Iterator[str]:
    parts = [granted] if granted.tools is None else [tool.capabilities for tool in granted.tools]
    credentials = [mapping for part in parts if part.http is not None for mapping in part.http.credentials]
    used = {mapping.secret_name for mapping in credentials}
    login = file.auth  # of a package, only where a tool that was granted something can use it
    if login is not None and not login.optional and (granted.tools is None or login.secret_name in used):
        yield login.secret_name
    yield from (asked.name for asked in file.setup_secrets if not asked.optional)
    yield from (mapping.secret_name for mapping in credentials if not mapping.optional)
