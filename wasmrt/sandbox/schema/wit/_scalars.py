"""Readers for WIT's primitive types and bytes: each checks and converts a JSON value."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from struct import Struct
from typing import Any

from wasmrt.sandbox.schema._wording import describe
from wasmrt.sandbox.schema.wit._forms import INTEGERS, NON_FINITE, WIDE, is_decimal

Reader = Callable[[Any], Any]
_as_f32 = Struct("=f").pack


class MisfitError(Exception):
    """A value does not fit its type. Callers prepend to `path` as the exception propagates."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = list(path)


def misfit(expected: str, value: Any) -> MisfitError:
    """Return the error for a value that differs from the expected one."""
    return MisfitError(f"expected {expected}, got {describe(value)}")


def primitive_reader(name: str) -> Reader:
    """Return the reader of a primitive type."""
    if name in INTEGERS:
        return _integer(name)
    return {"bool": _bool, "f32": _f32, "f64": _f64, "char": _char, "string": _string}[name]


def _integer(name: str) -> Reader:
    low, high = INTEGERS[name]
    wide = name in WIDE
    expected = f"an integer from {low} to {high} ({name})"

    def read(value: Any) -> int:
        number = value
        if type(value) is float and value.is_integer():
            number = int(value)  # JSON Schema: 5.0 is an integer
        elif wide and isinstance(value, str) and is_decimal(value):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise misfit(expected, value)
        return number

    return read


def _bool(value: Any) -> bool:
    if value is not True and value is not False:
        raise misfit("true or false", value)
    return bool(value)


def _f64(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise misfit("a number that f64 can hold", value) from None
    if isinstance(value, str) and value in NON_FINITE:
        return float(value)
    raise misfit('a number, "NaN", "Infinity" or "-Infinity"', value)


def _f32(value: Any) -> float:
    number = _f64(value)
    try:
        _as_f32(number)
    except OverflowError:
        raise misfit("a number that f32 can hold", value) from None
    return number


def _char(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or "\ud800" <= value <= "\udfff":
        raise misfit("a string of one character", value)
    return value


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise misfit("a string", value)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise MisfitError("the string has a lone surrogate, which UTF-8 cannot encode") from None
    return value


_PIECE_CHARS = 1024 * 1024
"""Characters decoded at once: a multiple of four."""


def read_bytes(value: Any) -> bytes:
    """Read `list<u8>`: base64, padded (RFC 4648, section 4)."""
    if not isinstance(value, str):
        raise misfit("bytes as a base64 string", value)
    # Each piece is one C call that holds the GIL. Only the last piece may have padding.
    pieces = [value[start : start + _PIECE_CHARS] for start in range(0, len(value), _PIECE_CHARS)]
    try:
        if any("=" in piece for piece in pieces[:-1]):
            raise ValueError
        return b"".join(binascii.a2b_base64(piece, strict_mode=True) for piece in pieces)
    except ValueError:
        raise misfit("bytes as a base64 string, with padding", value) from None
