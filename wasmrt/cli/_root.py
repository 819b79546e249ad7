"""The command `wasmrt`: finds a command's file by its name, and turns whatever goes wrong into words and a code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from wasmrt.cli._errors import BAD_INPUT, ended_by, interrupted, usage
from wasmrt.cli._output import say_lines
from wasmrt.names import did_you_mean

_HERE = Path(__file__).parent


class Root(click.Group):
    """Commands are the files beside this one; `wasmrt run` imports `run.py` and no other."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(path.stem for path in _HERE.glob("[a-z]*.py"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not cmd_name.isidentifier() or cmd_name.startswith("_") or not (_HERE / f"{cmd_name}.py").is_file():
            return None
        command: click.Command = getattr(import_module(f"wasmrt.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = did_you_mean(args[0], self.list_commands(ctx))
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
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        arguments = list(sys.argv[1:] if args is None else args)
        plain = arguments[: arguments.index("--")] if "--" in arguments else arguments
        as_json = "--json" in plain
        try:
            code = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            say_lines(error.format_message())
            code = BAD_INPUT
        except click.ClickException as error:
            code = usage(error, as_json=as_json)
        except click.Abort:  # Ctrl-C anywhere, and the end of the input where a question was asked
            code = interrupted(as_json=as_json)
        except Exception as error:
            code = ended_by(error, as_json=as_json)
        sys.exit(code if isinstance(code, int) else 0)


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"wasmrt {version('wasmrt')}")
        ctx.exit()


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def cli() -> None:
    """Run tools that nobody has to trust: WebAssembly components with exactly the powers you granted.

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
