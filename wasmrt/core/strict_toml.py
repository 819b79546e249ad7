"""Strict reading of TOML that an operator wrote: every mistake at once, each with the nearest known key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.names import did_you_mean

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?\Z")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")


class Mistake(NamedTuple):
    """One mistake of a file: the key, what is wrong, and the next step."""

    key: str
    problem: str
    hint: str | None = None


class Place(NamedTuple):
    """A table of a file, by the keys that lead to it."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.keys)

    def at(self, key: str) -> Place:
        """Return the place of a key in this table."""
        return Place((*self.keys, key))


def section_of(table: str, name: str) -> str:
    """Return the head of a section below a table, as a file has it: `tools.rules.shell`, `tools.rules."files.*"`."""
    return f"{table}.{name if _BARE.fullmatch(name) else json.dumps(name)}"


Reader = Callable[[Any], Any]
ValueReader = Callable[[Any, Path], dict[str, Any]]
"""From a value and the folder of the file to settings by name."""


def lines_of(text: str) -> dict[str, int]:
    """Return the line on which each table and key of a TOML text stands first, by its dotted name.

    It reads headers and the beginnings of lines alone: in a text over several lines it may see keys that are none.
    """
    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            found.setdefault(".".join(table), number)
        elif key := _KEY.match(line):
            found.setdefault(".".join((*table, *_parts(key[1]))), number)
    return found


def read_table(
    table: Any, place: Place, readers: Mapping[str, Reader], mistakes: list[Mistake], *, example: str
) -> dict[str, Any]:
    """Read every key of a table by its reader; what is wrong or not known is added to `mistakes`."""
    if not isinstance(table, dict):
        mistakes.append(Mistake(str(place), "must be a section", f"write [{place}] in a line of its own; {example}"))
        return {}
    values = {}
    for key, value in table.items():
        where = str(place.at(key))
        if key not in readers:
            mistakes.append(Mistake(where, "is not known", _meant(key, readers)))
            continue
        try:
            values[key] = readers[key](value)
        except ConfigurationError as error:
            mistakes.append(Mistake(where, error.message.removeprefix(f"{key} "), error.hint))
    return values


def boolean(value: Any) -> bool:
    """Return a truth value.

    Raises:
        ConfigurationError: it is none.
    """
    if not isinstance(value, bool):
        raise ConfigurationError("must be true or false")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return a list of texts.

    Raises:
        ConfigurationError: it is none, or one of them is empty or long.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) and 0 < len(item) <= 256 for item in value):
        raise ConfigurationError("must be a list of texts", hint='write it like ["first", "second"]')
    if len(value) > 4096:
        raise ConfigurationError("may have 4096 entries")
    return tuple(value)


def whole_number(least: int, most: int) -> Reader:
    """Return a reader of whole numbers from `least` to `most`."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigurationError(f"must be a whole number from {least} to {most}")
        return value

    return read


def seconds(most: float) -> Reader:
    """Return a reader of seconds, over 0 and up to `most`."""

    def read(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= most:
            raise ConfigurationError(f"must be a number of seconds up to {most:g}")
        return float(value)

    return read


def one_of(kind: Callable[[Any], Any], known: Iterable[str]) -> Reader:
    """Return a reader of one of a closed set of texts."""
    listed = tuple(known)

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in listed:
            near = did_you_mean(value, listed)
            hint = f'did you mean "{near}"?' if near else None
            raise ConfigurationError(f"must be one of {', '.join(listed)}", hint=hint)
        return kind(value)

    return read


def keyed(key: str, reader: Reader) -> ValueReader:
    """Return the reader of a key that sets `key`, whatever the folder of the file."""
    return lambda value, _: {key: reader(value)}


def path_in(key: str, kind: str, example: str) -> ValueReader:
    """Return the reader of a key that is a path from the folder of the file; `kind` is what messages call it."""

    def read(value: Any, folder: Path) -> dict[str, Any]:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ConfigurationError(f"{key} must be a {kind}", hint=f'write it like {key} = "{example}"')
        return {key: folder / value}

    return read


def _meant(key: str, known: Iterable[str]) -> str:
    near = did_you_mean(key, known)
    return f"did you mean {near}?" if near else f"known are {', '.join(known)}"


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(a or b or c for a, b, c in _PART.findall(dotted))
