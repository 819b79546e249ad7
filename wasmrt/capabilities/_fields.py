"""Field types of a JSON document. Each field type validates a value, and also writes the JSON Schema for such values.

Both come from the same declaration, so that the published schema cannot differ from the validation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_CAPABILITY_ENTRIES
from wasmrt.core.names import did_you_mean

INVALID: Final = object()
"""The result of reading an invalid value, after the problem was added to `Problems`."""
_MAX_PROBLEMS = 100
_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


class Problems:
    """The errors of one file, as pairs of path and message. After a hundred errors, further ones are dropped."""

    __slots__ = ("found",)

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def add(self, path: str, sentence: str) -> None:
        if len(self.found) < _MAX_PROBLEMS:
            self.found.append((path or "$", sentence))

    def __len__(self) -> int:
        return len(self.found)


def join_path(path: str, key: str | int) -> str:
    """Return the JSON path of the member `key` of the value at `path`, such as `http.allowlist[0].host`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not key.replace("_", "").isalnum() or not key.isascii():
        return f"{path}[{json.dumps(key[:64])}]"
    return f"{path}.{key}" if path else key


class Field(Protocol):
    """A field type: the values that are valid at one place of a document."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        """Return the value in its canonical spelling, or add its errors to `problems` and return INVALID."""

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema (2020-12) of the field."""


def _report_wrong(value: Any, wanted: str, path: str, problems: Problems) -> Any:
    problems.add(path, f"must be {wanted}, not {_KINDS.get(type(value), 'a number')}")
    return INVALID


class Text(NamedTuple):
    """A string. `check` returns the canonical spelling of a string, or raises a `WasmrtError` if the string is invalid.

    A JSON Schema cannot call `check`, and contains `pattern` instead.
    """

    max_length: int = 4096
    check: Callable[[str], Any] | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    upper: bool = False

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, str):
            return _report_wrong(value, "text", path, problems)
        if len(value) > self.max_length:
            problems.add(path, f"must be at most {self.max_length} characters long")
            return INVALID
        value = value.upper() if self.upper else value
        if self.choices and value not in self.choices:
            problems.add(path, f"must be one of {', '.join(self.choices)}{suggest_nearest(value, self.choices)}")
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
    """A positive number; an integer unless `fraction` is true. Errors quote `example`."""

    fraction: bool = False
    maximum: int = 2**53 - 1
    example: str = ""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        wanted = "a positive number" if self.fraction else "a positive whole number"
        example = f", such as {self.example}" if self.example else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return _report_wrong(value, wanted + example, path, problems)
        if not 0 < value <= self.maximum or not (self.fraction or isinstance(value, int)):
            problems.add(path, f"must be {wanted} of at most {self.maximum}{example}")
            return INVALID
        return value

    def schema(self) -> dict[str, Any]:
        kind = "number" if self.fraction else "integer"
        return {"type": kind, "exclusiveMinimum": 0, "maximum": self.maximum}


class Flag:
    """A boolean."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        return value if isinstance(value, bool) else _report_wrong(value, "true or false", path, problems)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Anything(NamedTuple):
    """Any value, or any object if `only_object` is true."""

    only_object: bool = False

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if self.only_object and not isinstance(value, dict):
            return _report_wrong(value, "an object", path, problems)
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "object"} if self.only_object else {}


class ListOf(NamedTuple):
    """A list with items of one field type.

    An invalid item makes the whole list invalid, because a list without the item could allow more than intended.
    """

    item: Field
    min_items: int = 0

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, list):
            return _report_wrong(value, "a list", path, problems)
        if not self.min_items <= len(value) <= MAX_CAPABILITY_ENTRIES:
            problems.add(path, f"must have {self.min_items} to {MAX_CAPABILITY_ENTRIES} entries, not {len(value)}")
            return INVALID
        items = [self.item.read(item, join_path(path, index), problems) for index, item in enumerate(value)]
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
            return _report_wrong(value, "an object", path, problems)
        if len(value) > MAX_CAPABILITY_ENTRIES:
            problems.add(path, f"must have at most {MAX_CAPABILITY_ENTRIES} entries, not {len(value)}")
            return INVALID
        members = {}
        for key, member in value.items():
            at = join_path(path, key)
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
    """One key of an object. `aliases` are other spellings of the key, which are accepted but never written."""

    field: Field
    about: str
    required: bool = False
    aliases: tuple[str, ...] = ()


class ObjectSchema(NamedTuple):
    """An object with known keys. An unknown key is an error that suggests the nearest known key."""

    properties: Mapping[str, Property]
    either: tuple[tuple[str, str], ...] = ()
    """Pairs of keys that must not both be set."""
    needs_one: tuple[tuple[str, str], ...] = ()
    """Pairs of keys of which at least one must be set."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict):
            return _report_wrong(value, "an object", path, problems)
        before = len(problems)
        spellings = {s: key for key, prop in self.properties.items() for s in (key, *prop.aliases)}
        result: dict[str, Any] = {}
        for written, item in value.items():
            at = join_path(path, written)
            key = spellings.get(written)
            if key is None:
                problems.add(
                    at, f"unknown key{suggest_nearest(written, tuple(spellings)) or _list_known(self.properties)}"
                )
            elif key in result:
                problems.add(at, f"is a second spelling of the key {key!r}; keep only {key!r}")
            else:
                result[key] = self.properties[key].field.read(item, at, problems)
        for key, prop in self.properties.items():
            if prop.required and key not in result:
                problems.add(join_path(path, key), "is missing")
        for one, other in self.needs_one:
            if one not in result and other not in result:
                problems.add(join_path(path, one), "is missing")
        for one, other in self.either:
            if one in result and other in result:
                problems.add(join_path(path, other), f"conflicts with {one!r}; keep one of them")
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


def suggest_nearest(word: str, known_words: tuple[str, ...]) -> str:
    """Return `; did you mean 'x'?` for the known word that is most similar, or `""` if no known word is similar."""
    near = did_you_mean(word, known_words)
    return f"; did you mean {str(near)!r}?" if near else ""


def _list_known(words: Mapping[str, object]) -> str:
    return f"; known here: {', '.join(words)}"


def drop_zero_fraction(number: float) -> float:
    """Return a float without a fraction as an int, and every other number unchanged."""
    return int(number) if isinstance(number, float) and number.is_integer() else number
