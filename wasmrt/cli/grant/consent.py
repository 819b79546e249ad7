"""The question whether a tool gets what it asks for, which only a person answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import click

from wasmrt.cli.shared.output import Style, print_message
from wasmrt.core.errors import GrantRequiredError


def print_request(title: str, sentences: Iterable[str]) -> None:
    """Print what a tool would be allowed to do, below its name."""
    print_message(title, Style.STRONG)
    for sentence in sentences:
        print_message(sentence, indent=2)


def print_difference(title: str, more: Iterable[str], other: Iterable[str]) -> None:
    """Print what would be different, above all that is asked for: what is more comes first, and it alone in red."""
    print_message(title)
    for sentence in more:
        print_message(f"+ {sentence}", Style.ALARM, indent=2)
    for sentence in other:
        print_message(sentence, indent=4)


class NotGrantedError(GrantRequiredError):
    """A refusal that carries what there is to decide, for programs that ask the person themselves."""

    def __init__(self, message: str, *, hint: str, asks: Sequence[str], changes: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.asks = tuple(asks)
        self.changes = tuple(changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the error as JSON data."""
        return super().as_dict() | {"asks": list(self.asks), "changes": list(self.changes)}


def ask(name: str) -> None:
    """Ask for the grant on the terminal.

    Raises:
        GrantRequiredError: the answer is no.
    """
    if not click.confirm(f"Grant this to {name}?", default=False, err=True):
        raise GrantRequiredError(f"nothing was granted to {name}", hint="narrow it with --grant FILE")
