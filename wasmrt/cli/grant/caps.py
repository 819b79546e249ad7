"""`wasmrt caps`: write, check, explain and compare capability files. No command of this group grants anything."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from wasmrt.capabilities.file import CapabilityFile, capability_schema, format_file, parse
from wasmrt.capabilities.sentences import Change, review
from wasmrt.capabilities.sentences import diff as compare
from wasmrt.catalog.sources import read_capability_file
from wasmrt.cli.grant.caps_subject import read_subject, write_capability_file
from wasmrt.cli.shared.consent import missing_secrets, print_missing
from wasmrt.cli.shared.errors import FAILED
from wasmrt.cli.shared.groups import LazyGroup
from wasmrt.cli.shared.options import capability_file_argument, complete_tools, json_option, subject_argument
from wasmrt.cli.shared.output import Style, print_message, show, show_json, show_line
from wasmrt.core.terminal import to_single_line


@click.group(
    "caps",
    cls=LazyGroup,
    modules={
        "explain": "wasmrt.cli.grant.caps_explain",
        "import": "wasmrt.cli.grant.caps_create",
        "init": "wasmrt.cli.grant.caps_create",
        "learn": "wasmrt.cli.grant.caps_learn",
    },
)
def caps() -> None:
    """Write, check and explain capability files.

    They list what a tool requests.

    \b
    Examples:
      wasmrt caps init ./search.wasm > search.capabilities.json
      wasmrt caps check search.capabilities.json ./search.wasm
      wasmrt caps explain search.capabilities.json --url https://api.example.com/
    """


@caps.command("schema", hidden=True)
@json_option
def schema(as_json: bool) -> None:
    """Print the JSON Schema of capability files, for editors. The output is always JSON.

    \b
    Example:
      wasmrt advanced caps-schema > capabilities.schema.json
    """
    show_json(capability_schema())


@caps.command("check")
@subject_argument
@click.argument("tool", required=False, metavar="[NAME_OR_PATH]", shell_complete=complete_tools)
@json_option
def check(subject: str, tool: str | None, as_json: bool) -> None:
    """Check a capability file: report all errors, entries that need review, and secrets that are not set.

    With a tool, also check that the file covers the tool's imports. Instead of a file, you can name an installed tool,
    a component or a package: its own capability file is checked against its imports.

    \b
    Examples:
      wasmrt caps check search.capabilities.json
      wasmrt caps check search.capabilities.json ./search.wasm --json
      wasmrt caps check search
    """
    read, imports = read_subject(subject), None
    asked = read.asked
    tool = subject if tool is None and read.tool is not None else tool
    if tool is not None:
        from wasmrt.cli.grant.caps_create import import_names

        imports = import_names(tool)
    warnings = review(asked, imports)
    missing = missing_secrets(asked, tool="TOOL" if tool is None else tool)
    if as_json:
        show_json({
            "warnings": [warning.as_dict() for warning in warnings],
            "missing_secrets": [secret._asdict() for secret in missing],
        })  # fmt: skip
        return
    for warning in warnings:
        show(to_single_line(f"warning: {warning.path}: {warning.message}"))
    print_missing(missing)
    count = len(warnings) + len(missing)
    suffix = f", with {count} warning{'s' * (count != 1)}" if count else ""
    print_message(f"{Path(subject).name} is valid{suffix}")


@caps.command("diff")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@json_option
def diff(old: Path, new: Path, as_json: bool) -> int:
    """List what NEW allows beyond OLD, and what it no longer allows. Exit with code 1 if NEW is wider.

    \b
    Example:
      wasmrt caps diff search-1.capabilities.json search-2.capabilities.json
    """
    changes = compare(_read(old).capabilities, _read(new).capabilities)
    if as_json:
        show_json(changes.as_dict())
    else:
        _show_changes("wider", changes.widened, Style.ALARM)
        _show_changes("narrower", changes.narrowed, Style.PLAIN)
        if not changes:
            print_message("both files allow the same")
    return FAILED if changes.widened else 0


def _show_changes(title: str, changes: Iterable[Change], style: Style) -> None:
    for at, change in enumerate(changes):
        if at == 0:
            show(f"{title}:")
        show_line(f"{change.section}: {change.sentence}", style, indent=2)


@caps.command("fmt", hidden=True)
@capability_file_argument
@click.option("--write", is_flag=True, help="Overwrite FILE instead of printing the result.")
@json_option
def fmt(file: Path, write: bool, as_json: bool) -> None:
    """Print a file in its canonical form: fixed order, without defaults. The output is always JSON.

    \b
    Examples:
      wasmrt advanced caps-fmt search.capabilities.json
      wasmrt advanced caps-fmt --write search.capabilities.json
    """
    text = format_file(_read(file))
    if not write:
        show(text.removesuffix("\n"))
        return
    write_capability_file(file, text)
    if as_json:
        show_json({"wrote": file.name})
    else:
        print_message(f"wrote {file.name}")


def _read(path: Path) -> CapabilityFile:
    return parse(read_capability_file(path))
