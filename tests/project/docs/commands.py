"""Extract the `wasmrt` commands of a shell script and validate them with the command line."""

from __future__ import annotations

import shlex
from io import BytesIO
from pathlib import Path, PurePath
from unittest.mock import patch

import click

from wasmrt.cli import cli

_REDIRECTIONS = {"<", ">", ">>", "2>"}


def commands(script: str) -> list[list[str]]:
    """Return the words of every `wasmrt` command in a script."""
    found = []
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = "#"
        words: list[str] = []
        for word in [*lexer, ";"]:
            if word and set(word) <= set("();|&"):
                found.append(words)
                words = []
            else:
                words.append(word)
    return [words for words in map(_strip_shell_syntax, found) if words and PurePath(words[0]).name == "wasmrt"]


def problem(words: list[str], *, complete: bool) -> str | None:
    """Return the error of a command, or None. Missing parameters are errors only if `complete`."""
    command: click.Command = cli
    context = click.Context(cli, info_name="wasmrt")
    rest = words[1:]
    while isinstance(command, click.Group):
        if not rest:
            return "the command is missing" if complete else None
        if rest[0] in ("--help", "--version"):
            return None
        if command.invoke_without_command and rest[0].startswith("-"):
            break
        found = command.get_command(context, rest[0])
        if found is None:
            return f"there is no command {rest[0]}"
        command, context, rest = found, click.Context(found, info_name=rest[0], parent=context), rest[1:]
    try:
        # Files of examples do not need to exist.
        with (
            patch.object(click.Path, "convert", lambda _self, value, _param, _context: Path(value)),
            patch.object(click.File, "convert", lambda _self, _value, _param, _context: BytesIO()),
        ):
            command.make_context(context.info_name, list(rest), parent=context.parent)
    except click.exceptions.Exit:
        return None
    except click.MissingParameter as error:
        return error.format_message() if complete else None
    except click.UsageError as error:
        return error.format_message()
    return None


def _strip_shell_syntax(words: list[str]) -> list[str]:
    """Return the words without redirections and variable assignments."""
    kept: list[str] = []
    skip = False
    for word in words:
        if word in _REDIRECTIONS:
            skip = True
        elif skip:
            skip = False
        elif kept or "=" not in word:
            kept.append(word)
    return kept
