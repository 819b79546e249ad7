"""The engine's settings, known without the engine: what decides the machine code, and how much the pool holds."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import NamedTuple

from wasmrt.core.limits import MIB, ResourceLimits

# The pool: sized for 64 calls at once, each with a guest as demanding as any that was measured (a Python guest:
# 38 core instances; QuickJS: 3 memories), plus tools that call tools.
POOL_MEMORY_BYTES = 128 * MIB
POOL_TABLE_ELEMENTS = 20_000
POOL_CORE_INSTANCES_PER_COMPONENT = 64
POOL_MEMORIES_PER_COMPONENT = 8
POOL_TABLES_PER_COMPONENT = 16
POOL = {
    "total_component_instances": 256,
    "total_core_instances": 4096,
    "total_memories": 512,
    "total_tables": 1024,
    "max_core_instances_per_component": POOL_CORE_INSTANCES_PER_COMPONENT,
    "max_memories_per_component": POOL_MEMORIES_PER_COMPONENT,
    "max_tables_per_component": POOL_TABLES_PER_COMPONENT,
    "table_elements": POOL_TABLE_ELEMENTS,
    "max_memory_size": POOL_MEMORY_BYTES,
    "max_component_instance_size": 8 * MIB,
    "max_core_instance_size": 4 * MIB,
    "max_unused_warm_slots": 64,
    # What a small guest touches stays mapped and is zeroed by hand when its slot is given back: cheaper than to
    # return the pages and fault them in again for the next call. At most 64 warm slots hold this much.
    "linear_memory_keep_resident": 512 * 1024,
    "table_keep_resident": 64 * 1024,
}

WORKER_POOL = POOL | {
    "total_component_instances": 2,
    "total_core_instances": 2 * POOL_CORE_INSTANCES_PER_COMPONENT,
    "total_memories": 2 * POOL_MEMORIES_PER_COMPONENT,
    "total_tables": 2 * POOL_TABLES_PER_COMPONENT,
    "total_stacks": 1,
}
"""That of a worker, which runs one guest at a time: a fork copies every mapping, and each stack is two."""

# A guest's own stack, not the host's: deep recursion ends as a trap long before Python's thread would overflow.
MAX_WASM_STACK_BYTES = 512 * 1024

# Off unless a guest that people really build needs it: each was the subject of an advisory or widens what a
# guest can do to its host. The four bulk, simd, reference-types and multi-value features are what compilers emit.
FEATURES_OFF = (
    "wasm_threads",
    "shared_memory",
    "wasm_function_references",
    "wasm_gc",
    "gc_support",
    "wasm_memory64",
    "wasm_exceptions",
    "wasm_custom_page_sizes",
    "wasm_stack_switching",
    "wasm_wide_arithmetic",
    "wasm_component_model_async",
    "wasm_component_model_more_async_builtins",
    "wasm_component_model_async_stackful",
    "wasm_component_model_map",
    "concurrency_support",
)
# Multi-memory is on: the adapters between nested components need it, and without it wasmtime 50 aborts the process
# over them. The store's own limit on memories holds all the same. Tail calls are on: QuickJS guests need them.
FEATURES_ON = ("consume_fuel", "epoch_interruption", "wasm_component_model", "wasm_multi_memory", "wasm_tail_call")


class Isolation(StrEnum):
    """The place where guests live."""

    PROCESS = "process"
    """In worker processes, sealed with every layer that this machine has."""
    REQUIRED = "required"
    """The same, and nowhere else: a machine that lacks a layer runs no guest."""
    IN_PROCESS = "in-process"
    """In the host's own process, where a bug of the engine reaches all that the host has."""


DEFAULT_ISOLATION = Isolation.PROCESS if os.uname().sysname == "Linux" else Isolation.IN_PROCESS
"""Workers where the platform has what they are made of: memory files, process handles, seals."""


class OptLevel(StrEnum):
    """Cranelift's optimisation level."""

    NONE = "none"
    SPEED = "speed"
    SPEED_AND_SIZE = "speed_and_size"


class Allocator(StrEnum):
    """The engine's way to find memory for an instance."""

    POOLING = "pooling"
    ON_DEMAND = "on-demand"


class EngineConfig(NamedTuple):
    """Settings that decide the machine code, and so which engine a cached artifact fits."""

    optimization_level: OptLevel = OptLevel.SPEED
    allocator: Allocator = Allocator.POOLING
    consume_fuel: bool = True

    @property
    def key(self) -> str:
        """The settings as text, for the key of an artifact."""
        features = ",".join(sorted(FEATURES_OFF))
        pool = ",".join(f"{k}={v}" for k, v in sorted(POOL.items())) if self.allocator == Allocator.POOLING else ""
        return (
            f"{self.optimization_level}|{self.allocator}|{self.consume_fuel}|{MAX_WASM_STACK_BYTES}|{features}|{pool}"
        )


def best_allocator() -> Allocator:
    """Pooling, unless this process may not reserve the address space: there the engine would abort, uncatchably."""
    try:
        import resource
    except ImportError:  # no POSIX limits, nothing to refuse the reservation
        return Allocator.POOLING
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return Allocator.POOLING if soft == resource.RLIM_INFINITY else Allocator.ON_DEMAND


def fits_the_pool(limits: ResourceLimits) -> bool:
    """Return True where a component with these limits can live in the pooling allocator."""
    return limits.memory_bytes <= POOL_MEMORY_BYTES and limits.table_elements <= POOL_TABLE_ELEMENTS
