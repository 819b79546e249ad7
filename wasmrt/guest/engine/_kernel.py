"""Core modules of our own: loops over bytes that Python is too slow for, as fast as a library and as safe as a guest.

They import nothing, hold one memory, and run in an engine of their own, without fuel or epochs: they are trusted to
end, not to stay within their memory.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from ctypes import c_bool, c_char_p, c_int32, c_size_t, c_uint8, c_uint64, c_void_p
from functools import lru_cache

from wasmrt.errors import InternalError
from wasmrt.guest.engine import _ffi
from wasmrt.guest.engine._traps import fault
from wasmrt.guest.engine._wat import wat2wasm

_P = c_void_p
_module_new = _ffi._function(_ffi._blocking, "wasmtime_module_new", _P, _P, c_void_p, c_size_t, _P)
_instance_new = _ffi._function(_ffi._blocking, "wasmtime_instance_new", _P, _P, _P, _P, c_size_t, _P, _P)
_export_get = _ffi._function(_ffi._quick, "wasmtime_instance_export_get", c_bool, _P, _P, c_char_p, c_size_t, _P)
_memory_data = _ffi._function(_ffi._quick, "wasmtime_memory_data", _P, _P, _P)
_memory_size = _ffi._function(_ffi._quick, "wasmtime_memory_data_size", c_size_t, _P, _P)
_call = _ffi._function(_ffi._blocking, "wasmtime_func_call_unchecked", _P, _P, _P, _P, c_size_t, _P)
_NUMBERS = 4
"""So many of 32 bits are as wide as a wasmtime_val_raw_t, which may hold a vector."""
_MOST = 4
"""So many arguments has a function at most."""


class _Extern(ctypes.Structure):
    """wasmtime_extern_t: a kind and, 8 bytes on, a handle of at most 24."""

    _fields_ = [("kind", c_uint8), ("of", c_uint64 * 3)]


class _Instance(ctypes.Structure):
    """wasmtime_instance_t."""

    _fields_ = [("store_id", c_uint64), ("private", c_size_t)]


class Kernel:
    """An instance of a module: its memory, and its functions from whole numbers to a whole number.

    For one thread at a time. The memory does not grow.

    Raises:
        InvalidComponentError: `text` is not WebAssembly text.
        InternalError: the module is not such a one.
    """

    __slots__ = ("__weakref__", "_context", "_functions", "_instance", "_memory", "_values")

    def __init__(self, text: str) -> None:
        engine, module = _compiled(text, os.getpid())
        store = _ffi.store_new(engine, None, None)
        weakref.finalize(self, _ffi.store_delete, store).atexit = False
        self._context: int = _ffi.store_context(store)
        self._functions: dict[str, ctypes.Array[c_uint64]] = {}
        self._values = (c_int32 * (_MOST * _NUMBERS))()
        self._instance = _Instance()
        trap = c_void_p()
        here, there = ctypes.addressof(self._instance), ctypes.addressof(trap)
        _check(_instance_new(self._context, module, None, 0, here, there), trap)
        memory = self._export("memory")
        size = _memory_size(self._context, ctypes.addressof(memory))
        first = _memory_data(self._context, ctypes.addressof(memory))
        self._memory = memoryview((c_uint8 * size).from_address(first)).cast("B")

    def write(self, at: int, data: bytes | memoryview) -> None:
        """Copy bytes into the memory; ValueError where they do not fit."""
        self._memory[at : at + len(data)] = data

    def call(self, name: str, *numbers: int) -> int:
        """Call a function; the interpreter's lock is let go meanwhile.

        Raises:
            InternalError: it trapped.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._export(name)
        for index, number in enumerate(numbers):
            self._values[index * _NUMBERS] = number
        trap = c_void_p()
        where, values = ctypes.addressof(function), ctypes.addressof(self._values)
        _check(_call(self._context, where, values, max(1, len(numbers)), ctypes.addressof(trap)), trap)
        return self._values[0]

    def _export(self, name: str) -> ctypes.Array[c_uint64]:
        found, encoded = _Extern(), name.encode()
        here = ctypes.addressof(self._instance)
        if not _export_get(self._context, here, encoded, len(encoded), ctypes.addressof(found)):
            raise InternalError(f"a module of our own has no export {name}")
        handle: ctypes.Array[c_uint64] = found.of
        return handle


@lru_cache(maxsize=8)
def _compiled(text: str, process: int) -> tuple[int, int]:
    """The engine and the module, kept for good; a forked process makes its own."""
    config = _ffi.config_new()
    # Its threads stay behind in the parent of a forked process, and would be waited for.
    _ffi.config_setter("parallel_compilation", c_bool)(config, False)
    engine = _ffi.engine_new_with_config(config)
    binary = wat2wasm(text)
    module = c_void_p()
    _check(_module_new(engine, binary, len(binary), ctypes.addressof(module)), c_void_p())
    return engine, module.value or 0


def _check(error: int | None, trap: c_void_p) -> None:
    if failed := error or trap.value:
        raise InternalError("a module of our own failed") from fault(failed)


def make_kernel(text: str) -> Kernel:
    """Make an instance of a core module of our own, given as WebAssembly text: a loop over bytes, for one thread.

    Raises:
        InvalidComponentError: `text` is not WebAssembly text.
        InternalError: the module imports something, or has no memory.
    """
    return Kernel(text)
