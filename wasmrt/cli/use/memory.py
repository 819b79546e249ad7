"""`wasmrt memory`: review, correct and restore the documents that agents remember about a user."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

import click

from wasmrt.agent.builtin.memory import Author, MemoryStore, Trust, read_target
from wasmrt.agent.config import read_config_file
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import confirm_change, print_message, show, show_columns, show_json, show_json_list
from wasmrt.core.errors import InvalidParametersError, SourceError
from wasmrt.core.places import find_places
from wasmrt.runtime.audit.report import format_time
from wasmrt.runtime.memory import MemorySettings

user_option = click.option("--user", default="local", show_default=True, help="User whose memory is used.")
path_argument = click.argument("path")


@click.group("memory", cls=CommandGroup)
def memory() -> None:
    """Show and change what agents remember about a user.

    PATH is the path of a document as printed by `list`, or memory, daily_log or heartbeat.

    \b
    Examples:
      wasmrt memory list
      wasmrt memory read MEMORY.md
      wasmrt memory history MEMORY.md
      wasmrt memory restore MEMORY.md 3
    """


@memory.command("list")
@click.argument("folder", default="")
@user_option
@json_option
def list_documents(folder: str, user: str, as_json: bool) -> None:
    """List all documents, or the documents in a folder.

    TRUST is the origin of the text. trusted: a user, or a conversation without untrusted content. untrusted: a
    conversation with untrusted content. unknown: a call that was not traced.

    \b
    Examples:
      wasmrt memory list
      wasmrt memory list daily --user alice --json
    """
    entries = _store().entries(user, folder)
    if as_json:
        show_json_list(entry._asdict() | {"trust": entry.trust.word} for entry in entries)
    elif not entries:
        print_message(f"no documents in {folder!r:.200}" if folder else "no documents")
    else:
        rows = [(e.path, str(e.bytes), str(e.number), e.trust.word, format_time(e.updated_ms)) for e in entries]
        show_columns(("PATH", "BYTES", "VERSION", "TRUST", "CHANGED (UTC)"), rows)


@memory.command("read")
@path_argument
@click.option("--version", "number", type=int, help="Number of an older version, from `history`.")
@user_option
@json_option
def read(path: str, number: int | None, user: str, as_json: bool) -> None:
    """Print a document.

    \b
    Examples:
      wasmrt memory read MEMORY.md
      wasmrt memory read MEMORY.md --version 3
    """
    found = _store().read(user, read_target(path).path, version=number)
    show_json(found._asdict() | {"trust": found.trust.word}) if as_json else show(found.content)


@memory.command("search")
@click.argument("query")
@click.option("--limit", default=5, show_default=True, help="Maximum number of results.")
@user_option
@json_option
def search(query: str, limit: int, user: str, as_json: bool) -> None:
    """Search the documents.

    \b
    Examples:
      wasmrt memory search "when is the release"
    """
    found = _store().search(user, query, limit=limit)
    if as_json:
        show_json_list(hit._asdict() | {"trust": hit.trust.word} for hit in found.hits)
        return
    for hit in found.hits:
        content = "\n".join(f"  {line}" for line in hit.content.splitlines())
        show(f"{hit.path} ({hit.score:.2f}, {hit.trust.word})\n{content}")
    if not found.hits:
        print_message("no results")


@memory.command("write")
@path_argument
@click.argument("file", metavar="FILE | -")
@click.option("--append", is_flag=True, help="Append to the document instead of replacing it.")
@user_option
@json_option
def write(path: str, file: str, append: bool, user: str, as_json: bool) -> None:
    """Write a document from a file. The text is trusted, and PATH may be a document that tools cannot write.

    \b
    Examples:
      wasmrt memory write SOUL.md soul.md
      echo "Ann prefers tea" | wasmrt memory write memory - --append
    """
    store = _store()
    text = _read_text(file, store.settings.max_document_bytes)
    target = read_target(path)
    written = store.write(user, target.path, text, append=append, trust=Trust.TRUSTED, author=Author.PERSON)
    show_json(written.as_dict()) if as_json else print_message(f"wrote {written.path}, version {written.number}")


@memory.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@user_option
@json_option
def import_folder(folder: Path, user: str, as_json: bool) -> None:
    """Write all .md and .txt files of a folder: all of them, or none. The texts are trusted; hidden files are left out.

    \b
    Examples:
      wasmrt memory import notes
    """
    store = _store()
    files = [file for suffix in ("md", "txt") for file in folder.rglob(f"*.{suffix}") if file.is_file()]
    names = {file.relative_to(folder).as_posix(): file for file in sorted(files)}
    texts = {
        name: _read_text(str(file), store.settings.max_document_bytes)
        for name, file in names.items()
        if not any(part.startswith(".") for part in name.split("/"))
    }
    written = store.import_all(user, texts)
    show_json_list(each.as_dict() for each in written) if as_json else print_message(f"wrote {len(written)} documents")


@memory.command("history")
@path_argument
@user_option
@json_option
def history(path: str, user: str, as_json: bool) -> None:
    """Show the stored versions of a document, newest first.

    \b
    Examples:
      wasmrt memory history MEMORY.md
    """
    found = _store().history(user, read_target(path).path)
    if as_json:
        show_json_list(version.as_dict() for version in found)
        return
    rows = [
        (str(v.number), "appended" if v.appended else "replaced", str(v.bytes), v.author.name.lower(), v.trust.word,
         format_time(v.made_ms))
        for v in found
    ]  # fmt: skip
    show_columns(("VERSION", "WAS", "BYTES", "BY", "TRUST", "TIME (UTC)"), rows)


@memory.command("restore")
@path_argument
@click.argument("version", type=int)
@user_option
@json_option
def restore(path: str, version: int, user: str, as_json: bool) -> None:
    """Write an older version of a document as its newest version. The history keeps all versions.

    \b
    Examples:
      wasmrt memory restore MEMORY.md 3
    """
    made = _store().restore(user, read_target(path).path, version)
    if as_json:
        show_json(made.as_dict())
    else:
        print_message(f"restored version {version} of {made.path} as version {made.number}")


@memory.command("remove")
@path_argument
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@user_option
@json_option
def remove(path: str, yes: bool, user: str, as_json: bool) -> None:
    """Permanently remove a document with all its versions.

    \b
    Examples:
      wasmrt memory remove projects/old.md
    """
    store, name = _store(), read_target(path).path
    count = len(store.history(user, name))
    if not yes:
        command = f"wasmrt memory remove {quote(name)}{'' if user == 'local' else f' --user {quote(user)}'}"
        question = f"Remove {name} and its {count} versions?"
        confirm_change(question, unchanged="nothing was removed", command=command, as_json=as_json)
    store.remove(user, name)
    show_json({"removed": name, "versions": count}) if as_json else print_message(f"removed {name}")


def _store() -> MemoryStore:
    places = find_places()
    file = read_config_file(places.config)
    settings = file.runtime.get("memory") or MemorySettings()  # stored documents can be read even if memory is disabled
    return MemoryStore(settings, settings.path or file.store_place(places.memory))


def _read_text(file: str, max_bytes: int) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise SourceError(f"the file cannot be read ({reason})", hint="check its path") from error
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidParametersError("the file is not UTF-8 text", hint="save it as UTF-8") from None
