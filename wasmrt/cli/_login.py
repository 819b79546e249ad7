"""What a tool's capability file says about its credential, for the commands that get one or test it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wasmrt.cli._output import say
from wasmrt.errors import ConfigurationError

if TYPE_CHECKING:
    from wasmrt.capabilities.file import AuthSection
    from wasmrt.cli._tools import FoundTool

_MAX_SHOWN_CHARS = 1000
_MAX_URL_CHARS = 2048

login_file_option = click.option(
    "--capabilities",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For a tool that is not installed: read FILE for its login and its grant, and not the file beside it.",
)


def find_with_login(tool: str, capabilities: Path | None) -> FoundTool:
    """Find a tool as `find_tool` does; where `capabilities` is given, that file is all that is read about it.

    Raises:
        ConfigurationError: it is a file without a capability file, or FILE was given for a tool with a grant.
        NotInstalledError: there is no such tool.
    """
    from wasmrt.cli._tools import find_tool

    found = find_tool(tool, capabilities=capabilities)
    if capabilities is not None:
        from wasmrt.capabilities.file import parse
        from wasmrt.install import read_capability_file

        text = read_capability_file(capabilities).decode("utf-8", "replace")
        return found._replace(grant=parse(text).capabilities, sidecar=text)
    if found.origin == "file" and found.sidecar is None:
        raise ConfigurationError(
            f"there is no capability file beside {found.name}", hint="name the one that it has: --capabilities FILE"
        )
    return found


def words_of(auth: AuthSection) -> dict[str, str]:
    """Return what the tool's author says on how to get the credential: bounded, each in one printable line.

    SECURITY: whoever wrote the tool wrote this. It is shown as the tool's words, and never followed or opened.
    """
    said = {"setup_url": auth.setup_url, "instructions": auth.instructions, "token_hint": auth.token_hint}
    return {
        key: _tamed(text, _MAX_URL_CHARS if key == "setup_url" else _MAX_SHOWN_CHARS)
        for key, text in said.items()
        if text
    }


def tell_words(tool: str, words: dict[str, str]) -> None:
    """Tell what `words_of` returned, marked as somebody else's."""
    if not words:
        return
    say(f"how to get it, in the words of the author of {tool}:")
    for key, text in words.items():
        say(f"  {key}: {text}")


def _tamed(text: str, most: int) -> str:
    visible = "".join(char if char.isprintable() else " " for char in text)
    line = " ".join(visible.split())
    return line if len(line) <= most else line[:most] + " [cut]"
