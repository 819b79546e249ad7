"""The engine: configuration, linker, codecs for values, traps, and a store for each call.

No other package loads wasmtime.
"""

from __future__ import annotations

from wasmrt.sandbox.guest.engine._engine import Component, Engine, shared_engine, wat2wasm
from wasmrt.sandbox.guest.engine._ffi import VERSION
from wasmrt.sandbox.guest.engine._linker import HostInterface, Linker, get_compatible_name
from wasmrt.sandbox.guest.engine._lower import LowerError
from wasmrt.sandbox.guest.engine._sandbox import Export, Sandbox, StoreLimits
from wasmrt.sandbox.guest.engine._ticker import Ticker
from wasmrt.sandbox.guest.engine._traps import EngineFault, TrapCode

__all__ = [
    "VERSION",
    "Component",
    "Engine",
    "EngineFault",
    "Export",
    "HostInterface",
    "Linker",
    "LowerError",
    "Sandbox",
    "StoreLimits",
    "Ticker",
    "TrapCode",
    "get_compatible_name",
    "shared_engine",
    "wat2wasm",
]
