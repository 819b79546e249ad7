"""`wasmrt dev`: build and test a tool again whenever its source changes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click

from wasmrt.authoring.project import (
    Project,
    Wait,
    build,
    changes,
    open_project,
    read_cases,
    read_component,
    run_cases,
    sidecar_of,
)
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.cli.author._events import Events, JsonEvents, TextEvents
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.core.errors import WasmrtError


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """A call that each round makes besides building and testing."""

    params: str | None = None
    part: str | None = None
    workspace: Path | None = None
    yes: bool = False


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
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON, on stdout.")
def dev(folder: Path, params: str | None, part: str | None, workspace: Path | None, yes: bool, as_json: bool) -> None:
    """Build and test the tool in DIR, and again whenever a file changes. Ctrl-C ends it.

    With --params the new component is also run, with all that its capability file asks for.

    The events of --json are changed, step, built, case, tested, result, failed and waiting.

    \b
    Examples:
      wasmrt dev
      wasmrt dev weather --params '{"place": "Berlin"}' --workspace ./files
    """
    options = CallOptions(params=params, part=part, workspace=workspace, yes=yes)
    watch(open_project(folder), wait, options, JsonEvents() if as_json else TextEvents())


def watch(project: Project, wait: Wait, options: CallOptions, events: Events) -> None:
    """Do a round now and after every change, for as long as `wait` says."""
    changed = changes(project, wait)
    files: tuple[str, ...] = (project.name,)
    try:
        while files:
            events.changed(files)
            _round(project, options, events)
            events.waiting()
            files = next(changed, ())
    except KeyboardInterrupt:
        events.ended()


def _round(project: Project, options: CallOptions, events: Events) -> None:
    try:
        events.built(build(project, confirm=events.confirm_with(yes=options.yes), progress=events.step))
        if any((project.folder / "tests").glob("*.json")):
            cases = read_cases(project)
            events.tested(run_cases(project.name, read_component(project), sidecar_of(project), cases))
        if options.params is not None:
            _call(project, options.params, options, events)
    except WasmrtError as error:
        events.failed(error)  # a mistake in the source ends the round, not the command


def _call(project: Project, params: str, options: CallOptions, events: Events) -> None:
    sidecar = sidecar_of(project)
    grant = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
    with open_runtime(grant, workspace=options.workspace) as runtime:
        tool = runtime.prepare(project.name, read_component(project), grant)
        events.result((tool if options.part is None else tool.tool(options.part)).execute(params))
