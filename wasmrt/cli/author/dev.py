"""`wasmrt dev`: build and test a tool whenever its source changes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from wasmrt.authoring.project import (
    Built,
    Confirm,
    Project,
    TestResult,
    Wait,
    build,
    open_project,
    read_cases,
    read_component,
    read_sidecar,
    run_cases,
    watch_changes,
)
from wasmrt.capabilities import Capabilities
from wasmrt.capabilities.file import parse
from wasmrt.cli.author.progress import confirm_with, show_built, show_output, show_results
from wasmrt.cli.shared.errors import fail
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.cli.shared.progress import report_progress
from wasmrt.cli.shared.runtime import open_runtime
from wasmrt.core.errors import BuildError, WasmrtError
from wasmrt.core.model import ToolOutput


class _TextEvents:
    """Prints events as messages on stderr, and the result of a call on stdout."""

    def confirm_with(self, *, yes: bool) -> Confirm:
        return confirm_with(yes=yes, as_json=False)

    def step(self, label: str) -> AbstractContextManager[None]:
        return report_progress(quiet=False)(label)

    def changed(self, files: tuple[str, ...]) -> None:
        print_message(f"-- {', '.join(files[:5])}{' and more' if len(files) > 5 else ''}")

    def built(self, built: Built) -> None:
        show_built(built)

    def tested(self, results: Iterable[TestResult]) -> None:
        show_results(results, print_message)

    def result(self, output: ToolOutput) -> None:
        show_json(output.result)

    def failed(self, error: WasmrtError) -> None:
        if isinstance(error, BuildError):
            show_output(error)
        fail(error, as_json=False)

    def waiting(self) -> None:
        print_message("waiting for changes; press Ctrl-C to stop")

    def ended(self) -> None:
        print_message("")


class _JsonEvents(_TextEvents):
    """Prints each event as a line of JSON on stdout."""

    def confirm_with(self, *, yes: bool) -> Confirm:
        return confirm_with(yes=yes, as_json=True)

    def changed(self, files: tuple[str, ...]) -> None:
        _print_line("changed", {"files": list(files)})

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        _print_line("step", {"doing": label, "seconds": time.monotonic() - started})

    def built(self, built: Built) -> None:
        component = built.project.component.relative_to(built.project.folder).as_posix()
        data = {"name": built.project.name, "component": component, "seconds": built.seconds}
        _print_line("built", data | {"unchanged": built.unchanged} | built.report.as_dict())

    def tested(self, results: Iterable[TestResult]) -> None:
        passed = failed = 0
        for result in results:
            passed, failed = passed + result.passed, failed + (not result.passed)
            _print_line("case", result.as_dict())
        _print_line("tested", {"passed": passed, "failed": failed})

    def result(self, output: ToolOutput) -> None:
        _print_line("result", output.as_dict())

    def failed(self, error: WasmrtError) -> None:
        _print_line("failed", error.as_dict())

    def waiting(self) -> None:
        _print_line("waiting", {})

    def ended(self) -> None:
        """Print nothing, because Ctrl-C is not an event."""


def _print_line(event: str, data: dict[str, Any]) -> None:
    show(json.dumps({"event": event} | data, ensure_ascii=False, allow_nan=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The call of the tool after each round of building and testing."""

    params: str | None = None
    part: str | None = None
    workspace: Path | None = None
    yes: bool = False


def wait(seconds: float) -> bool:
    """Sleep, and return True to continue."""
    time.sleep(seconds)
    return True


@click.command("dev")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option("--params", metavar="JSON", help="Also call the tool with these params each time.")
@click.option("--tool", "part", metavar="NAME", help="Which tool --params are for, if the component has several.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="For --params: workspace folder of the call.",
)
@click.option("--yes", is_flag=True, help="Download the packages that the build needs without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON, on stdout.")
def dev(folder: Path, params: str | None, part: str | None, workspace: Path | None, yes: bool, as_json: bool) -> None:
    """Build and test the tool in DIR after every change. Press Ctrl-C to stop.

    With --params, the new component is called with all capabilities that its capability file requests.

    The events of --json are changed, step, built, case, tested, result, failed and waiting.

    \b
    Examples:
      wasmrt dev
      wasmrt dev weather --params '{"place": "Berlin"}' --workspace ./files
    """
    options = CallOptions(params=params, part=part, workspace=workspace, yes=yes)
    watch(open_project(folder), wait, options, _JsonEvents() if as_json else _TextEvents())


def watch(project: Project, wait: Wait, options: CallOptions, events: _TextEvents) -> None:
    """Run a round now and after every change, until `wait` returns False."""
    changed = watch_changes(project, wait)
    files: tuple[str, ...] = (project.name,)
    try:
        while files:
            events.changed(files)
            _run_round(project, options, events)
            events.waiting()
            files = next(changed, ())
    except KeyboardInterrupt:
        events.ended()


def _run_round(project: Project, options: CallOptions, events: _TextEvents) -> None:
    try:
        events.built(build(project, confirm=events.confirm_with(yes=options.yes), progress=events.step))
        if any((project.folder / "tests").glob("*.json")):
            cases = read_cases(project)
            events.tested(run_cases(project.name, read_component(project), read_sidecar(project), cases))
        if options.params is not None:
            _call(project, options.params, options, events)
    except WasmrtError as error:
        events.failed(error)  # an error in the source ends the round, not the command


def _call(project: Project, params: str, options: CallOptions, events: _TextEvents) -> None:
    sidecar = read_sidecar(project)
    grant = Capabilities.none() if sidecar is None else parse(sidecar).capabilities
    with open_runtime(grant, workspace=options.workspace) as runtime:
        tool = runtime.prepare(project.name, read_component(project), grant)
        events.result((tool if options.part is None else tool.tool(options.part)).execute(params))
