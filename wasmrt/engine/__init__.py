"""The only room that imports wasmtime: configuration, compile cache, linker, value codec, traps, one store a call.

The door is narrow: a `Compiler` prepares, a `Linker` binds what was granted, a `Sandbox` is one call. What happens
behind it could move to another process without its callers noticing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt.engine._compiler import Compiler
from wasmrt.engine._config import (
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
from wasmrt.engine._disk import DiskCache
from wasmrt.engine._engine import Component
from wasmrt.engine._ffi import VERSION, give_memory_back
from wasmrt.engine._header import check_header
from wasmrt.engine._inflight import GuestCall
from wasmrt.engine._linker import HostInterface, Linker, resolve, track
from wasmrt.engine._lower import LowerError
from wasmrt.engine._sandbox import Export, Sandbox, StoreLimits
from wasmrt.engine._text import plain
from wasmrt.engine._traps import EngineFault, TrapCode
from wasmrt.engine._types import (
    ComponentType,
    EnumType,
    FlagsType,
    FuncType,
    InterfaceType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResourceRef,
    ResultType,
    TupleType,
    VariantType,
    WitType,
    walk,
)
from wasmrt.engine._values import Case, Err, Ok, Some
from wasmrt.engine._wat import wat2wasm

if TYPE_CHECKING:
    from wasmrt.engine._kernel import Kernel

__all__ = [
    "POOL_CORE_INSTANCES_PER_COMPONENT",
    "POOL_MEMORIES_PER_COMPONENT",
    "POOL_MEMORY_BYTES",
    "POOL_TABLES_PER_COMPONENT",
    "POOL_TABLE_ELEMENTS",
    "VERSION",
    "Allocator",
    "Case",
    "Compiler",
    "Component",
    "ComponentType",
    "DiskCache",
    "EngineConfig",
    "EngineFault",
    "EnumType",
    "Err",
    "Export",
    "FlagsType",
    "FuncType",
    "GuestCall",
    "HostInterface",
    "InterfaceType",
    "Linker",
    "ListType",
    "LowerError",
    "Ok",
    "OptLevel",
    "OptionType",
    "Primitive",
    "RecordType",
    "ResourceRef",
    "ResultType",
    "Sandbox",
    "Some",
    "StoreLimits",
    "TrapCode",
    "TupleType",
    "VariantType",
    "WitType",
    "best_allocator",
    "check_header",
    "give_memory_back",
    "make_kernel",
    "plain",
    "resolve",
    "track",
    "walk",
    "wat2wasm",
]


def make_kernel(text: str) -> Kernel:
    """Make an instance of a core module of our own, given as WebAssembly text: a loop over bytes, for one thread.

    Raises:
        InvalidComponentError: `text` is not WebAssembly text.
        InternalError: the module imports something, or has no memory.
    """
    from wasmrt.engine._kernel import Kernel

    return Kernel(text)
