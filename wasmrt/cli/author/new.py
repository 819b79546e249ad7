"""`wasmrt new`: create the source of a new tool."""

from __future__ import annotations

from pathlib import Path

import click

from wasmrt.authoring.project import WorldForm, create_project, load_template, missing_needs, template_names
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import print_message, show, show_json

_FORMS = {
    WorldForm.FUNCTIONS: "functions with types and doc comments, the recommended form of a tool",
    WorldForm.PROVIDER: "a provider, which describes its tools with JSON Schemas; other languages: --world provider",
}


@click.command("new")
@click.argument("name", required=False)
@click.option("--lang", "language", metavar="LANGUAGE", help="Programming language; --list shows the choices.")
@click.option(
    "--world",
    type=click.Choice([form.value for form in WorldForm]),
    help="Functions, or a provider with its own schemas (default: functions, if the language supports them).",
)
@click.option(
    "--example",
    type=click.Choice(["weather"]),
    help="Start from a longer example: weather uses an HTTP API, files and failures.",
)
@click.option("--list", "listing", is_flag=True, help="List the languages.")
@json_option
def new(
    name: str | None, language: str | None, world: str | None, example: str | None, listing: bool, as_json: bool
) -> None:
    """Create the source of a new tool in the folder NAME.

    The source is a small working tool with a test. Edit it, then run wasmrt build. Each function that its WIT world
    exports is a tool: the types become the schema of its params, and the doc comment becomes its description. C and Go
    have no bindings for custom worlds and use --world provider: the tool describes itself with JSON Schemas.

    \b
    Examples:
      wasmrt new --list
      wasmrt new words --lang python
      wasmrt new weather --lang python --example weather
      wasmrt new weather --lang rust --world provider
      cd weather && wasmrt build && wasmrt test
    """
    if listing:
        _list(as_json)
        return
    if name is None:
        raise click.UsageError("missing argument NAME")
    if language is None:
        raise click.UsageError(f"missing option --lang: one of {', '.join(template_names())}")
    template = load_template(language)
    form = template.worlds[0] if world is None else WorldForm(world)
    project = create_project(name, language, Path(), world=form, minimal=example is None)
    if as_json:
        files = sorted(path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*"))
        data = {"name": name, "language": template.language, "world": form, "edit": template.edit, "files": files}
        show_json(data)
        return
    print_message(f"wrote {name}/: {template.title}")
    edited = f"{name}/{template.edit}"
    if form is WorldForm.FUNCTIONS:
        edited = f"{name}/wit/tool.wit, which declares the functions, and {edited}"
    print_message(f"edit {edited}, then: cd {name} && wasmrt build && wasmrt test")
    for need in missing_needs(template):
        print_message(f"the build needs {need.command}, which is missing: {need.hint}")


def _list(as_json: bool) -> None:
    templates = sorted(map(load_template, template_names()), key=lambda template: -len(template.worlds))
    if as_json:
        show_json([
            {"language": template.language, "title": template.title, "worlds": list(template.worlds)}
            for template in templates
        ])  # fmt: skip
        return
    for form, description in _FORMS.items():
        show(f"{description}:")
        for template in templates:
            if template.worlds[0] is form:
                show(f"  {template.language:<18}{template.title}")
