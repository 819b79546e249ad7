"""Ask for the settings of a package after its installation."""

from __future__ import annotations

import click

from wasmrt.capabilities.file import parse
from wasmrt.catalog import ToolVersion
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import SecretBackendError, SecretNotFoundError
from wasmrt.egress.secrets import DEFAULT_USER, Secret, SecretsStore

_MAX_SHOWN = 300


def ask_settings(version: ToolVersion) -> None:
    """Ask for each missing setting of a package, and store it as a secret; an empty answer skips the setting.

    SECURITY: the prompts are untrusted text, so each is truncated to one printable line. The answers are not echoed.
    """
    wanted = parse(version.sidecar).setup_secrets if version.sidecar else ()
    store = open_secrets() if wanted else None
    missing = [setting for setting in wanted if store is not None and not _is_set(store, setting.name)]
    if store is None or not missing:
        return
    try:
        store.check_writable(DEFAULT_USER, missing[0].name)
    except SecretBackendError:
        return  # the messages after the installation name the steps
    later = store.hint_to_set(DEFAULT_USER, "NAME").removeprefix("run: ")
    print_message(f"{version.name} has settings; leave one empty to set it later: {later}")
    for setting in missing:
        words = "".join(char if char.isprintable() else " " for char in setting.prompt)[:_MAX_SHOWN]
        label = f"{setting.name} ({words})" if words else setting.name
        value: str = click.prompt(label, default="", show_default=False, hide_input=True, err=True)
        if value:
            store.set(DEFAULT_USER, setting.name, Secret(value))


def _is_set(store: SecretsStore, name: str) -> bool:
    try:
        store.get(DEFAULT_USER, name)
    except SecretNotFoundError:
        return False
    return True
