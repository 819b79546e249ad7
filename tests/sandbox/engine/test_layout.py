"""Compare the C layout declared in `_ffi` with the bindings of the wasmtime wheel."""

from __future__ import annotations

import ctypes

import pytest
from wasmtime import _bindings as theirs

from wasmrt.sandbox.guest.engine import _ffi as ours


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (ctypes.sizeof(ours.Func), "wasmtime_component_func_t"),
        (ctypes.sizeof(ours.Instance), "wasmtime_component_instance_t"),
        (ctypes.sizeof(ours.Vector), "wasm_byte_vec_t"),
        (ctypes.sizeof(ours.TypeRef), "wasmtime_component_valtype_t"),
        (ctypes.sizeof(ours.Item), "wasmtime_component_item_t"),
        (ours.VALUE_SIZE, "wasmtime_component_val_t"),
        (ours.ENTRY_SIZE, "wasmtime_component_valrecord_entry_t"),
    ],
)
def test_structure_sizes_match_the_library(size: int, name: str) -> None:
    assert size == ctypes.sizeof(getattr(theirs, name))


def test_payload_offsets_match_the_library() -> None:
    assert theirs.wasmtime_component_val_t.of.offset == 8
    assert theirs.wasmtime_component_valrecord_entry_t.val.offset == ours.ENTRY_SIZE - ours.VALUE_SIZE
    assert theirs.wasmtime_component_valvariant_t.val.offset == 16
    assert theirs.wasmtime_component_valresult_t.val.offset == 8
    assert theirs.wasmtime_component_item_t.of.offset == 8


def test_argument_counts_match_the_library() -> None:
    checked = 0
    for name in dir(ours):
        function = getattr(ours, name)
        symbol = getattr(function, "__name__", "")
        known = getattr(theirs, f"_{symbol}", None) if isinstance(function, ctypes._CFuncPtr) else None
        if known is not None and function.argtypes is not None:
            assert len(function.argtypes) == len(known.argtypes), symbol
            checked += 1
    assert checked > 60
