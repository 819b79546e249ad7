"""Convert wasmtime's errors to `EngineFault`. Traps are identified by their code, never by their text."""

from __future__ import annotations

import ctypes
from enum import IntEnum

from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.sandbox.component import printable
from wasmrt.sandbox.guest.engine import _ffi


class TrapCode(IntEnum):
    """The codes of wasmtime_trap_code_enum that a component can cause without async and GC."""

    STACK_OVERFLOW = 0
    MEMORY_OUT_OF_BOUNDS = 1
    HEAP_MISALIGNED = 2
    TABLE_OUT_OF_BOUNDS = 3
    INDIRECT_CALL_TO_NULL = 4
    BAD_SIGNATURE = 5
    INTEGER_OVERFLOW = 6
    INTEGER_DIVISION_BY_ZERO = 7
    BAD_CONVERSION_TO_INTEGER = 8
    UNREACHABLE = 9
    INTERRUPT = 10
    OUT_OF_FUEL = 11
    ATOMIC_WAIT_NON_SHARED_MEMORY = 12
    NULL_REFERENCE = 13
    ARRAY_OUT_OF_BOUNDS = 14
    ALLOCATION_TOO_LARGE = 15
    CAST_FAILURE = 16
    CANNOT_ENTER_COMPONENT = 17
    NO_ASYNC_RESULT = 18
    UNHANDLED_TAG = 19
    CONTINUATION_ALREADY_CONSUMED = 20
    DISABLED_OPCODE = 21
    ASYNC_DEADLOCK = 22
    CANNOT_LEAVE_COMPONENT = 23
    CANNOT_BLOCK_SYNC_TASK = 24
    INVALID_CHAR = 25
    STRING_OUT_OF_BOUNDS = 30
    LIST_OUT_OF_BOUNDS = 31
    INVALID_DISCRIMINANT = 32
    UNALIGNED_POINTER = 33

    @property
    def words(self) -> str:
        return self.name.lower().replace("_", " ")


class EngineFault(Exception):  # noqa: N818 - internal: users of this package convert it to a WasmrtError
    """Raised if the engine reports an error. `code` is None if the error is not a trap, or the trap is unknown."""

    def __init__(self, message: str, code: TrapCode | None, raw_code: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.raw_code = raw_code


def fault(pointer: int) -> EngineFault:
    """Convert the wasmtime_error_t at `pointer` to an exception, and free the wasmtime_error_t."""
    try:
        raw = ctypes.c_uint8()
        # wasmtime_error_t and wasm_trap_t have the same representation, so the accessor of a trap's code works for
        # both. tests/sandbox/engine/test_traps.py checks this for every code.
        has_code = _ffi.trap_code(pointer, ctypes.addressof(raw))
        vector = _ffi.Vector()
        _ffi.error_message(pointer, ctypes.addressof(vector))
        size = min(vector.size, MAX_ERROR_TEXT_BYTES)
        # SECURITY: the text contains names from the component's name section, and is shown in tracebacks and logs.
        message = printable(ctypes.string_at(vector.data, size).decode("utf-8", "replace")) if size else ""
        _ffi.byte_vec_delete(ctypes.addressof(vector))
    finally:
        _ffi.error_delete(pointer)
    if not has_code:
        return EngineFault(message, None, None)
    known = raw.value in TrapCode.__members__.values()
    return EngineFault(message, TrapCode(raw.value) if known else None, raw.value)
