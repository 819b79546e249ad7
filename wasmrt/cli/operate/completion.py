"""`wasmrt completion`: the script that completes commands, options and tool names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import show, show_json

VARIABLE = "_WASMRT_COMPLETE"
"""The variable that the script asks the command by, as click has it for a program of this name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> None:
    """Print a script that completes commands, options and the names of tools.

    \b
    Examples:
      eval "$(wasmrt completion bash)"        # in ~/.bashrc
      eval "$(wasmrt completion zsh)"         # in ~/.zshrc
      wasmrt completion fish > ~/.config/fish/completions/wasmrt.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # each of the choices has one
    # Without the class's own check of the installed bash, which this command does not need to be there.
    source = made(click.get_current_context().find_root().command, {}, "wasmrt", VARIABLE)
    script = source.source_template % source.source_vars()
    show_json({"shell": shell, "script": script}) if as_json else show(script.rstrip("\n"))
