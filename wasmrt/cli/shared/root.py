"""The command `wasmrt`: loads a command's file by its name, and turns every error into a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from wasmrt.cli.shared.errors import BAD_INPUT, FAILED, ended_by, interrupted, usage
from wasmrt.cli.shared.lazy import LazyGroup
from wasmrt.cli.shared.output import print_lines
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

# The help page shows these without loading a command; a test compares them with the commands' own help.
COMMANDS = {
    "approvals": "Answer the calls that wait for a person, and see and forget what was answered for good.",
    "audit": "Show and check receipts: what was called, for whom, what was decided.",
    "auth": "Log in for a tool whose capability file has an `auth.oauth` section, and keep what it needs.",
    "build": "Build the tool in DIR with its language's own toolchain.",
    "caps": "Write, check and explain capability files: what a tool asks for.",
    "completion": "Print a script that completes commands, options and the names of tools.",
    "dev": "Build and test the tool in DIR, and again whenever a file changes.",
    "doctor": "Check versions, engine, isolation, folders, configuration, cache, installed components, secrets and "
    "clock.",
    "grant": "Grant a pending update what it asks for, and start using it; or change a grant in place.",
    "inspect": "Show what a tool is, does, imports and may do, and what it would be refused.",
    "install": "Install a tool from a component file, or the tools of a package.",
    "leaks": "Find secrets before they leave.",
    "list": "Show the installed tools, one line each.",
    "mcp": "Use the tools of MCP servers: programs that run confined, and URLs that are reached through the gateway.",
    "memory": "Look at, write, restore and remove what agents remember of a user.",
    "new": "Start a tool of your own in the new folder NAME.",
    "pack": "Make an archive of the package in DIR: its wasmrt.toml and all that this names.",
    "plugins": "Check folders of plugins: programs with a manifest each.",
    "policy": "Check and show the policy over tools, and say what would become of a call.",
    "remove": "Remove a tool with all its versions and grants.",
    "replay": "Run a recorded call again and say whether the result is the same, and where it first differs.",
    "rollback": "Run an older version of a tool again.",
    "run": "Run a tool once.",
    "secret": "Keep the credentials that tools use and never see.",
    "serve": "Serve the registry's tools to MCP clients, over standard input and output or over HTTP.",
    "skills": "Keep skills: folders with a SKILL.md, whose text instructs a model and grants nothing.",
    "test": "Run the test cases of the tool in DIR, as last built, in the real sandbox.",
    "tools": "Show and call the tools of the registry: built-in, installed and plugins, under the policy of the "
    "configuration.",
    "undo": "Take back what a call changed in the workspace: every file as it was before, byte for byte.",
    "verify": "Check stored components against their digests.",
}
FOLDERS = {
    "author": ("build", "dev", "new", "pack", "test"),
    "grant": ("approvals", "caps", "grant", "install", "policy", "remove", "rollback"),
    "operate": ("audit", "auth", "completion", "doctor", "leaks", "plugins", "replay", "secret", "verify"),
    "serve": ("mcp", "serve"),
    "use": ("inspect", "list", "memory", "run", "skills", "tools", "undo"),
}
"""Folders of wasmrt/cli, each with its commands."""


class Root(LazyGroup):
    """Each command is one file in a folder of `FOLDERS`; `wasmrt run` imports `use/run.py` and no other."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        rows = [(name, _shortened(text, width)) for name, text in sorted(COMMANDS.items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a command, or one that has its help alone where an extra is not installed."""
        try:
            return super().get_command(ctx, cmd_name)
        except ConfigurationError as error:
            if error.code != "missing-extra":
                raise
            return _help_alone(cmd_name, error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments begin with; an unknown one is an error that names the nearest."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = did_you_mean(args[0], COMMANDS)
            did_you = f" Did you mean {near}?" if near else ""
            ctx.fail(f"there is no command {args[0]!r}.{did_you}")
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
            code = usage(error, as_json=as_json)
        except click.Abort:  # Ctrl-C anywhere, and the end of the input where a question was asked
            code = interrupted(as_json=as_json)
        except Exception as error:
            code = ended_by(error, as_json=as_json)
        sys.exit(code if isinstance(code, int) else 0)


def _help_alone(name: str, error: ConfigurationError) -> click.Command:
    """Return a command in place of one that cannot be loaded: it tells what is missing, in its help and when run."""

    def refuse() -> None:
        raise error

    return click.Command(
        name,
        callback=refuse,
        help=f"{COMMANDS[name]}\n\n{error.message[:1].upper()}{error.message[1:]}: {error.hint}",
        options_metavar="COMMAND [ARGS]...",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3].rpartition(" ")[0] + "..."


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version  # loads half the standard library, for this option alone

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
    """Run tools that nobody has to trust: WebAssembly components with exactly the capabilities you granted.

    \b
    Examples:
      wasmrt run echo '{"message": "hi"}'
      wasmrt install ./search.wasm
      wasmrt inspect search
      wasmrt list --json

    \b
    Exit codes:
      0  done
      1  the tool or a check failed
      2  usage or bad input
      3  denied, or a grant is needed
      4  an error of wasmrt itself
      130  interrupted
    """


def main() -> None:
    """Run the command line and end the process."""
    try:
        cli(prog_name="wasmrt")
    except SystemExit as end:
        sys.exit(_flushed(end.code))


def _flushed(code: str | int | None) -> str | int | None:
    """Write out what is buffered, so that the interpreter finds nothing left that it would complain about."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:  # None where it was closed before the start
                stream.flush()
        except OSError:  # the reader went away, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = code or FAILED
    return code
