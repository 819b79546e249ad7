"""Make lifters: functions that read a wasmtime_component_val_t of a WIT type and return the Python value.

A lifter takes `(address, context)`: the value's address and the store's context. Lists of bytes and numbers are read as
strided slices of memory instead of element by element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from struct import Struct
from typing import Any

from wasmrt.core.errors import BudgetExceededError
from wasmrt.sandbox import component as wit
from wasmrt.sandbox.component import Case, Err, Ok, Some
from wasmrt.sandbox.guest.call import GuestBudgets
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._ffi import FORMAT, PAYLOAD
from wasmrt.sandbox.guest.engine._traps import fault

Lifter = Callable[[int, int], Any]

calls: dict[int, GuestBudgets] = {}
"""The running calls, by a number that is stored in the data slot of the call's store. Callbacks and lifters get only
the store."""

_string_at = ctypes.string_at
_vector_at = _ffi.Vector.from_address  # faster than reading bytes and unpacking them
_pointer_at = ctypes.c_uint64.from_address
_CHUNK = 2048
_LONG_TEXT_BYTES = 1024 * 1024
"""The size above which a string is checked before it is copied, because a copy cannot be interrupted."""
_SIZE, _ENTRY, _NAME_SIZE = _ffi.VALUE_SIZE, _ffi.ENTRY_SIZE, _ffi.NAME_SIZE


def lifter(kind: wit.WitType, *, max_text_bytes: int | None = None) -> Lifter:  # noqa: C901 - one case for each type
    """Return the function that lifts values of `kind`.

    The function raises `BudgetExceededError` if a string is longer than `max_text_bytes`.
    """

    def inner(part: wit.WitType) -> Lifter:
        return lifter(part, max_text_bytes=max_text_bytes)

    match kind:
        case wit.Primitive("string"):
            return _lift_string if max_text_bytes is None else _make_bounded_string(max_text_bytes)
        case wit.Primitive("char"):
            return lambda address, _: chr(_make_number("I", 4)(address, _))
        case wit.Primitive(name):
            return _make_number(*FORMAT[name])
        case wit.ListType(wit.Primitive("u8")):
            return _lift_bytes
        case wit.ListType(wit.Primitive(name)) if name in FORMAT:
            return _make_numbers(*FORMAT[name])
        case wit.ListType(element):
            return _list(inner(element))
        case wit.RecordType(fields):
            return _record([(name, inner(part)) for name, part in fields])
        case wit.TupleType(elements):
            return _make_tuple([inner(part) for part in elements])
        case wit.VariantType(cases):
            return _make_variant({name: None if part is None else inner(part) for name, part in cases})
        case wit.EnumType():
            return _lift_string
        case wit.FlagsType():
            return _lift_flags
        case wit.OptionType(part):
            return _make_option(inner(part), wit.is_nested_option(kind))
        case wit.ResultType(ok, err):
            return _make_result(None if ok is None else inner(ok), None if err is None else inner(err))
        case wit.ResourceRef():
            return _lift_resource


def _charge_text(context: int, size: int) -> None:
    if (call := calls.get(_ffi.context_get_data(context) or 0)) is not None:
        call.charge_text(size)


def _charge_values(context: int, count: int) -> None:
    if (call := calls.get(_ffi.context_get_data(context) or 0)) is not None:
        call.charge_values(count)


def _read_vector(address: int) -> tuple[int, int]:
    vector = _vector_at(address)
    return vector.size, vector.data or 0


def _decode_text(size: int, data: int) -> str:
    # The engine has already checked that strings are UTF-8.
    return _string_at(data, size).decode("utf-8") if size else ""


def _lift_string(address: int, context: int) -> str:
    vector = _vector_at(address + PAYLOAD)
    size = vector.size
    if size > _LONG_TEXT_BYTES:
        _charge_text(context, size)
    return _string_at(vector.data, size).decode("utf-8") if size else ""


def _make_bounded_string(max_bytes: int) -> Lifter:
    def lift(address: int, context: int) -> str:
        size = _vector_at(address + PAYLOAD).size
        if size > max_bytes:
            raise BudgetExceededError(
                f"the guest passed a string of {size:,} bytes to the host",
                limit=max_bytes, used=size, setting="limits.MAX_HOST_TEXT_BYTES",
                hint="have the tool pass large data in parts",
            )  # fmt: skip
        return _lift_string(address, context)

    return lift


def _make_number(code: str, width: int) -> Lifter:
    unpack = Struct("=" + code).unpack
    return lambda address, _: unpack(_string_at(address + PAYLOAD, width))[0]


def _view_memory(data: int, size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * (size * _SIZE)).from_address(data)).cast("B")


def _lift_bytes(address: int, _context: int) -> bytes:
    size, data = _read_vector(address + PAYLOAD)
    return bytes(_view_memory(data, size)[PAYLOAD::_SIZE]) if size else b""


def _make_numbers(code: str, width: int) -> Lifter:
    start, step = PAYLOAD // width, _SIZE // width
    form: Any = code  # the type stubs require a literal

    def lift(address: int, _context: int) -> list[Any]:
        size, data = _read_vector(address + PAYLOAD)
        return _view_memory(data, size).cast(form)[start::step].tolist() if size else []

    return lift


def _list(element: Lifter) -> Lifter:
    def lift(address: int, context: int) -> list[Any]:
        size, data = _read_vector(address + PAYLOAD)
        if not size:
            return []
        # SECURITY: neither fuel nor epochs limit the time and memory of this loop. The budget is charged for the
        # complete list before any element is lifted, and the deadline is checked after each chunk.
        _charge_values(context, size)
        values: list[Any] = []
        for start in range(0, size, _CHUNK):
            count = min(_CHUNK, size - start)
            if start:
                _charge_values(context, 0)
            at = data + start * _SIZE
            values += [element(place, context) for place in range(at, at + count * _SIZE, _SIZE)]
        return values

    return lift


def _record(fields: list[tuple[str, Lifter]]) -> Lifter:
    steps = [(name, index * _ENTRY + _NAME_SIZE, lift) for index, (name, lift) in enumerate(fields)]

    def lift(address: int, context: int) -> dict[str, Any]:
        data = _vector_at(address + PAYLOAD).data
        return {name: inner(data + offset, context) for name, offset, inner in steps}

    return lift


def _make_tuple(elements: list[Lifter]) -> Lifter:
    steps = [(index * _SIZE, lift) for index, lift in enumerate(elements)]

    def lift(address: int, context: int) -> tuple[Any, ...]:
        data = _vector_at(address + PAYLOAD).data
        return tuple(inner(data + offset, context) for offset, inner in steps)

    return lift


def _make_variant(cases: dict[str, Lifter | None]) -> Lifter:
    def lift(address: int, context: int) -> Case:
        name = _decode_text(*_read_vector(address + PAYLOAD))
        payload = _pointer_at(address + PAYLOAD + 16).value
        inner = cases[name]
        return Case(name) if inner is None else Case(name, inner(payload, context))

    return lift


def _lift_flags(address: int, _context: int) -> frozenset[str]:
    size, data = _read_vector(address + PAYLOAD)
    return frozenset(_decode_text(*_read_vector(data + index * 16)) for index in range(size))


def _make_option(inner: Lifter, nested: bool) -> Lifter:
    def lift(address: int, context: int) -> Any:
        payload = _pointer_at(address + PAYLOAD).value
        if not payload:
            return None
        return Some(inner(payload, context)) if nested else inner(payload, context)

    return lift


def _make_result(ok: Lifter | None, err: Lifter | None) -> Lifter:
    def lift(address: int, context: int) -> Ok | Err:
        place = _vector_at(address + PAYLOAD)
        payload = place.data
        # Only the lowest byte of the first word is the boolean; the rest is padding.
        if place.size & 0xFF:
            return Ok() if ok is None else Ok(ok(payload, context))
        return Err() if err is None else Err(err(payload, context))

    return lift


def _lift_resource(address: int, context: int) -> int:
    any_resource = _pointer_at(address + PAYLOAD).value
    host = ctypes.c_void_p()
    error = _ffi.resource_any_to_host(context, any_resource, ctypes.addressof(host))
    if error:
        raise fault(error)
    try:
        return int(_ffi.resource_host_rep(host))
    finally:
        _ffi.resource_host_delete(host)
