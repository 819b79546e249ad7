"""The secrets that a tool needs and that are not set, for commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wasmrt.agent.builtin.extensions.missing import MissingSecret, missing_from
from wasmrt.capabilities.file import CapabilityFile
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.secrets import open_secrets


def missing_secrets(file: CapabilityFile, **settings: Any) -> list[MissingSecret]:
    """Look up what a file needs in the store of this installation; settings are those of `missing_from`."""
    return missing_from(file, open_secrets, **settings)


def print_missing(missing: Iterable[MissingSecret]) -> None:
    """Print each with its step, on stderr."""
    for secret in missing:
        print_message(f"warning: {secret.problem}" + (f"; {secret.hint}" if secret.hint else ""))
