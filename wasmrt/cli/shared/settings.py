"""The operator's settings of a package: asked for once, at a terminal, and kept as secrets."""

from __future__ import annotations

import click

from wasmrt.capabilities.file import parse
from wasmrt.catalog import ToolVersion
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import SecretNotFoundError
from wasmrt.egress.secrets import DEFAULT_USER, Secret, SecretsStore

_MAX_SHOWN = 300


def ask_settings(version: ToolVersion) -> None:
    """Ask for each setting that is not set yet; an empty answer leaves it for later.

    SECURITY: the words are the package's; they are shown as its words, one printable line each. What is typed is not.
    """
    wanted = parse(version.sidecar).setup_secrets if version.sidecar else ()
    kept = open_secrets() if wanted else None
    missing = [asked for asked in wanted if kept is not None and not _is_set(kept, asked.name)]
    if kept is None or not missing:
        return
    print_message(f"{version.name} has settings; leave one empty to set it later: wasmrt secret set NAME")
    for asked in missing:
        words = "".join(char if char.isprintable() else " " for char in asked.prompt)[:_MAX_SHOWN]
        label = f"{asked.name} ({words})" if words else asked.name
        value: str = click.prompt(label, default="", show_default=False, hide_input=True, err=True)
        if value:
            kept.set(DEFAULT_USER, asked.name, Secret(value))


def _is_set(kept: SecretsStore, name: str) -> bool:
    try:
        kept.get(DEFAULT_USER, name)
    except SecretNotFoundError:
        return False
    return True
