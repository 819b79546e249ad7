"""`wasmrt new`: a tool's source, ready to be built."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.authoring import create_project, load_template, missing_needs, template_names
from wasmrt.cli._options import json_option
from wasmrt.cli._output import print_message, show, show_json


@click.command("new")
@click.argument("name", required=False)
@click.option("--lang", "language", metavar="LANGUAGE", help="What it is written in; --list shows the choices.")
@click.option("--list", "listing", is_flag=True, help="List the languages.")
@json_option
def new(name: str | None, language: str | None, listing: bool, as_json: bool) -> None:
    """Start a tool of your own in the new folder NAME.

    It is a small working tool with its tests: edit one file, then wasmrt build.

    \b
    Examples:
      wasmrt new --list
      wasmrt new weather --lang python
      cd weather && wasmrt build && wasmrt test
    """
    if listing:
        _list(as_json)
        return
    if name is None:
        raise click.UsageError("missing argument NAME")
    if language is None:
        raise click.UsageError(f"missing option --lang: one of {', '.join(template_names())}")
    project = create_project(name, language, Path())
    template = load_template(language)
    if as_json:
        files = sorted(path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*"))
        show_json({"name": name, "language": template.language, "edit": template.edit, "files": files})
        return
    print_message(f"wrote {name}/: {template.title}")
    print_message(f"edit {name}/{template.edit}, then: cd {name} && wasmrt build && wasmrt test")
    for need in missing_needs(template):
        print_message(f"{need.command} is missing, to build it: {need.hint}")


def _list(as_json: bool) -> None:
    titles = {language: load_template(language).title for language in template_names()}
    if as_json:
        show_json([{"language": language, "title": title} for language, title in titles.items()])
        return
    for language, title in titles.items():
        show(f"{language:<18}{title}")
