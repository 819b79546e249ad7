"""Strict reading of TOML within bounds: all errors are reported together, with suggestions for unknown keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_TOML_BYTES
from wasmrt.core.names import did_you_mean

_HEADER = re.compile(r"\s*\[\[?\s*(.+?)\s*\]\]?\s*(?:#.*)?\Z")
_KEY = re.compile(r"""\s*((?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+))*)\s*=""")
_PART = re.compile(r""""([^"]*)"|'([^']*)'|([A-Za-z0-9_-]+)""")
_MAX_DOTS = 10_000
"""Maximum number of dots in a text. Each part of a dotted key or table name takes a kilobyte of memory."""
_MAX_LINE_DOTS = 256
"""Maximum number of dots in a line. `tomllib` takes quadratic time and memory for the parts of one dotted key."""
_MAX_TABLES = 10_000
_LONG_NUMBER = re.compile(r"""(?<![\w"'])[0-9+-][\w.+-]{4300}""")
"""Matches a number that is refused for its length: it takes 128 bytes of memory per digit."""


class TomlError(ValueError):
    """A text is not TOML, or exceeds a bound."""


def read_toml(data: bytes) -> dict[str, Any]:
    """Parse TOML of a third party within bounds, so that it takes less than 32 MiB of memory.

    Raises:
        TomlError: the data is not TOML, or exceeds a bound.
    """
    if len(data) > MAX_TOML_BYTES:
        raise TomlError(f"it has more than {MAX_TOML_BYTES:,} bytes")
    try:
        text = data.decode()
        if text.count(".") > _MAX_DOTS or text.count("\n[") > _MAX_TABLES:
            raise TomlError(f"it has more than {_MAX_DOTS:,} dots, or more than {_MAX_TABLES:,} tables")
        if any(line.count(".") > _MAX_LINE_DOTS for line in text.split("\n")):
            raise TomlError(f"it has more than {_MAX_LINE_DOTS} dots in a line")
        if _LONG_NUMBER.search(text):
            raise TomlError("it has a number with more than 4,300 digits")
        return tomllib.loads(text)
    except TomlError:
        raise
    except (ValueError, RecursionError) as error:
        raise TomlError(str(error)) from error


class Mistake(NamedTuple):
    """One error in a file: the key, the problem and the suggested fix."""

    key: str
    problem: str
    hint: str | None = None


class Place(NamedTuple):
    """A table of a file, as the keys that lead to it."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.keys)

    def at(self, key: str) -> Place:
        """Return the place of a key in this table."""
        return Place((*self.keys, key))


Reader = Callable[[Any], Any]
ValueReader = Callable[[Any, Path], dict[str, Any]]
"""Converts a value, with the directory of its file, to settings by name."""


def find_lines(text: str) -> dict[str, int]:
    """Return the line on which each table and key first appears, by dotted name.

    Only headers and line beginnings are parsed: in a multi-line string, text can be mistaken for keys.
    """
    found: dict[str, int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _split_key(header[1])
            found.setdefault(".".join(table), number)
        elif key := _KEY.match(line):
            found.setdefault(".".join((*table, *_split_key(key[1]))), number)
    return found


def read_table(
    table: Any, place: Place, readers: Mapping[str, Reader], mistakes: list[Mistake], *, example: str
) -> dict[str, Any]:
    """Read every key of a table with its reader; errors and unknown keys are appended to `mistakes`."""
    if not isinstance(table, dict):
        mistakes.append(Mistake(str(place), "must be a section", f"write [{place}] on a separate line; {example}"))
        return {}
    values = {}
    for key, value in table.items():
        where = str(place.at(key))
        if key not in readers:
            mistakes.append(Mistake(where, "is not known", _suggest(key, readers)))
            continue
        try:
            values[key] = readers[key](value)
        except ConfigurationError as error:
            mistakes.append(Mistake(where, error.message.removeprefix(f'"{key}" ').removeprefix(f"{key} "), error.hint))
    return values


def read_boolean(value: Any) -> bool:
    """Return a Boolean.

    Raises:
        ConfigurationError: the value is not a Boolean.
    """
    if not isinstance(value, bool):
        raise ConfigurationError("must be true or false")
    return value


def read_texts(value: Any) -> tuple[str, ...]:
    """Return a list of strings.

    Raises:
        ConfigurationError: the value is not a list or is too long, or an entry is empty, too long or not a string.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) and 0 < len(item) <= 256 for item in value):
        raise ConfigurationError("must be a list of strings", hint='write it like ["first", "second"]')
    if len(value) > 4096:
        raise ConfigurationError("must have at most 4096 entries")
    return tuple(value)


def make_number_reader(least: int, most: int) -> Reader:
    """Return a reader for whole numbers from `least` to `most`."""

    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ConfigurationError(f"must be a whole number from {least} to {most}")
        return value

    return read


def make_seconds_reader(most: float) -> Reader:
    """Return a reader for a number of seconds greater than 0, up to `most`."""

    def read(value: Any) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= most:
            raise ConfigurationError(f"must be a number of seconds up to {most:g}")
        return float(value)

    return read


def make_choice_reader(kind: Callable[[Any], Any], known: Iterable[str]) -> Reader:
    """Return a reader for one of a closed set of strings."""
    listed = tuple(known)

    def read(value: Any) -> Any:
        if not isinstance(value, str) or value not in listed:
            near = did_you_mean(value, listed)
            hint = f'did you mean "{near}"?' if near else None
            raise ConfigurationError(f"must be one of {', '.join(listed)}", hint=hint)
        return kind(value)

    return read


def make_keyed_reader(key: str, reader: Reader) -> ValueReader:
    """Return a reader that sets `key`, independent of the file's directory."""
    return lambda value, _: {key: reader(value)}


def make_path_reader(key: str, kind: str, example: str) -> ValueReader:
    """Return a reader for a path relative to the file's directory; messages call it `kind`."""

    def read(value: Any, folder: Path) -> dict[str, Any]:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ConfigurationError(f"{key} must be a {kind}", hint=f'write it like {key} = "{example}"')
        return {key: folder / value}

    return read


def _suggest(key: str, known: Iterable[str]) -> str:
    near = did_you_mean(key, known)
    return f"did you mean {near}?" if near else f"known are {', '.join(known)}"


def _split_key(dotted: str) -> tuple[str, ...]:
    return tuple(a or b or c for a, b, c in _PART.findall(dotted))
