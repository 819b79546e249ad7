"""`wasmrt test`: run a tool's test cases in the sandbox."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.authoring.project import is_stale, open_project, read_cases, read_component, read_sidecar, run_cases
from wasmrt.cli.author.progress import show_results
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_json
from wasmrt.core.errors import ConfigurationError


@click.command("test")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option("-k", "only", metavar="TEXT", help="Only run cases whose name or file contains TEXT.")
@json_option
def test(folder: Path, only: str | None, as_json: bool) -> int:
    """Run the test cases of the tool in DIR in the sandbox.

    A case is an object, or an entry of a list, in DIR/tests/*.json. It has a name, an input, and an expected_output,
    expected_fields or expected_error. Optional: http (recorded exchanges), workspace (files), secrets (names), tool,
    context, description and timeout (seconds). The test grants exactly what the capability file requests. No request
    leaves this machine.

    \b
    Example:
      {"name": "greets", "input": {"who": "Ada"}, "expected_output": "Hello, Ada"}

    \b
    Examples:
      wasmrt test
      wasmrt test weather -k berlin --json
    """
    project = open_project(folder)
    cases = read_cases(project)
    if only is not None:
        cases = tuple(case for case in cases if only in case.name or only in case.file)
        if not cases:
            hint = "to run all cases, omit -k"
            raise ConfigurationError(f"no case's name or file contains {only!r:.60}", hint=hint)
    component = read_component(project)
    if is_stale(project):
        print_message("warning: the source has changed since the last build; to rebuild, run: wasmrt build")
    results = run_cases(project.name, component, read_sidecar(project), cases)
    if as_json:
        listed = list(results)
        failed = sum(not result.passed for result in listed)
        show_json({"passed": len(listed) - failed, "failed": failed, "cases": [result.as_dict() for result in listed]})
    else:
        _, failed = show_results(results, show)
    return FAILED if failed else 0
