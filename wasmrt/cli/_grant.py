"""The question that only a person can answer."""

from __future__ import annotations

from collections.abc import Iterable

import click

from wasmrt.cli._output import say
from wasmrt.errors import GrantRequiredError


def tell_powers(name: str, powers: Iterable[str]) -> None:
    """Say what a tool would be allowed to do."""
    say(f"{name}")
    for sentence in powers:
        say(f"  {sentence}")


def ask(name: str) -> None:
    """Ask for the grant on the terminal.

    Raises:
        GrantRequiredError: the answer is no.
    """
    if not click.confirm(f"Grant this to {name}?", default=False, err=True):
        raise GrantRequiredError(f"nothing was granted to {name}", hint="narrow it with --grant FILE")
