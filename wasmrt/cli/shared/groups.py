"""Groups of commands: full summaries in the help, modules that are imported on use, and suggestions for other names."""

from __future__ import annotations

import gc
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from keyword import iskeyword
from types import ModuleType
from typing import Any

import click

from wasmrt.cli.shared.errors import UnknownCommandError
from wasmrt.core.names import did_you_mean

SYNONYMS = {
    **dict.fromkeys(("uninstall", "rm", "delete", "del", "erase"), "remove"),
    **dict.fromkeys(("ls", "tool", "search", "find"), "list"),
    "add": "install",
    "upgrade": "update",
    **dict.fromkeys(("exec", "execute", "call", "invoke"), "run"),
    **dict.fromkeys(("info", "show", "describe", "view", "cat"), "inspect"),
    **dict.fromkeys(("logs", "log", "receipts", "history"), "audit"),
    **dict.fromkeys(("permissions", "permission", "capabilities"), "caps"),
    **dict.fromkeys(("init", "create", "scaffold"), "new"),
    **dict.fromkeys(("start", "server", "mcp-server"), "serve"),
    **dict.fromkeys(("login", "logout"), "auth"),
    **dict.fromkeys(("compile", "make"), "build"),
    **dict.fromkeys(("check", "status", "health", "diagnose"), "doctor"),
    **dict.fromkeys(("allow", "revoke"), "grant"),
    **dict.fromkeys(("approve", "deny", "pending"), "approvals"),
    **dict.fromkeys(("secrets", "credentials", "env"), "secret"),
    "watch": "dev",
    **dict.fromkeys(("package", "publish"), "pack"),
    **dict.fromkeys(("revert", "downgrade"), "rollback"),
    "servers": "mcp",
}
"""Names that other programs use for a command. A group suggests the command, if it has one with this name."""


class CommandGroup(click.Group):
    """A group whose help shows the first sentence of each command in full."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their summaries, except hidden commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, get_summary(command)) for name, command in found if command is not None and not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; for an unknown command, suggest the right one.

        Raises:
            UnknownCommandError: there is no such command.
        """
        name = args[0] if args else ""
        if ctx.resilient_parsing or not name or name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        known = self.list_commands(ctx)
        meant = SYNONYMS.get(name.lower())
        near = meant if meant in known else did_you_mean(name, known)
        rest = "--help" if near is None else shlex.join([near, *args[1:]])
        message = f"unknown command {name!r:.60}." + (f" Did you mean {near}?" if near else "")
        raise UnknownCommandError(message, ctx, hint=f"{ctx.command_path} {rest}")


class LazyGroup(CommandGroup):
    """A group whose commands are in separate modules, which are imported on use.

    Attributes:
        modules: Maps a command's name to its module.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self.modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names of the commands."""
        return sorted({*super().list_commands(ctx), *self.modules})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; return None if the name is unknown."""
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(_load(self.modules[cmd_name]), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and attach its context to usage errors, so that they refer to the command's help."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            if error.ctx is None and name is not None and (command := self.get_command(ctx, name)) is not None:
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def get_summary(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    first = " ".join(cleandoc(command.help or "").partition("\n\n")[0].split())
    return f"{first.partition('. ')[0].rstrip('.')}."


def _load(name: str) -> ModuleType:
    """Import a module with garbage collection disabled, which saves a tenth of a short command's time."""
    if name in sys.modules:
        return sys.modules[name]
    collecting = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()  # exclude the imported objects from later collections
        if collecting:
            gc.enable()
