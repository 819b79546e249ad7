"""Make lowerers: functions that write a Python value as a wasmtime_component_val_t of a WIT type.

A lowerer takes `(value, address, arena)`. The arena determines the owner of the memory. Python owns the parameters of
an export (`CallArena`), and the engine owns the results of an import (`OwnedArena`).

If a value does not fit its type, the lowerer raises `LowerError`, and the value is never passed to the engine.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from array import array
from collections.abc import Callable
from struct import Struct
from typing import Any

from wasmrt.sandbox import component as wit
from wasmrt.sandbox.component import Case, Err, Ok, Some
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._arena import Arena, CallArena
from wasmrt.sandbox.guest.engine._ffi import FORMAT, KIND, PAYLOAD
from wasmrt.sandbox.guest.engine._traps import fault

_SIZE, _ENTRY, _NAME_SIZE = _ffi.VALUE_SIZE, _ffi.ENTRY_SIZE, _ffi.NAME_SIZE
_STRING = KIND["string"]
_resources_lock = threading.Lock()
_resource_numbers: dict[str, int] = {}
_head = Struct("=QQQ").pack
_pair = Struct("=QQ").pack
_triple = Struct("=QQQQ").pack


class LowerError(Exception):
    """Raised if a Python value does not fit its WIT type."""


Lowerer = Callable[[Any, int, Arena], None]


def lowerer(kind: wit.WitType) -> Lowerer:  # noqa: C901 - one case for each type
    """Return the function that lowers Python values to the WIT type `kind`."""
    match kind:
        case wit.Primitive("string"):
            return _lower_string
        case wit.Primitive("char"):
            return _lower_char
        case wit.Primitive(name):
            return _make_number(name)
        case wit.ListType(wit.Primitive("u8")):
            return _lower_bytes
        case wit.ListType(wit.Primitive(name)) if name in FORMAT and name != "bool":
            return _make_numbers(name)
        case wit.ListType(element):
            return _list(lowerer(element))
        case wit.RecordType(fields):
            return _record([(name, lowerer(inner)) for name, inner in fields])
        case wit.TupleType(elements):
            return _make_tuple([lowerer(inner) for inner in elements])
        case wit.VariantType(cases):
            return _make_variant({name: None if inner is None else lowerer(inner) for name, inner in cases})
        case wit.EnumType(names):
            return _make_enum(frozenset(names))
        case wit.FlagsType(names):
            return _make_flags(frozenset(names))
        case wit.OptionType(inner):
            return _make_option(lowerer(inner), wit.is_nested_option(kind))
        case wit.ResultType(ok, err):
            return _make_result(None if ok is None else lowerer(ok), None if err is None else lowerer(err))
        case wit.ResourceRef(resource, owned):
            return _make_resource(resource, owned)


def _expect(ok: bool, what: str, value: Any) -> None:
    if not ok:
        raise LowerError(f"expected {what}, got {type(value).__name__}")


def _lower_string(value: Any, address: int, arena: Arena) -> None:
    if not isinstance(value, str):
        _expect(False, "a string", value)
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise LowerError("the string has a lone surrogate, which UTF-8 cannot encode") from error
    arena.put(address, _head(_STRING, len(data), arena.add_text(data) if data else 0))


def _lower_char(value: Any, address: int, arena: Arena) -> None:
    _expect(isinstance(value, str) and len(value) == 1, "one character", value)
    _expect(not 0xD800 <= ord(value) <= 0xDFFF, "a Unicode scalar value", value)
    arena.put(address, _pair(KIND["char"], ord(value)))


def _make_number(name: str) -> Lowerer:
    code, _ = FORMAT[name]
    pack = Struct(f"=Q{code}").pack
    kind = KIND[name]
    wanted: tuple[type, ...] = (bool,) if name == "bool" else (float, int) if name[0] == "f" else (int,)

    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, wanted) and (name == "bool" or not isinstance(value, bool)), name, value)
        try:
            packed = pack(kind, value)
        except (struct.error, OverflowError) as error:
            raise LowerError(f"{value!r} does not fit {name}") from error
        arena.put(address, packed)

    return lower


def _lower_bytes(value: Any, address: int, arena: Arena) -> None:
    _expect(isinstance(value, (bytes, bytearray, memoryview)), "bytes", value)
    count = len(value)
    block = arena.allocate_values(count, zeroed=False) if count else 0
    if count:
        window = memoryview((ctypes.c_ubyte * (count * _SIZE)).from_address(block)).cast("B")
        window[0::_SIZE] = bytes((KIND["u8"],)) * count
        window[PAYLOAD::_SIZE] = value
    arena.put(address, _head(_ffi.LIST, count, block))


def _make_numbers(name: str) -> Lowerer:
    code, width = FORMAT[name]
    start, step, kind = PAYLOAD // width, _SIZE // width, KIND[name]
    form: Any = code  # the type stubs require a literal

    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, (list, tuple)), f"a list of {name}", value)
        try:
            packed = array(code, value)
        except (TypeError, OverflowError) as error:
            raise LowerError(f"the list has an element that is not a {name}") from error
        count = len(packed)
        block = arena.allocate_values(count, zeroed=False) if count else 0
        if count:
            window = memoryview((ctypes.c_ubyte * (count * _SIZE)).from_address(block)).cast("B")
            window[0::_SIZE] = bytes((kind,)) * count
            window.cast(form)[start::step] = memoryview(packed)
        arena.put(address, _head(_ffi.LIST, count, block))

    return lower


def _list(element: Lowerer) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, (list, tuple)), "a list", value)
        block = arena.allocate_values(len(value)) if value else 0
        for index, inner in enumerate(value):
            element(inner, block + index * _SIZE, arena)
        arena.put(address, _head(_ffi.LIST, len(value), block))

    return lower


def _record(fields: list[tuple[str, Lowerer]]) -> Lowerer:
    steps = [(name, name.encode(), index * _ENTRY, lower) for index, (name, lower) in enumerate(fields)]
    count = len(steps)

    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, dict), "a record as a dict", value)
        if len(value) != count:
            raise LowerError(f"a record must have exactly the fields {', '.join(name for name, *_ in steps)}")
        block = arena.allocate_entries(count)
        for name, encoded, offset, inner in steps:
            if name not in value:
                raise LowerError(f"the record's field {name} is missing")
            arena.put(block + offset, _pair(len(encoded), arena.add_name(encoded)))
            inner(value[name], block + offset + _NAME_SIZE, arena)
        arena.put(address, _head(_ffi.RECORD, count, block))

    return lower


def _make_tuple(elements: list[Lowerer]) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, (tuple, list)) and len(value) == len(elements), f"{len(elements)} values", value)
        block = arena.allocate_values(len(elements))
        for index, (inner, item) in enumerate(zip(elements, value, strict=True)):
            inner(item, block + index * _SIZE, arena)
        arena.put(address, _head(_ffi.TUPLE, len(elements), block))

    return lower


def _lower_boxed(value: Any, lower: Lowerer | None, arena: Arena) -> int:
    if lower is None:
        _expect(value is None, "no payload", value)
        return 0
    if isinstance(arena, CallArena):
        block = arena.allocate_values(1)
        lower(value, block, arena)
        return block
    scratch = ctypes.create_string_buffer(_SIZE)
    lower(value, ctypes.addressof(scratch), arena)
    return int(_ffi.val_new(ctypes.addressof(scratch)))


def _make_variant(cases: dict[str, Lowerer | None]) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, Case) and value.name in cases, f"a case of {', '.join(cases)}", value)
        encoded = value.name.encode()
        payload = _lower_boxed(value.value, cases[value.name], arena)
        arena.put(address, _triple(_ffi.VARIANT, len(encoded), arena.add_name(encoded), payload))

    return lower


def _make_enum(names: frozenset[str]) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        if value not in names:
            raise LowerError(f"expected one of {', '.join(sorted(names))}, got {value!r}")
        encoded = value.encode()
        arena.put(address, _head(_ffi.ENUM, len(encoded), arena.add_name(encoded)))

    return lower


def _make_flags(names: frozenset[str]) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, (set, frozenset, list, tuple)), "a set of flags", value)
        chosen = sorted(set(value))
        if not names.issuperset(chosen):
            raise LowerError(f"expected flags of {', '.join(sorted(names))}, got {', '.join(map(str, chosen))}")
        block = arena.allocate_names(len(chosen)) if chosen else 0
        for index, name in enumerate(chosen):
            encoded = name.encode()
            arena.put(block + index * 16, _pair(len(encoded), arena.add_name(encoded)))
        arena.put(address, _head(_ffi.FLAGS, len(chosen), block))

    return lower


def _make_option(inner: Lowerer, nested: bool) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        if value is None:
            payload = 0
        elif nested:
            _expect(isinstance(value, Some), "Some(value) or None", value)
            payload = _lower_boxed(value.value, inner, arena)
        else:
            payload = _lower_boxed(value, inner, arena)
        arena.put(address, _pair(_ffi.OPTION, payload))

    return lower


def _make_result(ok: Lowerer | None, err: Lowerer | None) -> Lowerer:
    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, (Ok, Err)), "Ok or Err", value)
        is_ok = isinstance(value, Ok)
        payload = _lower_boxed(value.value, ok if is_ok else err, arena)
        arena.put(address, _head(_ffi.RESULT, int(is_ok), payload))

    return lower


def resource_number(resource: str) -> int:
    """Return the number that identifies a host resource, such as `wasi:io/streams#output-stream`, in this process."""
    with _resources_lock:
        return _resource_numbers.setdefault(resource, len(_resource_numbers) + 1)


def _make_resource(resource: str, owned: bool) -> Lowerer:
    number = resource_number(resource) if resource else 0

    def lower(value: Any, address: int, arena: Arena) -> None:
        _expect(isinstance(value, int) and bool(number), "a handle of a host resource", value)
        host = _ffi.resource_host_new(owned, value, number)
        handle = ctypes.c_void_p()
        try:
            error = _ffi.resource_host_to_any(arena.context, host, ctypes.addressof(handle))
        finally:
            _ffi.resource_host_delete(host)
        if error:
            raise fault(error)
        arena.put(address, _pair(_ffi.RESOURCE, handle.value or 0))

    return lower
