"""The engine's settings as wasmtime takes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

from wasmrt.sandbox.guest.engine import _ffi
from wasmrt.sandbox.guest.settings import (
    FEATURES_OFF,
    FEATURES_ON,
    MAX_WASM_STACK_BYTES,
    Allocator,
    EngineConfig,
    OptLevel,
)


def native_config(config: EngineConfig, sizes: Mapping[str, int]) -> int:
    """A wasm_config_t for `config` and a pool of these sizes; the engine that is made of it takes it over."""
    native = _ffi.config_new()
    for name in FEATURES_ON:
        _ffi.config_setter(name, ctypes.c_bool)(native, name != "consume_fuel" or config.consume_fuel)
    for name in FEATURES_OFF:
        _ffi.config_setter(name, ctypes.c_bool)(native, False)
    _ffi.config_setter("max_wasm_stack", ctypes.c_size_t)(native, MAX_WASM_STACK_BYTES)
    # SECURITY: never Winch: its escapes of 2026 were its own. 1 is Cranelift.
    _ffi.config_setter("strategy", ctypes.c_uint8)(native, 1)
    level = list(OptLevel).index(config.optimization_level)
    _ffi.config_setter("cranelift_opt_level", ctypes.c_uint8)(native, level)
    if config.allocator == Allocator.POOLING:
        pool = _ffi.pooling_new()
        for name, value in sizes.items():
            _ffi.pooling_setter(name)(pool, value)
        _ffi.pooling_strategy_set(native, pool)
        _ffi.pooling_delete(pool)
    return int(native)
