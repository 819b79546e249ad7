"""Compare a function's result with its WIT type. The types are in the form of `wasm-tools component wit --json`.

Values of types that this module does not compare, such as variants, are accepted.
"""

import json
import keyword
from typing import Any

from componentize_py_types import Err, Ok

_TYPES = json.loads("{{types}}")
_INTEGER_BITS = {f"{sign}{bits}": (sign, bits) for sign in "us" for bits in (8, 16, 32, 64)}
_PYTHON = {"string": "str", "char": "str", "bool": "bool", "f32": "float", "f64": "float"}


class WrongTypeError(Exception):
    """A value does not have its WIT type."""


def check(result: Any, value: Any) -> None:
    """Check the value that a function with the WIT type `result` returns.

    Raises:
        WrongTypeError: the value has a different type. The message has the expected and the actual type.
    """
    kind = _kind(result)
    if isinstance(kind, dict) and "result" in kind:
        result = kind["result"]["ok"]
    if result is not None:
        _check(result, value, "")


def check_error(result: Any, value: Any) -> bool:
    """Return whether a function with the WIT type `result` can return `value` as its error."""
    kind = _kind(result)
    if not isinstance(kind, dict) or "result" not in kind:
        return False
    error = kind["result"]["err"]
    try:
        if error is not None:
            _check(error, value, "")
    except WrongTypeError:
        return False
    return error is not None or value is None


def _kind(ref: Any) -> Any:
    """Return the definition of a type: the name of a primitive type, or a dictionary with one key."""
    while isinstance(ref, int):
        ref = _TYPES[ref]["kind"]
        if isinstance(ref, dict) and "type" in ref:
            ref = ref["type"]
    return ref


def _check(ref: Any, value: Any, at: str) -> None:
    kind = _kind(ref)
    if isinstance(kind, str):
        _check_primitive(kind, value, at)
        return
    ((form, detail),) = kind.items()
    if form in _COMPOUND:
        _COMPOUND[form](ref, detail, value, at)
    elif form in ("enum", "flags") and not hasattr(value, "value"):
        _fail(_name(ref), value, at)
    elif form == "result" and not isinstance(value, (Ok, Err)):
        _fail("result (Ok or Err)", value, at)


def _check_record(ref: Any, detail: Any, value: Any, at: str) -> None:
    fields = {field["name"]: field["type"] for field in detail["fields"]}
    missing = [name for name in fields if not hasattr(value, _attribute(name))]
    if missing:
        _fail(f"{_name(ref)} with {', '.join(fields)}", value, at)
    for name, field in fields.items():
        _check(field, getattr(value, _attribute(name)), f"{at}.{name}")


def _check_list(_ref: Any, item: Any, value: Any, at: str) -> None:
    if _kind(item) == "u8":
        if not isinstance(value, bytes):
            _fail("list<u8> (bytes)", value, at)
        return
    if not isinstance(value, list):
        _fail("list", value, at)
    for index, each in enumerate(value):
        _check(item, each, f"{at}[{index}]")


def _check_tuple(_ref: Any, detail: Any, value: Any, at: str) -> None:
    if not isinstance(value, tuple) or len(value) != len(detail["types"]):
        _fail(f"tuple of {len(detail['types'])}", value, at)
    for index, (item, each) in enumerate(zip(detail["types"], value, strict=True)):
        _check(item, each, f"{at}[{index}]")


def _check_option(_ref: Any, item: Any, value: Any, at: str) -> None:
    inner = _kind(item)
    if value is not None and not (isinstance(inner, dict) and "option" in inner):
        _check(item, value, at)


_COMPOUND = {"record": _check_record, "list": _check_list, "tuple": _check_tuple, "option": _check_option}


def _check_primitive(kind: str, value: Any, at: str) -> None:
    shown = f"{kind} ({_PYTHON.get(kind, 'int')})"
    if kind in _INTEGER_BITS:
        if not hasattr(value, "__index__"):
            _fail(shown, value, at)
        sign, bits = _INTEGER_BITS[kind]
        low, high = (0, 2**bits - 1) if sign == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if not low <= value.__index__() <= high:
            _fail(f"{shown} from {low} to {high}", value, at)
    elif kind in ("f32", "f64"):
        if not hasattr(value, "__float__") and not hasattr(value, "__index__"):
            _fail(shown, value, at)
    elif kind in ("string", "char"):
        if not isinstance(value, str) or (kind == "char" and len(value) != 1):
            _fail(shown, value, at)
    elif kind == "bool" and not isinstance(value, bool):
        _fail(shown, value, at)


def _fail(expected: str, value: Any, at: str) -> None:
    shown = f" {value!r:.40}" if isinstance(value, (str, int, float)) else ""
    raise WrongTypeError(f"expected {expected}, got {type(value).__name__}{shown}{at and f' at {at.lstrip(chr(46))}'}")


def _name(ref: Any) -> str:
    return (isinstance(ref, int) and _TYPES[ref]["name"]) or next(iter(_kind(ref)))


def _attribute(name: str) -> str:
    """Return the attribute of a field; keywords get a final underscore."""
    attribute = name.replace("-", "_")
    return f"{attribute}_" if keyword.iskeyword(attribute) else attribute
