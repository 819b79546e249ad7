"""Convert WIT values to JSON without loss: `to_values` converts the result back to the same value."""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from wasmrt.core.errors import GuestOutputError
from wasmrt.sandbox import component as wit
from wasmrt.sandbox.component import Err
from wasmrt.sandbox.schema.wit._forms import SAFE_INTEGER, WIDE

Writer = Callable[[Any], Any]


def to_json(kind: wit.WitType | None, value: Any) -> Any:
    """Return a lifted value as JSON data; None without a type.

    Raises:
        GuestOutputError: the value contains a resource handle.
    """
    return None if kind is None else _make_writer(kind)(value)


def split_result(func: wit.FuncType, value: Any) -> tuple[bool, Any]:
    """Return whether a function succeeded, and its result as JSON; for a WIT `result`, only the ok or the err side.

    Raises:
        GuestOutputError: the value contains a resource handle.
    """
    kind = func.result
    if not isinstance(kind, wit.ResultType):
        return True, to_json(kind, value)
    if isinstance(value, Err):
        return False, to_json(kind.err, value.value)
    return True, to_json(kind.ok, value.value)


def failure_text(error: Any) -> str:
    """Convert the err value of a result, given as JSON, to a message for `GuestError`, not yet scanned or truncated."""
    if error is None:
        return "the tool failed without an error message"
    if isinstance(error, dict) and isinstance(error.get("tag"), str):
        error = error["tag"] if "value" not in error else f"{error['tag']}: {failure_text(error['value'])}"
    text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    return text.strip() or "the tool failed without an error message"


@lru_cache(maxsize=512)
def _make_writer(kind: wit.WitType) -> Writer:
    match kind:
        case wit.Primitive(name):
            return _SCALARS.get(name, _write_same)
        case wit.ListType(wit.Primitive("u8")):
            return _write_bytes
        case wit.ListType(element):
            return _list(_make_writer(element))
        case wit.RecordType(fields):
            return _record([(name, _make_writer(inner)) for name, inner in fields])
        case wit.TupleType(elements):
            return _make_tuple_writer([_make_writer(element) for element in elements])
        case wit.VariantType(cases):
            return _make_variant_writer({name: _make_payload_writer(inner) for name, inner in cases})
        case wit.ResultType(ok, err):
            return _make_result_writer(_make_payload_writer(ok), _make_payload_writer(err))
        case wit.FlagsType(names):
            return _make_flags_writer(names)
        case wit.OptionType(inner):
            return _make_option_writer(_make_writer(inner), wit.is_nested_option(kind))
        case wit.ResourceRef():
            return _write_resource
        case wit.EnumType():
            return _write_same


def _make_payload_writer(kind: wit.WitType | None) -> Writer | None:
    return None if kind is None else _make_writer(kind)


def _write_same(value: Any) -> Any:
    return value


def _write_wide(value: int) -> int | str:
    return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)


def _write_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _write_bytes(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode("ascii")


def _list(element: Writer) -> Writer:
    if element is _write_same:
        return list
    return lambda value: [element(item) for item in value]


def _record(fields: list[tuple[str, Writer]]) -> Writer:
    return lambda value: {name: write(value[name]) for name, write in fields}


def _make_tuple_writer(elements: list[Writer]) -> Writer:
    return lambda value: [write(item) for write, item in zip(elements, value, strict=True)]


def _write_tagged(tag: str, payload: Any, write: Writer | None) -> dict[str, Any]:
    return {"tag": tag} if write is None else {"tag": tag, "value": write(payload)}


def _make_variant_writer(cases: dict[str, Writer | None]) -> Writer:
    return lambda case: _write_tagged(case.name, case.value, cases[case.name])


def _make_result_writer(ok: Writer | None, err: Writer | None) -> Writer:
    return lambda side: (
        _write_tagged("err", side.value, err) if isinstance(side, Err) else _write_tagged("ok", side.value, ok)
    )


def _make_flags_writer(names: tuple[str, ...]) -> Writer:
    return lambda value: [name for name in names if name in value]


def _make_option_writer(inner: Writer, nested: bool) -> Writer:
    if nested:
        return lambda value: None if value is None else {"some": inner(value.value)}
    return lambda value: None if value is None else inner(value)


def _write_resource(_value: Any) -> Any:
    raise GuestOutputError("the tool returned a resource handle, which JSON cannot represent")


_SCALARS: dict[str, Writer] = {**dict.fromkeys(WIDE, _write_wide), "f32": _write_float, "f64": _write_float}
