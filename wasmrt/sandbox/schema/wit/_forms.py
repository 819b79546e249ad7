"""The JSON form of every WIT type, as JSON Schema (2020-12), and why a function can have none.

| WIT | JSON |
|---|---|
| bool, string, char | boolean, string, string of one character |
| s8 u8 s16 u16 s32 u32 | integer in the type's range |
| s64 u64 | integer, or a decimal string; results beyond ±(2^53 - 1) are written as strings, because many readers of JSON keep a number as a double |
| f32 f64 | number, or "NaN", "Infinity", "-Infinity" |
| list<u8> | base64 string (RFC 4648 section 4, padded) |
| list, tuple | array |
| record | object; a field that is an option may be absent |
| enum | string |
| flags | array of distinct strings |
| option | the value, or null; an option of an option is {"some": value} or null |
| variant | {"tag": case, "value": payload}, without "value" where the case has no payload |
| result | {"tag": "ok", "value": ...} or {"tag": "err", "value": ...} |

Names stay as WIT spells them. `type` is always one word; choices are `anyOf`, never at the top.
"""  # noqa: E501 - a table row is one line

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.core.limits import KIB, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from wasmrt.sandbox.component import (
    EnumType,
    FlagsType,
    FuncType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    WitType,
    walk,
)

INTEGERS = {f"{sign}{bits}": bounds for bits in (8, 16, 32, 64) for sign, bounds in (
    ("s", (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)), ("u", (0, 2**bits - 1)),
)}  # fmt: skip
WIDE = ("s64", "u64")
SAFE_INTEGER = 2**53 - 1
"""The greatest integer whose neighbours a double also holds (RFC 8259, section 6)."""
DECIMAL = r"^-?(0|[1-9][0-9]{0,19})$"
NON_FINITE = ("NaN", "Infinity", "-Infinity")
BYTES = ListType(Primitive("u8"))
NULL = {"type": "null"}


def function_schema(func: FuncType) -> dict[str, Any]:
    """Return the JSON Schema of a function's params: an object with one property a param."""
    return _object(func.params)


def unsupported(func: FuncType) -> str | None:
    """Return why a function cannot be a tool, or None where it can."""
    if func.is_async:
        return "it is an async function, and calls are synchronous"
    for name, kind in (*func.params, *((("its result", func.result),) if func.result is not None else ())):
        for part in walk(kind):
            if isinstance(part, ResourceRef):
                return f"{name} holds the resource handle {part}, which JSON cannot carry"
    schema = function_schema(func)
    if _depth(schema) > MAX_SCHEMA_DEPTH:
        return f"its params are nested over {MAX_SCHEMA_DEPTH} deep"
    if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        return f"the JSON Schema of its params is over {MAX_SCHEMA_BYTES // KIB} KiB"
    return None


def type_schema(kind: WitType) -> dict[str, Any]:
    """Return the JSON Schema of one WIT type; a resource handle has none and matches nothing."""
    match kind:
        case Primitive(name):
            return _primitive(name)
        case ListType(Primitive("u8")):
            return {"type": "string", "contentEncoding": "base64", "description": "base64"}
        case ListType(element):
            return {"type": "array", "items": type_schema(element)}
        case RecordType(fields):
            return _object(fields)
        case TupleType(elements):
            return _tuple(elements)
        case VariantType(cases):
            return {"anyOf": [_case(name, payload) for name, payload in cases]}
        case ResultType(ok, err):
            return {"anyOf": [_case("ok", ok), _case("err", err)]}
        case EnumType(names):
            return {"type": "string", "enum": list(names)}
        case FlagsType(names):
            return {"type": "array", "items": {"type": "string", "enum": list(names)}, "uniqueItems": True}
        case OptionType(inner):
            return _option(inner)
        case ResourceRef():
            return {"not": {}}


def _primitive(name: str) -> dict[str, Any]:
    if name in INTEGERS:
        low, high = INTEGERS[name]
        integer = {"type": "integer", "minimum": low, "maximum": high}
        if name not in WIDE:
            return integer
        return {"anyOf": [integer, {"type": "string", "pattern": DECIMAL, "description": f"a decimal {name}"}]}
    if name in ("f32", "f64"):
        return {"anyOf": [{"type": "number"}, {"type": "string", "enum": list(NON_FINITE)}]}
    if name == "char":
        return {"type": "string", "minLength": 1, "maxLength": 1}
    return {"type": "boolean" if name == "bool" else "string"}


def _object(fields: tuple[tuple[str, WitType], ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: type_schema(kind) for name, kind in fields},
        "required": [name for name, kind in fields if not isinstance(kind, OptionType)],
        "additionalProperties": False,
    }


def _tuple(elements: tuple[WitType, ...]) -> dict[str, Any]:
    count = len(elements)
    return {
        "type": "array",
        "prefixItems": [type_schema(element) for element in elements],
        "items": False,
        "minItems": count,
        "maxItems": count,
    }


def _case(name: str, payload: WitType | None) -> dict[str, Any]:
    properties: dict[str, Any] = {"tag": {"type": "string", "const": name}}
    if payload is not None:
        properties["value"] = type_schema(payload)
    required = ["tag"] if payload is None or isinstance(payload, OptionType) else ["tag", "value"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _option(inner: WitType) -> dict[str, Any]:
    schema = type_schema(inner)
    if isinstance(inner, OptionType):
        some = {"type": "object", "properties": {"some": schema}, "required": ["some"], "additionalProperties": False}
        return {"anyOf": [some, NULL]}
    choices = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": [*choices, NULL]}


def _depth(schema: Any) -> int:
    if isinstance(schema, dict):
        inner = [*schema.get("properties", {}).values(), *schema.get("prefixItems", ()), *schema.get("anyOf", ())]
        return 1 + max(map(_depth, [*inner, schema.get("items")]), default=0)
    return 0


is_decimal = re.compile(r"-?(?:0|[1-9][0-9]{0,19})").fullmatch
