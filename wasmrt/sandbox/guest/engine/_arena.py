"""The memory for values that are passed to the engine.

Python owns the parameters of an export for the lifetime of the store (`CallArena`). The engine owns the results of an
import, and frees them (`OwnedArena`).
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

from wasmrt.sandbox.guest.engine import _ffi

_SIZE, _ENTRY = _ffi.VALUE_SIZE, _ffi.ENTRY_SIZE
_memmove = ctypes.memmove


class Arena(Protocol):
    context: int

    def put(self, at: int, data: bytes) -> None: ...
    def add_text(self, data: bytes) -> int: ...
    def add_name(self, data: bytes) -> int: ...
    def allocate_values(self, count: int, *, zeroed: bool = True) -> int: ...
    def allocate_entries(self, count: int) -> int: ...
    def allocate_names(self, count: int) -> int: ...


_ARENA_BYTES = 16 * 1024
_INSTANCE_SIZE, _FUNC_SIZE = ctypes.sizeof(_ffi.Instance), ctypes.sizeof(_ffi.Func)
_FIXED_BYTES = (_INSTANCE_SIZE + _FUNC_SIZE + ctypes.sizeof(ctypes.c_uint64) + 15) & ~15
_COPIED_BYTES = 2 * 1024
_names: dict[bytes, tuple[ctypes.Array[ctypes.c_char], int]] = {}


class CallArena:
    """Memory that Python owns for the lifetime of a store. Small values use one block, which is reused.

    The engine copies parameters and never frees them. Therefore each name of a field or case is allocated only once,
    for all calls. The block starts with fixed places for the store's instance, the called function, and one 64-bit
    number.
    """

    __slots__ = ("_base", "_block", "_end", "_kept", "_top", "_window", "context", "func", "instance", "number")

    def __init__(self) -> None:
        self._block = ctypes.create_string_buffer(_ARENA_BYTES)
        self._window = memoryview(self._block).cast("B")
        self._base = ctypes.addressof(self._block)
        self._end = self._base + _ARENA_BYTES
        self.instance = self._base
        self.func = self._base + _INSTANCE_SIZE
        self.number = ctypes.c_uint64.from_buffer(self._block, _INSTANCE_SIZE + _FUNC_SIZE)
        self.reset(0)

    def reset(self, context: int) -> None:
        """Free all memory of this arena. Addresses that it returned before must not be used again."""
        self.context = context
        self._top = self._base + _FIXED_BYTES
        self._kept: list[Any] = []

    def put(self, at: int, data: bytes) -> None:
        """Write `data` at an address that this arena returned."""
        offset = at - self._base
        if 0 <= offset < _ARENA_BYTES:
            self._window[offset : offset + len(data)] = data  # several times faster than ctypes.memmove
        else:
            _memmove(at, data, len(data))

    def add_text(self, data: bytes) -> int:
        size = len(data)
        at = self._top
        if size <= _COPIED_BYTES and at + size <= self._end - 8:
            self._top = at + ((size + 7) & ~7)
            offset = at - self._base
            self._window[offset : offset + size] = data
            return at
        pointer = ctypes.c_char_p(data)
        self._kept.append(pointer)
        return ctypes.c_void_p.from_buffer(pointer).value or 0

    def add_name(self, data: bytes) -> int:
        known = _names.get(data)
        if known is None:
            buffer = ctypes.create_string_buffer(data, len(data) or 1)
            known = _names[data] = (buffer, ctypes.addressof(buffer))
        return known[1]

    def allocate_values(self, count: int, *, zeroed: bool = True) -> int:
        return self.take(count * _SIZE)

    def allocate_entries(self, count: int) -> int:
        return self.take(count * _ENTRY)

    def allocate_names(self, count: int) -> int:
        return self.take(count * 16)

    def take(self, size: int) -> int:
        """Allocate `size` bytes, aligned to eight, and return their address."""
        at = self._top
        top = at + ((size + 7) & ~7)
        if top <= self._end:
            self._top = top
            return at
        block = ctypes.create_string_buffer(size)
        self._kept.append(block)
        return ctypes.addressof(block)


class OwnedArena:
    """Memory from the engine's allocator. The engine becomes its owner when it gets the result of an import."""

    __slots__ = ("context",)

    def __init__(self, context: int) -> None:
        self.context = context

    def put(self, at: int, data: bytes) -> None:
        _memmove(at, data, len(data))

    def add_text(self, data: bytes) -> int:
        vector = _ffi.Vector()
        _ffi.byte_vec_new(ctypes.addressof(vector), len(data), data)
        return vector.data or 0

    def add_name(self, data: bytes) -> int:
        return self.add_text(data)

    def allocate_values(self, count: int, *, zeroed: bool = True) -> int:
        if not zeroed:  # the caller writes all numbers in one step, which cannot fail halfway
            vector = _ffi.Vector()
            _ffi.vallist_new_uninit(ctypes.addressof(vector), count)
            return vector.data or 0
        return self._vector(_ffi.vallist_new_uninit, count, _SIZE)

    def allocate_entries(self, count: int) -> int:
        return self._vector(_ffi.valrecord_new_uninit, count, _ENTRY)

    def allocate_names(self, count: int) -> int:
        return self._vector(_ffi.valflags_new_uninit, count, 16)

    @staticmethod
    def _vector(new: Any, count: int, size: int) -> int:
        vector = _ffi.Vector()
        new(ctypes.addressof(vector), count)
        # Memory of zeros has valid values, so the engine can free it even if an error occurs before all are written.
        ctypes.memset(vector.data, 0, count * size)
        return vector.data or 0
