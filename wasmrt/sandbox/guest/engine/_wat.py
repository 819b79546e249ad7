"""WebAssembly text to bytes, with the engine's own parser: for the bundled attacks and for tests."""

from __future__ import annotations

import ctypes

from wasmrt.core.errors import InvalidComponentError
from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.engine._traps import fault

_wat2wasm = _ffi._function(
    _ffi._blocking, "wasmtime_wat2wasm", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p
)


def wat2wasm(text: str) -> bytes:
    """Assemble a module or component.

    Raises:
        InvalidComponentError: the text is not WebAssembly text.
    """
    encoded = text.encode()
    vector = _ffi.Vector()
    error = _wat2wasm(encoded, len(encoded), ctypes.addressof(vector))
    if error:
        raise InvalidComponentError(f"not WebAssembly text: {printable_line(fault(error).message)}")
    try:
        return ctypes.string_at(vector.data, vector.size)
    finally:
        _ffi.byte_vec_delete(ctypes.addressof(vector))
