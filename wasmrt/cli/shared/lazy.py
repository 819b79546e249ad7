"""A group of commands whose files are loaded when they are used."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import Any

import click


class LazyGroup(click.Group):
    """A group with commands in modules of their own, each under its name and loaded when it is used.

    Attributes:
        modules: From a command's name to the module that has it.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted({*super().list_commands(ctx), *self.modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command; None where there is none of that name."""
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(_load(self.modules[cmd_name]), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a mistake that the option parser found is one of the command's, whose help tells more."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            if error.ctx is None and name is not None and (command := self.get_command(ctx, name)) is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def _load(name: str) -> ModuleType:
    """Import a module without searching for garbage: what it loads stays, and the search is a tenth of a short run."""
    if name in sys.modules:
        return sys.modules[name]
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()  # neither later searches nor the interpreter's exit look at it
        if collecting:
            gc.enable()
