"""Field types of a JSON document: each one reads a value and writes its JSON Schema.

Reader and schema come from one declaration, so that the published schema cannot differ from the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.names import did_you_mean

INVALID: Final = object()
"""Returned instead of a refused value, after its problem was added."""
_MAX_PROBLEMS = 100
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


class Problems:
    """Collects the errors of one file as `(path, message)`, in order, up to a hundred."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, sentence: str) -> None:
        if len(self.found) < _MAX_PROBLEMS:
            self.found.append((path or "$", sentence))

    def __len__(self) -> int:
        return len(self.found)


def child(path: str, key: str | int) -> str:
    """Return the path of a member, such as `http.allowlist[0].host`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not key.replace("_", "").isalnum() or not key.isascii():
        return f"{path}[{json.dumps(key[:64])}]"
    return f"{path}.{key}" if path else key


class Field(Protocol):
    """A field type: the values that a document accepts in one place."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        """Return the value in its canonical spelling, or INVALID after adding the problems."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the field."""


def _wrong(value: Any, wanted: str, path: str, problems: Problems) -> Any:
    problems.add(path, f"must be {wanted}, not {_KINDS.get(type(value), 'a number')}")
    return INVALID


class Text(NamedTuple):
    """A string. `check` returns its canonical spelling or raises a WasmrtError; the schema uses `pattern` instead."""

    max_length: int = 4096
    check: Callable[[str], Any] | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    upper: bool = False

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, str):
            return _wrong(value, "text", path, problems)
        if len(value) > self.max_length:
            problems.add(path, f"must be at most {self.max_length} characters long")
            return INVALID
        value = value.upper() if self.upper else value
        if self.choices and value not in self.choices:
            problems.add(path, f"must be one of {', '.join(self.choices)}{nearest(value, self.choices)}")
            return INVALID
        if self.check is None:
            return value
        try:
            return self.check(value)
        except WasmrtError as error:
            problems.add(path, f"{error.message}{f' ({error.hint})' if error.hint else ''}")
            return INVALID

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        if self.choices:
            lower = [choice.lower() for choice in self.choices] if self.upper else []
            return schema | {"enum": [*self.choices, *lower]}
        if self.pattern:
            schema["pattern"] = self.pattern
        return schema | {"maxLength": self.max_length}


class Number(NamedTuple):
    """A positive number, an integer unless `fraction`; `example` appears in the error."""

    fraction: bool = False
    maximum: int = 2**53 - 1
    example: str = ""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        wanted = "a positive number" if self.fraction else "a positive whole number"
        example = f", such as {self.example}" if self.example else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _wrong(value, wanted + example, path, problems)
        if not 0 < value <= self.maximum or not (self.fraction or isinstance(value, int)):
            problems.add(path, f"must be {wanted} of at most {self.maximum}{example}")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        kind = "number" if self.fraction else "integer"
        return {"type": kind, "exclusiveMinimum": 0, "maximum": self.maximum}


class Flag:
    """True or false."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        return value if isinstance(value, bool) else _wrong(value, "true or false", path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Anything(NamedTuple):
    """Any value; with `only_object`, any object."""

    only_object: bool = False

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if self.only_object and not isinstance(value, dict):
            return _wrong(value, "an object", path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"} if self.only_object else {}


class ListOf(NamedTuple):
    """A list with items of one field type. An invalid item invalidates the list, because a gap could widen it."""

    item: Field
    min_items: int = 0

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, list):
            return _wrong(value, "a list", path, problems)
        if not self.min_items <= len(value) <= MAX_CAPABILITY_ENTRIES:
            problems.add(path, f"must hold {self.min_items} to {MAX_CAPABILITY_ENTRIES} entries, not {len(value)}")
            return INVALID
        items = [self.item.read(item, child(path, index), problems) for index, item in enumerate(value)]
        return INVALID if any(item is INVALID for item in items) else items

    def schema(self) -> dict[str, Any]:
        at_least = {"minItems": self.min_items} if self.min_items else {}
        return {"type": "array", "items": self.item.schema(), "maxItems": MAX_CAPABILITY_ENTRIES} | at_least


class MapOf(NamedTuple):
    """An object with arbitrary keys and values of one field type."""

    item: Field
    key: Text = Text(max_length=128)

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return _wrong(value, "an object", path, problems)
        if len(value) > MAX_CAPABILITY_ENTRIES:
            problems.add(path, f"must hold at most {MAX_CAPABILITY_ENTRIES} entries, not {len(value)}")
            return INVALID
        members = {}
        for key, member in value.items():
            at = child(path, key)
            members[self.key.read(key, at, problems)] = self.item.read(member, at, problems)
        return INVALID if any(INVALID in pair for pair in members.items()) else members

    def schema(self) -> dict[str, Any]:
        keys = {"propertyNames": {"pattern": self.key.pattern}} if self.key.pattern else {}
        return {
            "type": "object",
            "additionalProperties": self.item.schema(),
            "maxProperties": MAX_CAPABILITY_ENTRIES,
        } | keys


class Property(NamedTuple):
    """One key of an object; `aliases` are other spellings that are read but never written."""

    field: Field
    about: str
    required: bool = False
    aliases: tuple[str, ...] = ()


class ObjectSchema(NamedTuple):
    """An object with known keys. An unknown key is an error that suggests the nearest known key."""

    properties: Mapping[str, Property]
    either: tuple[tuple[str, str], ...] = ()
    """Pairs of keys that exclude each other."""
    needs_one: tuple[tuple[str, str], ...] = ()
    """Pairs of keys of which one is required."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return _wrong(value, "an object", path, problems)
        before = len(problems)
        spellings = {s: key for key, prop in self.properties.items() for s in (key, *prop.aliases)}
        result: dict[str, Any] = {}
        for written, item in value.items():
            at = child(path, written)
            key = spellings.get(written)
            if key is None:
                problems.add(at, f"unknown key{nearest(written, tuple(spellings)) or _known(self.properties)}")
            elif key in result:
                problems.add(at, f"two spellings of one key; keep {key!r} only")
            else:
                result[key] = self.properties[key].field.read(item, at, problems)
        for key, prop in self.properties.items():
            if prop.required and key not in result:
                problems.add(child(path, key), "is missing")
        for one, other in self.needs_one:
            if one not in result and other not in result:
                problems.add(child(path, one), "is missing")
        for one, other in self.either:
            if one in result and other in result:
                problems.add(child(path, other), f"conflicts with {one!r}; keep one of them")
        return INVALID if len(problems) > before else result

    def schema(self) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        for key, prop in self.properties.items():
            properties[key] = prop.field.schema() | {"description": prop.about}
            for alias in prop.aliases:
                properties[alias] = {"$comment": f"read as {key}", "deprecated": True} | prop.field.schema()
        required: list[dict[str, Any]] = [
            {"required": [key]} if not prop.aliases else {"anyOf": [{"required": [s]} for s in (key, *prop.aliases)]}
            for key, prop in self.properties.items()
            if prop.required
        ]
        required += [{"anyOf": [{"required": [key]} for key in pair]} for pair in self.needs_one]
        required += [{"not": {"required": list(pair)}} for pair in self.either]
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return schema | ({"allOf": required} if required else {})


def nearest(word: str, known_words: tuple[str, ...]) -> str:
    """Return `; did you mean 'x'?` with the closest known word, or an empty string."""
    near = did_you_mean(word, known_words)
    return f"; did you mean {str(near)!r}?" if near else ""


def _known(words: Mapping[str, object]) -> str:
    return f"; known here: {', '.join(words)}"


def whole(number: float) -> float:
    """Return an integral float as an int, as JSON writes it."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
