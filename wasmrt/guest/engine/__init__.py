"""The only package that imports wasmtime: configuration, cache, linker, value codec, traps, one store a call."""

from __future__ import annotations

from wasmrt.guest.engine._compiler import (
    Compiler,
)
from wasmrt.guest.engine._config import (
    POOL_CORE_INSTANCES_PER_COMPONENT,
    POOL_MEMORIES_PER_COMPONENT,
    POOL_MEMORY_BYTES,
    POOL_TABLE_ELEMENTS,
    POOL_TABLES_PER_COMPONENT,
    Allocator,
    EngineConfig,
    OptLevel,
    best_allocator,
)
from wasmrt.guest.engine._disk import (
    DiskCache,
)
from wasmrt.guest.engine._engine import (
    Component,
)
from wasmrt.guest.engine._ffi import (
    VERSION,
    give_memory_back,
)
from wasmrt.guest.engine._linker import (
    HostInterface,
    Linker,
    resolve,
    track,
)
from wasmrt.guest.engine._lower import (
    LowerError,
)
from wasmrt.guest.engine._sandbox import (
    Export,
    Sandbox,
    StoreLimits,
)
from wasmrt.guest.engine._traps import (
    EngineFault,
    TrapCode,
)
from wasmrt.guest.engine._wat import (
    wat2wasm,
)

__all__ = [
    "POOL_CORE_INSTANCES_PER_COMPONENT",
    "POOL_MEMORIES_PER_COMPONENT",
    "POOL_MEMORY_BYTES",
    "POOL_TABLES_PER_COMPONENT",
    "POOL_TABLE_ELEMENTS",
    "VERSION",
    "Allocator",
    "Compiler",
    "Component",
    "DiskCache",
    "EngineConfig",
    "EngineFault",
    "Export",
    "HostInterface",
    "Linker",
    "LowerError",
    "OptLevel",
    "Sandbox",
    "StoreLimits",
    "TrapCode",
    "best_allocator",
    "give_memory_back",
    "resolve",
    "track",
    "wat2wasm",
]
