"""Constants of the engine's value layout, wasmtime_component_val_t, that lowering and lifting share.

Source: wasmtime's C header component/val.h, of the version that `_ffi` is pinned to.
"""

from __future__ import annotations

KIND = {
    "bool": 0, "s8": 1, "u8": 2, "s16": 3, "u16": 4, "s32": 5, "u32": 6, "s64": 7, "u64": 8, "f32": 9, "f64": 10,
    "char": 11, "string": 12,
}  # fmt: skip
"""WASMTIME_COMPONENT_<kind> of each primitive type."""
LIST, RECORD, TUPLE, VARIANT, ENUM, OPTION, RESULT, FLAGS, RESOURCE = range(13, 22)

FORMAT = {
    "bool": ("?", 1), "s8": ("b", 1), "u8": ("B", 1), "s16": ("h", 2), "u16": ("H", 2), "s32": ("i", 4),
    "u32": ("I", 4), "s64": ("q", 8), "u64": ("Q", 8), "f32": ("f", 4), "f64": ("d", 8),
}  # fmt: skip
"""struct and memoryview format of each number, and its width in bytes."""

PAYLOAD = 8
"""Offset of a value's payload in bytes."""
