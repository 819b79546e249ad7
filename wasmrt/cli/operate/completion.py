"""`wasmrt completion`: print the script that completes commands, options and tool names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import show, show_json

VARIABLE = "_WASMRT_COMPLETE"
"""Environment variable that requests a completion; click derives the name from the program's name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print a script that completes commands in your shell.

    \b
    Examples:
      eval "$(wasmrt completion bash)"        # in ~/.bashrc
      eval "$(wasmrt completion zsh)"         # in ~/.zshrc
      wasmrt completion fish > ~/.config/fish/completions/wasmrt.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # click supports all three shells
    # `source()` would require an installed bash, which printing the script does not need.
    source = made(click.get_current_context().find_root().command, {}, "wasmrt", VARIABLE)
    script = source.source_template % source.source_vars()
    show_json({"shell": shell, "script": script}) if as_json else show(script.rstrip("\n"))
