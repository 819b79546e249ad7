"""The JSON representation of each WIT type, as JSON Schema (2020-12).

| WIT | JSON |
|---|---|
| bool, string, char | boolean, string, string of one character |
| s8 u8 s16 u16 s32 u32 | integer in the type's range |
| s64 u64 | integer, or a decimal string; results beyond ±(2^53 - 1) are written as strings, because many JSON parsers store numbers as doubles |
| f32 f64 | number, or "NaN", "Infinity", "-Infinity" |
| list<u8> | base64 string (RFC 4648 section 4, padded) |
| list, tuple | array |
| record | object; a field that is an option may be absent |
| enum | string |
| flags | array of distinct strings |
| option | the value, or null; an option of an option is {"some": value} or null |
| variant | {"tag": case, "value": payload}, without "value" if the case has no payload |
| result | {"tag": "ok", "value": ...} or {"tag": "err", "value": ...} |

Names are the same as in WIT. `type` is always a single string. Choices use `anyOf`, never at the top level.
"""  # noqa: E501 - a table row is one line

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.core.limits import KIB, MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH
from wasmrt.sandbox import component as wit

INTEGERS = {f"{sign}{bits}": bounds for bits in (8, 16, 32, 64) for sign, bounds in (
    ("s", (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)), ("u", (0, 2**bits - 1)),
)}  # fmt: skip
WIDE = ("s64", "u64")
SAFE_INTEGER = 2**53 - 1
"""The largest integer up to which a double represents all integers exactly (RFC 8259, section 6)."""
DECIMAL = r"^-?(0|[1-9][0-9]{0,19})$"
NON_FINITE = ("NaN", "Infinity", "-Infinity")
BYTES = wit.ListType(wit.Primitive("u8"))
NULL = {"type": "null"}


def function_schema(func: wit.FuncType) -> dict[str, Any]:
    """Return the JSON Schema of a function's params: an object with a property for each param."""
    return _make_object(func.params)


def explain_unsupported(func: wit.FuncType) -> str | None:
    """Return the reason why a function cannot be a tool, or None if it can."""
    if func.is_async:
        return "async functions are not supported"
    for name, kind in (*func.params, *((("its result", func.result),) if func.result is not None else ())):
        for part in wit.walk(kind):
            if isinstance(part, wit.ResourceRef):
                return f"{name} contains the resource handle {part}, which JSON cannot represent"
    schema = function_schema(func)
    if _measure_depth(schema) > MAX_SCHEMA_DEPTH:
        return f"its params are nested over {MAX_SCHEMA_DEPTH} deep"
    if len(json.dumps(schema)) > MAX_SCHEMA_BYTES:
        return f"the JSON Schema of its params is over {MAX_SCHEMA_BYTES // KIB} KiB"
    return None


def type_schema(kind: wit.WitType) -> dict[str, Any]:
    """Return the JSON Schema of a WIT type; the schema of a resource handle matches nothing."""
    match kind:
        case wit.Primitive(name):
            return _make_primitive(name)
        case wit.ListType(wit.Primitive("u8")):
            return {"type": "string", "contentEncoding": "base64", "description": "base64"}
        case wit.ListType(element):
            return {"type": "array", "items": type_schema(element)}
        case wit.RecordType(fields):
            return _make_object(fields)
        case wit.TupleType(elements):
            return _make_tuple(elements)
        case wit.VariantType(cases):
            return {"anyOf": [_make_case(name, payload) for name, payload in cases]}
        case wit.ResultType(ok, err):
            return {"anyOf": [_make_case("ok", ok), _make_case("err", err)]}
        case wit.EnumType(names):
            return {"type": "string", "enum": list(names)}
        case wit.FlagsType(names):
            return {"type": "array", "items": {"type": "string", "enum": list(names)}, "uniqueItems": True}
        case wit.OptionType(inner):
            return _make_option(inner)
        case wit.ResourceRef():
            return {"not": {}}


def _make_primitive(name: str) -> dict[str, Any]:
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


def _make_object(fields: tuple[tuple[str, wit.WitType], ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: type_schema(kind) for name, kind in fields},
        "required": [name for name, kind in fields if not isinstance(kind, wit.OptionType)],
        "additionalProperties": False,
    }


def _make_tuple(elements: tuple[wit.WitType, ...]) -> dict[str, Any]:
    count = len(elements)
    return {
        "type": "array",
        "prefixItems": [type_schema(element) for element in elements],
        "items": False,
        "minItems": count,
        "maxItems": count,
    }


def _make_case(name: str, payload: wit.WitType | None) -> dict[str, Any]:
    properties: dict[str, Any] = {"tag": {"type": "string", "const": name}}
    if payload is not None:
        properties["value"] = type_schema(payload)
    required = ["tag"] if payload is None or isinstance(payload, wit.OptionType) else ["tag", "value"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _make_option(inner: wit.WitType) -> dict[str, Any]:
    schema = type_schema(inner)
    if isinstance(inner, wit.OptionType):
        some = {"type": "object", "properties": {"some": schema}, "required": ["some"], "additionalProperties": False}
        return {"anyOf": [some, NULL]}
    choices = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": [*choices, NULL]}


def _measure_depth(schema: Any) -> int:
    if isinstance(schema, dict):
        inner = [*schema.get("properties", {}).values(), *schema.get("prefixItems", ()), *schema.get("anyOf", ())]
        return 1 + max(map(_measure_depth, [*inner, schema.get("items")]), default=0)
    return 0


is_decimal = re.compile(r"-?(?:0|[1-9][0-9]{0,19})").fullmatch
