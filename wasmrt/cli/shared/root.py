"""The command `wasmrt`: imports a command's module by its name, and reports errors with an exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import Any

import click

from wasmrt.cli.shared.errors import BAD_INPUT, FAILED, report_error, report_interrupt, report_usage_error
from wasmrt.cli.shared.output import print_lines
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean


class LazyGroup(click.Group):
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


# Shown on the help page without importing the commands; a test compares them with the commands' help.
COMMANDS = {
    "approvals": "Answer calls that await approval, and show and forget remembered answers.",
    "audit": "Show and verify receipts: the called tools, their users, and the decisions.",
    "auth": "Log in for a tool whose capability file has an `auth.oauth` section, and store the token.",
    "build": "Build the tool in DIR with its language's toolchain.",
    "caps": "Write, check and explain capability files, which list what a tool requests.",
    "completion": "Print a shell script that completes commands, options and tool names.",
    "config": "Show, change and explain the settings of the configuration file.",
    "dev": "Build and test the tool in DIR, and repeat whenever a file changes.",
    "doctor": "Check versions, engine, isolation, folders, configuration, cache, installed components, secrets and "
    "clock.",
    "grant": "Grant a pending update the capabilities that it requests, or change an existing grant.",
    "inspect": "Show a tool's description, imports and permissions, and which of its imports would be denied.",
    "install": "Install a tool from a component file, or the tools of a package.",
    "leaks": "Scan files for secrets.",
    "list": "List the installed tools, and whether a user agreed to offer them to agents.",
    "mcp": "Use the tools of MCP servers: confined local programs, or URLs reached through the gateway.",
    "memory": "Show, write, restore and remove the documents that agents remember about a user.",
    "new": "Create the source of a new tool in the folder NAME.",
    "pack": "Create an archive of the package in DIR: its wasmrt.toml and the files listed there.",
    "plugins": "Check folders of plugins, which are programs with a manifest.",
    "policy": "Check and show the tool policy, and explain its decision on a call.",
    "remove": "Remove a tool with all its versions and grants.",
    "replay": "Repeat a recorded call, and report where the result first differs.",
    "rollback": "Activate an older version of a tool.",
    "run": "Call a tool once.",
    "secret": "Manage the credentials that tools use but never see.",
    "serve": "Serve the registry's tools to MCP clients, over standard input and output or over HTTP.",
    "skills": "Manage skills: folders with a SKILL.md that instructs a model and grants no permissions.",
    "test": "Run the test cases of the tool in DIR, as last built, in the sandbox.",
    "tools": "Show and call the tools of the registry (built-in, installed and plugins) under the configured policy.",
    "undo": "Undo a call's changes to files in the workspace.",
    "verify": "Check stored components against their digests.",
}
FOLDERS = {
    "author": ("build", "dev", "new", "pack", "test"),
    "grant": ("approvals", "caps", "grant", "install", "policy", "remove", "rollback"),
    "operate": ("audit", "auth", "completion", "config", "doctor", "leaks", "plugins", "replay", "secret", "verify"),
    "serve": ("mcp", "serve"),
    "use": ("inspect", "list", "memory", "run", "skills", "tools", "undo"),
}
"""The commands in each folder of wasmrt/cli."""


class Root(LazyGroup):
    """The root group: each command is one module in a folder of `FOLDERS`, and only that module is imported."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        rows = [(name, _shorten(text, width)) for name, text in sorted(COMMANDS.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; if it needs an extra that is not installed, return one that only has help."""
        try:
            return super().get_command(ctx, cmd_name)
        except ConfigurationError as error:
            if error.code != "missing-extra":
                raise
            return _help_only_command(cmd_name, error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; for an unknown command, suggest the nearest name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = did_you_mean(args[0], COMMANDS)
            did_you = f" Did you mean {near}?" if near else ""
            ctx.fail(f"unknown command {args[0]!r}.{did_you}")
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        arguments = list(sys.argv[1:] if args is None else args)
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        as_json = "--json" in options
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            print_lines(error.format_message())
            code = BAD_INPUT
        except click.ClickException as error:
            code = report_usage_error(error, as_json=as_json)
        except click.Abort:  # Ctrl-C, or the end of the input at a prompt
            code = report_interrupt(as_json=as_json)
        except Exception as error:
            code = report_error(error, as_json=as_json)
        sys.exit(code if isinstance(code, int) else 0)


def _help_only_command(name: str, error: ConfigurationError) -> click.Command:
    """Return a replacement for a command that cannot be imported; its help and its error name the missing extra."""

    def refuse() -> None:
        raise error

    return click.Command(
        name,
        callback=refuse,
        help=f"{COMMANDS[name]}\n\n{error.message[:1].upper()}{error.message[1:]}: {error.hint}",
        options_metavar="COMMAND [ARGS]...",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3].rpartition(" ")[0] + "..."


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version  # slow to import

        click.echo(f"wasmrt {version('wasmrt')}")
        ctx.exit()


@click.group(
    cls=Root,
    modules={name: f"wasmrt.cli.{folder}.{name}" for folder, names in FOLDERS.items() for name in names},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def cli() -> None:
    """Run untrusted tools safely: WebAssembly components with only the capabilities that you grant.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt install ./search.wasm
      wasmrt inspect search
      wasmrt list --json

    \b
    Exit codes:
      0  success
      1  the tool or a check failed
      2  usage or bad input
      3  denied, or a grant is needed
      4  internal error of wasmrt
      130  interrupted
    """


def main() -> None:
    """Run the command line and end the process."""
    try:
        cli(prog_name="wasmrt")
    except SystemExit as end:
        sys.exit(_flush_output(end.code))


def _flush_output(code: str | int | None) -> str | int | None:
    """Flush stdout and stderr, so that the interpreter does not report a failed flush at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None if it was closed before the start
                stream.flush()
        except OSError:  # the stream was closed, for example by `head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or FAILED
    return code
