"""`wasmrt memory`: what an agent remembers of a user, for a person to look at, correct and take back."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

import click

from wasmrt.agent.builtin.memory import Author, MemoryStore, Trust, read_target
from wasmrt.agent.config import read_config_file
from wasmrt.cli.shared.options import json_option
from wasmrt.cli.shared.output import is_interactive, print_message, show, show_columns, show_json, show_json_list
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, SourceError
from wasmrt.core.places import find_places
from wasmrt.runtime.audit.report import in_words
from wasmrt.runtime.memory import MemorySettings

user_option = click.option("--user", default="local", show_default=True, help="Whose memory it is.")
path_argument = click.argument("path")


@click.group("memory")
def memory() -> None:
    """Look at, write, restore and remove what agents remember of a user.

    PATH is a document as `list` shows it, or memory, daily_log or heartbeat.

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
    """List the documents, all of them or those below a folder.

    TRUST says where a text comes from: trusted is a person's, or of a conversation that saw no stranger's text;
    untrusted of one that did; unknown of a call that nobody kept track of.

    \b
    Examples:
      wasmrt memory list
      wasmrt memory list daily --user alice --json
    """
    entries = _store().entries(user, folder)
    if as_json:
        show_json_list(entry._asdict() | {"trust": entry.trust.word} for entry in entries)
    elif not entries:
        print_message(f"there is nothing below {folder!r:.200}" if folder else "nothing is remembered yet")
    else:
        rows = [(e.path, str(e.bytes), str(e.number), e.trust.word, in_words(e.updated_ms)) for e in entries]
        show_columns(("PATH", "BYTES", "VERSION", "TRUST", "CHANGED (UTC)"), rows)


@memory.command("read")
@path_argument
@click.option("--version", "number", type=int, help="An older version, as `history` numbers them.")
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
    if as_json:
        show_json(found._asdict() | {"trust": found.trust.word})
    else:
        show(found.content)


@memory.command("search")
@click.argument("query")
@click.option("--limit", default=5, show_default=True, help="Results at most.")
@user_option
@json_option
def search(query: str, limit: int, user: str, as_json: bool) -> None:
    """Search the documents by their words.

    \b
    Examples:
      wasmrt memory search "when is the release"
    """
    found = _store().search(user, query, limit=limit)
    if as_json:
        show_json_list(hit._asdict() | {"trust": hit.trust.word} for hit in found.hits)
        return
    for hit in found.hits:
        show(f"{hit.path} ({hit.score:.2f}, {hit.trust.word})\n{_indented(hit.content)}")
    if not found.hits:
        print_message("nothing was found")


@memory.command("write")
@path_argument
@click.argument("file", metavar="FILE | -")
@click.option("--append", is_flag=True, help="Put it behind what is there, in place of replacing that.")
@user_option
@json_option
def write(path: str, file: str, append: bool, user: str, as_json: bool) -> None:
    """Write a document from a file: what you write is trusted, and can be a file that no tool writes.

    \b
    Examples:
      wasmrt memory write SOUL.md soul.md
      echo "Ann prefers tea" | wasmrt memory write memory - --append
    """
    store = _store()
    text = _text_of(file, store.settings.max_document_bytes)
    target = read_target(path)
    written = store.write(user, target.path, text, append=append, trust=Trust.TRUSTED, author=Author.PERSON)
    if as_json:
        show_json(written.as_dict())
    else:
        print_message(f"wrote {written.path}, version {written.number}")


@memory.command("history")
@path_argument
@user_option
@json_option
def history(path: str, user: str, as_json: bool) -> None:
    """Show the versions of a document that are kept, the newest first.

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
         in_words(v.made_ms))
        for v in found
    ]  # fmt: skip
    show_columns(("VERSION", "WAS", "BYTES", "BY", "TRUST", "TIME (UTC)"), rows)


@memory.command("restore")
@path_argument
@click.argument("version", type=int)
@user_option
@json_option
def restore(path: str, version: int, user: str, as_json: bool) -> None:
    """Make an older version of a document the newest again. The versions between stay in the history.

    \b
    Examples:
      wasmrt memory restore MEMORY.md 3
    """
    made = _store().restore(user, read_target(path).path, version)
    if as_json:
        show_json(made.as_dict())
    else:
        print_message(f"{made.path} is what it was in version {version}; that is version {made.number} now")


@memory.command("remove")
@path_argument
@click.option("--yes", is_flag=True, help="Do it without being asked: for scripts.")
@user_option
@json_option
def remove(path: str, yes: bool, user: str, as_json: bool) -> None:
    """Remove a document with all of its versions, for good.

    \b
    Examples:
      wasmrt memory remove projects/old.md
    """
    store, name = _store(), read_target(path).path
    kept = len(store.history(user, name))
    if not yes:
        if as_json or not is_interactive():
            whose = "" if user == "local" else f" --user {quote(user)}"
            hint = f"say so if it is meant: wasmrt memory remove {quote(name)}{whose} --yes"
            raise ConfigurationError("nothing was removed: nobody is here to ask", code="not-confirmed", hint=hint)
        if not click.confirm(f"Remove {name} and its {kept} versions?", default=False, err=True):
            raise ConfigurationError("nothing was removed", code="not-confirmed")
    store.remove(user, name)
    if as_json:
        show_json({"removed": name, "versions": kept})
    else:
        print_message(f"removed {name}")


def _store() -> MemoryStore:
    settings = read_config_file(find_places().config).runtime.get("memory")
    return MemoryStore(settings or MemorySettings())  # a person looks at it also where no agent has it


def _text_of(file: str, most: int) -> str:
    try:
        if file == "-":
            data = sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise SourceError(f"the file cannot be read ({reason})", hint="check its path") from error
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise InvalidParametersError("the file is no UTF-8 text", hint="save it as UTF-8") from None


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
