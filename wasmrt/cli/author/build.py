"""`wasmrt build`: build a tool's component from its source."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.authoring.project import build as build_project
from wasmrt.authoring.project import open_project
from wasmrt.cli.author.progress import confirm_with, show_built, showing_output
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show_json
from wasmrt.cli.shared.progress import report_progress


@click.command("build")
@click.argument("folder", type=click.Path(path_type=Path), metavar="[DIR]", default=Path())
@click.option("--yes", is_flag=True, help="Download the packages that the build needs without asking.")
@json_option
def build(folder: Path, yes: bool, as_json: bool) -> None:
    """Build the tool in DIR with its language's toolchain.

    The toolchain must be installed on this machine, and a build does not change it. After you confirm, the packages
    that the build needs are downloaded into a private folder. The component is written to DIR/build. The command
    reports the component's tools, imports and requested capabilities, and the imports that would be denied.

    If the source, the toolchain and DIR/build have not changed since the last build, nothing is built. To force a
    build, remove DIR/build.

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
            | built.report.as_dict()
        )
        return
    show_built(built)
    where = "" if folder == Path() else f" {folder.as_posix()}"
    print_message(f"next: wasmrt test{where}, wasmrt pack{where}, or wasmrt install {(folder / component).as_posix()}")
