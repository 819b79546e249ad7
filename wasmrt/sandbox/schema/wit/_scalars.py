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
    """A value does not fit its type. While the exception propagates, each caller prepends its field to `path`."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.path = list(path)


def make_misfit_error(expected: str, value: Any) -> MisfitError:
    """Return the error for a value that differs from the expected one."""
    return MisfitError(f"expected {expected}, got {describe(value)}")


def primitive_reader(name: str) -> Reader:
    """Return the reader of a primitive type."""
    if name in INTEGERS:
        return _make_integer_reader(name)
    return {"bool": _read_bool, "f32": _read_f32, "f64": _read_f64, "char": _read_char, "string": _read_string}[name]


def _make_integer_reader(name: str) -> Reader:
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
            raise make_misfit_error(expected, value)
        return number

    return read


def _read_bool(value: Any) -> bool:
    if value is not True and value is not False:
        raise make_misfit_error("true or false", value)
    return bool(value)


def _read_f64(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise make_misfit_error("a number that f64 can hold", value) from None
    if isinstance(value, str) and value in NON_FINITE:
        return float(value)
    raise make_misfit_error('a number, "NaN", "Infinity" or "-Infinity"', value)


def _read_f32(value: Any) -> float:
    number = _read_f64(value)
    try:
        _as_f32(number)
    except OverflowError:
        raise make_misfit_error("a number that f32 can hold", value) from None
    return number


def _read_char(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or "\ud800" <= value <= "\udfff":
        raise make_misfit_error("a string of one character", value)
    return value


def _read_string(value: Any) -> str:
    if not isinstance(value, str):
        raise make_misfit_error("a string", value)
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
        raise make_misfit_error("bytes as a base64 string", value)
    # Each piece is one C call that holds the GIL. Only the last piece may have padding.
    pieces = [value[start : start + _PIECE_CHARS] for start in range(0, len(value), _PIECE_CHARS)]
    try:
        if any("=" in piece for piece in pieces[:-1]):
            raise ValueError
        return b"".join(binascii.a2b_base64(piece, strict_mode=True) for piece in pieces)
    except ValueError:
        raise make_misfit_error("bytes as a base64 string, with padding", value) from None
