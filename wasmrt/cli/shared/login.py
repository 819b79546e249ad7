"""The login of a tool's capability file, for the commands that log in or test a credential."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.capabilities.file import AuthSection, parse
from wasmrt.catalog.find import FoundTool
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.shared.output import print_message
from wasmrt.cli.shared.tools import find_named
from wasmrt.core.errors import ConfigurationError

_MAX_SHOWN_CHARS = 1000
_MAX_URL_CHARS = 2048

login_file_option = click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a tool that is not installed: read FILE for its login and its grant, and not the file beside it.",
)


def find_with_login(tool: str, capabilities: Path | None) -> FoundTool:
    """Find a tool as `find_named` does; where `capabilities` is given, that file is all that is read about it.

    Raises:
        ConfigurationError: it is a file without a capability file, or FILE was given for a tool with a grant.
        NotInstalledError: there is no such tool.
    """
    found = find_named(tool, capabilities=capabilities)
    if capabilities is not None:
        text = read_capability_file(capabilities).decode("utf-8", "replace")
        return found._replace(grant=parse(text).capabilities, sidecar=text)
    if found.origin == "file" and found.sidecar is None:
        raise ConfigurationError(
            f"there is no capability file beside {found.name}", hint="name the one that it has: --capabilities FILE"
        )
    return found


def author_instructions(auth: AuthSection) -> dict[str, str]:
    """Return the instructions of the tool's author for getting the credential: bounded, one printable line each.

    SECURITY: whoever wrote the tool wrote this. It is shown as the tool's words, and never followed or opened.
    """
    written = {"setup_url": auth.setup_url, "instructions": auth.instructions, "token_hint": auth.token_hint}
    return {
        key: _printable_line(text, _MAX_URL_CHARS if key == "setup_url" else _MAX_SHOWN_CHARS)
        for key, text in written.items()
        if text
    }


def print_instructions(tool: str, words: dict[str, str]) -> None:
    """Print `author_instructions`, marked as somebody else's words."""
    if not words:
        return
    print_message(f"how to get it, in the words of the author of {tool}:")
    for key, text in words.items():
        print_message(f"  {key}: {text}")


def _printable_line(text: str, most: int) -> str:
    visible = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(visible.split())
    return line if len(line) <= most else line[:most] + " [cut]"
