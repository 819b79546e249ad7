"""The engine's settings: compiler options, and the size of the instance pool.

Importing this module does not load the engine.
"""

from __future__ import annotations

import os
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from wasmrt.core.limits import KIB, MIB, ResourceLimits

# The pool is sized for 64 concurrent calls of the most demanding guests measured (Python: 38 core instances; QuickJS: 3
# memories), plus tools that call tools.
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
    # This much memory of a freed slot stays mapped and is zeroed, which is enough for a small guest. That is cheaper
    # than returning the pages and faulting them in again for the next call. It applies to at most 64 warm slots.
    "linear_memory_keep_resident": 512 * 1024,
    "table_keep_resident": 64 * 1024,
}

CALLS_PER_WORKER = 64
"""Calls that one worker runs at a time, if they come from an event loop."""
GUESTS_AT_LIMIT = 8
"""A worker has memory for this many guests that use their whole memory limit. Nearly all guests use a few MiB of it."""
WORKER_POOL = POOL | {
    "total_component_instances": CALLS_PER_WORKER + 1,
    "total_core_instances": CALLS_PER_WORKER * POOL_CORE_INSTANCES_PER_COMPONENT,
    "total_memories": CALLS_PER_WORKER * POOL_MEMORIES_PER_COMPONENT,
    "total_tables": CALLS_PER_WORKER * POOL_TABLES_PER_COMPONENT,
    "total_stacks": CALLS_PER_WORKER + 1,
}
"""The pool of a worker. It has room for all calls, because a worker cannot wait for room.

It is no larger, because a fork copies every memory mapping of the process, and each stack needs two mappings.
"""

# The size limit of a guest's stack. Deep recursion traps in the guest, long before the Python thread's stack overflows.
MAX_WASM_STACK_BYTES = 512 * 1024

# These features are disabled, because no common guest needs them, and each one was the subject of an advisory or
# increases the attack surface. Bulk memory, SIMD, reference types and multi-value stay enabled: compilers emit them.
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
# Multi-memory is enabled: the adapters between nested components need it, and without it wasmtime 50 aborts the process
# while it compiles them. The store still limits the number of memories. QuickJS guests need tail calls.
FEATURES_ON = ("consume_fuel", "epoch_interruption", "wasm_component_model", "wasm_multi_memory", "wasm_tail_call")


class Isolation(StrEnum):
    """The kind of process in which guests run."""

    PROCESS = "process"
    """Guests run in worker processes, which are confined with every layer that this machine supports."""
    REQUIRED = "required"
    """Guests run in worker processes, confined with every layer. If this machine lacks a layer, guests do not run."""
    IN_PROCESS = "in-process"
    """Guests run in the host's process, where a bug in the engine exposes everything that the host can access."""


HAS_WORKERS = os.uname().sysname == "Linux"
"""True if this system can run worker processes, which need sealed memfds and pidfds."""
DEFAULT_ISOLATION = Isolation.PROCESS if HAS_WORKERS else Isolation.IN_PROCESS
"""The default isolation. Only Linux has the memfds, pidfds and confinement that workers need."""


WORKER_BYTES = 6 * MIB
"""Memory of an idle or waiting worker. 4 to 5.8 MiB were measured, not counting shared memory."""
_CALL_BYTES = 384 * KIB
"""Memory of a call in a shared worker, including the call's share of the worker. 110 to 270 KiB were measured."""
_MEMORY_PART = 4
"""Workers may use the machine's memory divided by this number."""
_WORKER_DESCRIPTORS = 4
"""File descriptors that the host needs for a call on a thread: the worker's socket and process, a connection, and one
for waits."""
_CALL_DESCRIPTORS = 1.25
"""File descriptors that the host needs for a call from an event loop: a connection, and a share of the worker's."""
_OWN_DESCRIPTORS = 128
_LEAST_CALLS = 64


class Capacity(NamedTuple):
    """Maximum numbers of concurrent calls. `reason` explains the number `calls`, as the end of a sentence."""

    calls: int
    """Maximum number of calls from event loops. Such calls share workers."""
    reason: str
    workers: int
    """Maximum number of workers, and of calls on threads: each of them needs its own worker."""


def find_capacity(isolation: Isolation) -> Capacity:
    """Return the capacity of this machine for calls, at least 64."""
    if isolation is Isolation.IN_PROCESS:
        count = POOL["total_component_instances"]
        reason = f"the engine's pool has {count} instances, half of them for tools that tools call"
        return Capacity(count // 2, reason, count // 2)
    import resource

    memory, (soft, _) = _get_memory_bytes() // _MEMORY_PART, resource.getrlimit(resource.RLIMIT_NOFILE)
    free = memory if soft == resource.RLIM_INFINITY else soft - _OWN_DESCRIPTORS
    by_memory, by_files = memory // _CALL_BYTES, int(free / _CALL_DESCRIPTORS)
    if by_files < by_memory:
        reason = f"the limit of {soft:,} open files suffices for {by_files:,} calls ({_CALL_DESCRIPTORS} each)"
    else:
        reason = (
            f"{memory // MIB:,} MiB, a quarter of memory, suffice for {by_memory:,} ({_CALL_BYTES // KIB} KiB each)"
        )
    workers = min(memory // WORKER_BYTES, free // _WORKER_DESCRIPTORS)
    return Capacity(max(_LEAST_CALLS, min(by_memory, by_files)), reason, max(_LEAST_CALLS, workers))


def _get_memory_bytes() -> int:
    """Return the memory of the machine, or of the container if it has less."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup 2 and 1
        with suppress(OSError, ValueError):  # "max" if there is no limit
            found = min(found, int(Path("/sys/fs/cgroup", name).read_text()))
    return found


class OptLevel(StrEnum):
    """Cranelift's optimisation level."""

    NONE = "none"
    SPEED = "speed"
    SPEED_AND_SIZE = "speed_and_size"


class Allocator(StrEnum):
    """The engine's strategy for allocating instances."""

    POOLING = "pooling"
    ON_DEMAND = "on-demand"


class EngineConfig(NamedTuple):
    """Settings that determine the machine code. A cached artifact fits only an engine with the same settings."""

    optimization_level: OptLevel = OptLevel.SPEED
    allocator: Allocator = Allocator.POOLING
    consume_fuel: bool = True

    @property
    def key(self) -> str:
        """The settings as text, used in cache keys."""
        features = ",".join(sorted(FEATURES_OFF))
        pool = ",".join(f"{k}={v}" for k, v in sorted(POOL.items())) if self.allocator == Allocator.POOLING else ""
        return (
            f"{self.optimization_level}|{self.allocator}|{self.consume_fuel}|{MAX_WASM_STACK_BYTES}|{features}|{pool}"
        )


def best_allocator() -> Allocator:
    """Return the pooling allocator, or the on-demand allocator if RLIMIT_AS limits the address space.

    With such a limit, a pooling engine would abort the process.
    """
    try:
        import resource
    except ImportError:  # no POSIX limits on this platform
        return Allocator.POOLING
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return Allocator.POOLING if soft == resource.RLIM_INFINITY else Allocator.ON_DEMAND


def fits_the_pool(limits: ResourceLimits) -> bool:
    """Return whether the pooling allocator can run a component with these limits."""
    return limits.memory_bytes <= POOL_MEMORY_BYTES and limits.table_elements <= POOL_TABLE_ELEMENTS
