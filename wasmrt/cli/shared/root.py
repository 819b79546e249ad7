"""The command `wasmrt`: imports a command's module by its name, and reports errors with an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from keyword import iskeyword
from typing import Any

import click

from wasmrt.cli.shared.errors import BAD_INPUT, FAILED, report_error, report_interrupt, report_usage_error
from wasmrt.cli.shared.groups import LazyGroup
from wasmrt.cli.shared.output import print_lines
from wasmrt.core.errors import ConfigurationError

HIDDEN = ("leaks", "plugins", "replay", "verify")
"""Commands that the help page shows in `advanced`."""
# Shown on the help page without importing the commands; a test compares them with the commands' help.
COMMANDS = {
    "advanced": "Use the commands that few users need.",
    "approvals": "Answer calls that await approval; manage remembered answers.",
    "audit": "Show and verify the receipts of calls.",
    "auth": "Log in to the service of a tool, and store the token.",
    "build": "Build the tool in DIR with its language's toolchain.",
    "cache": "Show and remove compiled code and the folders of builds.",
    "caps": "Write, check and explain capability files.",
    "completion": "Print a script that completes commands in your shell.",
    "config": "Show, change and explain settings.",
    "dev": "Build and test the tool in DIR after every change.",
    "doctor": "Check this installation: engine, isolation, files, secrets.",
    "export": "Write installed tools with their grants to an archive.",
    "flows": "Try flow rules on recorded conversations.",
    "grant": "Change a tool's grant, or grant what an update requests.",
    "import": "Install the tools of an archive of wasmrt export.",
    "inspect": "Show a tool's description, imports and permissions.",
    "install": "Install a tool from a component file or a package.",
    "leaks": "Scan files for secrets.",
    "list": "List the tools of all kinds, in groups.",
    "mcp": "Use the tools of MCP servers.",
    "memory": "Show and change what agents remember about a user.",
    "new": "Create the source of a new tool in the folder NAME.",
    "pack": "Create an archive of the package in DIR.",
    "plugins": "Check folders of plugins, which are programs with a manifest.",
    "policy": "Check and show the tool policy, and explain its decisions.",
    "push": "Publish the component or package in FILE in a registry.",
    "remove": "Remove a tool with all its versions and grants.",
    "replay": "Repeat a recorded call, and compare the results.",
    "rollback": "Activate an older version of a tool.",
    "routines": "Manage and run routines: prompts that run by themselves.",
    "run": "Call a tool once.",
    "search": "Find tools by WORDS in the lists that the operator names.",
    "secret": "Manage the credentials that tools use but never see.",
    "serve": "Serve tools to MCP clients, over stdio or HTTP.",
    "sign": "Sign a component with its capability file, or an archive.",
    "skills": "Manage skills: folders with instructions for models.",
    "test": "Run the test cases of the tool in DIR in the sandbox.",
    "tools": "Show a tool as models see it, with its effects.",
    "undo": "Undo a call's changes to files in the workspace.",
    "update": "Update one tool or all tools from the sources that were typed.",
    "verify": "Check stored components against their digests.",
}
FOLDERS = {
    "use": ("run", "list", "search", "inspect", "tools", "memory", "skills", "undo"),
    "author": ("new", "build", "test", "dev", "pack", "sign", "push"),
    "grant": (
        "install",
        "update",
        "remove",
        "rollback",
        "grant",
        "approvals",
        "caps",
        "policy",
        "flows",
        "export",
        "import",
    ),
    "serve": ("serve", "mcp", "routines"),
    "operate": ("doctor", "config", "audit", "secret", "auth", "cache", "completion", "advanced", *HIDDEN),
}
"""The commands in each folder of wasmrt/cli, in the order of the help page."""


class Root(LazyGroup):
    """The root group: each command is one module in a folder of `FOLDERS`, and only that module is imported."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, without importing them."""
        width = max(map(len, COMMANDS))
        for folder, names in FOLDERS.items():
            with formatter.section(folder.capitalize()):
                formatter.write_dl([(name.ljust(width), COMMANDS[name]) for name in names if name not in HIDDEN])

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the sorted names of the commands that the help page shows."""
        return sorted(COMMANDS.keys() - set(HIDDEN))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; if it needs an extra that is not installed, return one that only has help."""
        try:
            return super().get_command(ctx, cmd_name)
        except ConfigurationError as error:
            if error.code != "missing-extra":
                raise
            return _make_help_only_command(cmd_name, error)

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
        arguments = _as_option(list(sys.argv[1:] if args is None else args))
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


def _make_help_only_command(name: str, error: ConfigurationError) -> click.Command:
    """Return a replacement for a command that cannot be imported; its help and its error name the missing extra."""

    def raise_error() -> None:
        raise error

    return click.Command(
        name,
        callback=raise_error,
        help=f"{COMMANDS[name]}\n\n{error.message[:1].upper()}{error.message[1:]}: {error.hint}",
        options_metavar="COMMAND [ARGS]...",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


def _as_option(arguments: list[str]) -> list[str]:
    """Return the arguments with `help COMMAND` and `version` replaced by the options of the same name."""
    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    return ["--version"] if arguments == ["version"] else arguments


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version  # slow to import

        click.echo(f"wasmrt {version('wasmrt')}")
        ctx.exit()


@click.group(
    cls=Root,
    modules={
        name: f"wasmrt.cli.{folder}.{f'{name}_' if iskeyword(name) else name}"
        for folder, names in FOLDERS.items()
        for name in names
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
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
