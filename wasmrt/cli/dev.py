"""`wasmrt dev`: build and test a tool again whenever its source changes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wasmrt.cli._authoring import agreeing, show_built, show_results, showing_output, telling
from wasmrt.cli._errors import fail
from wasmrt.cli._output import say, show_json
from wasmrt.errors import WasmrtError

if TYPE_CHECKING:
    from wasmrt.authoring import Project, Wait


def wait(seconds: float) -> bool:
    """Sleep, and go on: until Ctrl-C."""
    time.sleep(seconds)
    return True


@click.command("dev")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option("--params", metavar="JSON", help="Also run the tool with these params each time.")
@click.option("--tool", "part", metavar="NAME", help="Which tool --params are for, where the component holds several.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="For --params: the folder that workspace prefixes are below.",
)
@click.option("--yes", is_flag=True, help="Fetch the packages that the build needs without being asked.")
def dev(folder: Path, params: str | None, part: str | None, workspace: Path | None, yes: bool) -> None:
    """Build and test the tool in DIR, and again whenever a file changes. Ctrl-C ends it.

    With --params the new component is also run, with all that its capability file asks for.

    \b
    Examples:
      wasmrt dev
      wasmrt dev weather --params '{"place": "Berlin"}' --workspace ./files
    """
    from wasmrt.authoring import open_project

    watch(open_project(folder), wait, params=params, part=part, workspace=workspace, yes=yes)


def watch(
    project: Project, wait: Wait, *, params: str | None, part: str | None, workspace: Path | None, yes: bool
) -> None:
    """Do a round now and after every change, for as long as `wait` says."""
    from wasmrt.authoring import changes

    changed = changes(project, wait)
    told: tuple[str, ...] = (project.name,)
    try:
        while told:
            say(f"-- {', '.join(told[:5])}{' and more' if len(told) > 5 else ''}")
            _round(project, params, part, workspace, yes)
            say("waiting for a change; Ctrl-C ends")
            told = next(changed, ())
    except KeyboardInterrupt:
        say("")


def _round(project: Project, params: str | None, part: str | None, workspace: Path | None, yes: bool) -> None:
    from wasmrt.authoring import build, read_cases, read_component, run_cases, sidecar_of

    try:
        with showing_output(quiet=False):
            built = build(project, agree=agreeing(yes=yes, as_json=False), progress=telling(quiet=False))
        show_built(built)
        if any((project.folder / "tests").glob("*.json")):
            show_results(
                run_cases(project.name, read_component(project), sidecar_of(project), read_cases(project)), say
            )
        if params is not None:
            _call(project, params, part, workspace)
    except WasmrtError as error:
        fail(error, as_json=False)  # a mistake in the source ends the round, not the command


def _call(project: Project, params: str, part: str | None, workspace: Path | None) -> None:
    from wasmrt.authoring import read_component, sidecar_of
    from wasmrt.capabilities import Capabilities, parse
    from wasmrt.cli._tools import open_runtime

    sidecar = sidecar_of(project)
    grant = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
    with open_runtime(grant, workspace=workspace) as runtime:
        tool = runtime.prepare(project.name, read_component(project), grant)
        show_json((tool if part is None else tool.tool(part)).execute(params).result)
