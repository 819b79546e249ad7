"""Simple commands of a script as they would run: words, redirections, and the commands that feed them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wasmrt.agent.builtin.shell._words import Field


class NotUnderstoodError(Exception):
    """The grammar has no reading of a script, or more of them than are looked at; the text says which part."""


class Redirect(NamedTuple):
    """One redirection; its target is one field, or a descriptor's number."""

    operator: str
    target: Field

    @property
    def writes(self) -> bool:
        """True where it opens a file for writing."""
        return ">" in self.operator and not (self.operator in (">&", "<&") and self.target.text.isdigit())


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The circumstances of a command, and of everything inside of a construct."""

    redirects: tuple[Redirect, ...] = ()
    upstream: tuple[Command, ...] = ()
    """The commands of a pipeline whose output it reads."""
    stdin: str | None = None
    """The text of its here-document or here-string."""
    substituted: bool = False
    """True where its output becomes part of a command line."""
    piped: bool = False
    """True where its output is read by another command."""


@dataclass(frozen=True, slots=True)
class Command(Around):
    """One simple command, in one of the ways in which it may run."""

    words: tuple[Field, ...]
    text: str
    """Its text in the script."""
    assigns: tuple[str, ...] = ()
    inherited: frozenset[str] = frozenset()
    """Names of what is around it: "xargs", "find" and the like, where words of its own come from them."""

    @property
    def name(self) -> str:
        """The program's name without its folder; with marks where it is not known."""
        return self.words[0].text.rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> tuple[Field, ...]:
        """The words behind the name."""
        return self.words[1:]

    def running(self, words: tuple[Field, ...], by: str = "") -> Command:
        """Return the command that this one starts with `words`."""
        return replace(self, words=words, inherited=self.inherited | {by} if by else self.inherited)


@dataclass(slots=True)
class Script:
    """Everything that a script would run, in no order."""

    commands: list[Command] = field(default_factory=list)
    bodies: dict[str, str] = field(default_factory=dict)
    """The text of each function."""
    notes: list[str] = field(default_factory=list)
    """Constructs that change what the rest of the script means."""
