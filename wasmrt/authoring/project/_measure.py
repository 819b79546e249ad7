"""Measure the smallest limits with which a component starts and describes itself.

Calls need larger limits. The engine does not report how much was used, so each limit is found by a binary search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.core.errors import InstantiationError, MemoryLimitError
from wasmrt.core.limits import KIB, MIB, ResourceLimits
from wasmrt.runtime.runtime import WasmToolRuntime

_PAGE = 64 * KIB
_MOST_MEMORY = 1024 * MIB
_MOST_TABLE_ELEMENTS = 1_280_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The resources needed to start and describe a component. The memory is a multiple of a page, which has 64 KiB."""

    memory_bytes: int
    instances: int
    table_elements: int
    fuel: int

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure(runtime: WasmToolRuntime, name: str, component: ComponentBytes) -> Measured:
    """Start a component repeatedly without a grant, and return the smallest limits that it needs.

    Raises:
        ComponentError, MemoryLimitError: the component does not start even with the largest limits.
    """
    widest = find_starting_limits(runtime, name, component)
    whole = runtime.prepare(name, component, limits=widest)

    def starts(limits: ResourceLimits) -> bool:
        try:
            return runtime.prepare(name, component, limits=limits).problems == whole.problems
        except (InstantiationError, MemoryLimitError):
            return False

    def smallest(largest: int, with_limit: Callable[[int], ResourceLimits]) -> int:
        low, high = 0, largest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if starts(with_limit(middle)) else (middle, high)
        return high

    try:
        return Measured(
            memory_bytes=_PAGE
            * smallest(widest.memory_bytes // _PAGE, lambda pages: replace(widest, memory_bytes=pages * _PAGE)),
            instances=smallest(widest.instances, lambda count: replace(widest, instances=count)),
            table_elements=smallest(widest.table_elements, lambda count: replace(widest, table_elements=count)),
            fuel=whole.describe_fuel,
        )
    finally:
        runtime.forget(name)


def find_starting_limits(runtime: WasmToolRuntime, name: str, component: ComponentBytes) -> ResourceLimits:
    """Return the default limits, or larger ones if the component does not start with the default limits.

    Raises:
        ComponentError, MemoryLimitError: the component does not start even with the largest limits.
    """
    limits = ResourceLimits()
    while True:
        try:
            runtime.prepare(name, component, limits=limits)
        except MemoryLimitError:
            if limits.memory_bytes >= _MOST_MEMORY:
                raise
            limits = replace(limits, memory_bytes=limits.memory_bytes * 2)
        except InstantiationError:
            if limits.table_elements >= _MOST_TABLE_ELEMENTS:
                raise  # larger limits do not help, for example if the start function traps
            limits = replace(limits, table_elements=limits.table_elements * 4, instances=limits.instances * 2)
        else:
            return limits
        finally:
            runtime.forget(name)
