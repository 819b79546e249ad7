"""The standard operations for messaging. A tool in a package can refer to one by name, and then has its schemas."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class StandardOperation(NamedTuple):
    """A standard operation: its description, its schemas, and whether it changes data."""

    name: str
    description: str
    writes: bool
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


@lru_cache(maxsize=1)
def standard_operations() -> dict[str, StandardOperation]:
    """Return all standard operations by name."""
    data = _read_data()
    made = {}
    for name, told in data["operations"].items():
        output = _make_object(told["output"] | {"vendor": "object"}, data)
        made[name] = StandardOperation(
            name, told["description"], told["writes"], _make_object(told["input"], data), output
        )
    return made


def reserved_operations() -> frozenset[str]:
    """Return the names that no operation may have, because the standard reserves them."""
    return frozenset(_read_data()["reserved"])


@lru_cache(maxsize=1)
def _read_data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(files(__package__).joinpath("standard.json").read_text(encoding="utf-8"))
    return data


def _make_object(fields: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    properties = {name.removesuffix("*"): _make_schema(kind, data) for name, kind in fields.items()}
    required = [name.removesuffix("*") for name in fields if name.endswith("*")]
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def _make_schema(kind: Any, data: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, list):
        return {"type": "array", "items": _make_schema(kind[0], data)}
    if kind in data["shapes"]:
        return _make_object(data["shapes"][kind], data)
    known: dict[str, Any] = data["fields"][kind]
    return dict(known)
