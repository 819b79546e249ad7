"""`wasmrt build`: from a tool's source to its component."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.authoring.project import build as build_project
from wasmrt.authoring.project import open_project
from wasmrt.cli.author.progress import confirm_with, report_progress, show_built, showing_output
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_json


@click.command("build")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option("--yes", is_flag=True, help="Fetch the packages that the build needs without being asked: for scripts.")
@json_option
def build(folder: Path, yes: bool, as_json: bool) -> None:
    """Build the tool in DIR with its language's own toolchain.

    The toolchain is found on this machine; what is a registry package is fetched into a private folder once you
    agree. The component ends up in DIR/build, checked: what it is, what it asks for, what it would be denied.

    Where nothing changed since the last build, nothing is done: no file of DIR, no toolchain, nothing in DIR/build.
    Remove DIR/build to build all the same.

    \b
    Examples:
      wasmrt build
      wasmrt build weather --yes
    """
    project = open_project(folder)
    with showing_output(quiet=as_json):
        built = build_project(
            project, confirm=confirm_with(yes=yes, as_json=as_json), progress=report_progress(quiet=as_json)
        )
    component = project.component.relative_to(project.folder).as_posix()
    if as_json:
        show_json(
            {"name": project.name, "component": component, "seconds": built.seconds, "unchanged": built.unchanged}
            | built.report.as_dict(),
        )
        return
    show_built(built)
    where = "" if folder == Path() else f" {folder.as_posix()}"
    print_message(f"next: wasmrt test{where}, wasmrt pack{where}, or wasmrt install {(folder / component).as_posix()}")
