"""The smallest limits under which a component starts and describes itself, found by trying.

A call needs more: what it works on comes on top. The engine does not tell how much it gave out, so each bound is
halved until the component no longer starts.
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
    """Resources that starting and describing took."""

    memory_bytes: int
    """In whole pages of 64 KiB."""
    instances: int
    table_elements: int
    fuel: int

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


def measure(runtime: WasmToolRuntime, name: str, component: ComponentBytes) -> Measured:
    """Start a component again and again, with nothing granted, and return the least it needs.

    Raises:
        ComponentError, MemoryLimitError: it does not start under the widest limits either.
    """
    widest = limits_that_start(runtime, name, component)
    whole = runtime.prepare(name, component, limits=widest)

    def starts(limits: ResourceLimits) -> bool:
        try:
            return runtime.prepare(name, component, limits=limits).problems == whole.problems
        except (InstantiationError, MemoryLimitError):
            return False

    def least(most: int, given: Callable[[int], ResourceLimits]) -> int:
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if starts(given(middle)) else (middle, high)
        return high

    try:
        return Measured(
            memory_bytes=_PAGE
            * least(widest.memory_bytes // _PAGE, lambda pages: replace(widest, memory_bytes=pages * _PAGE)),
            instances=least(widest.instances, lambda count: replace(widest, instances=count)),
            table_elements=least(widest.table_elements, lambda count: replace(widest, table_elements=count)),
            fuel=whole.describe_fuel,
        )
    finally:
        runtime.forget(name)


def limits_that_start(runtime: WasmToolRuntime, name: str, component: ComponentBytes) -> ResourceLimits:
    """Return the default limits, or wider ones where a component does not start under those.

    Raises:
        ComponentError, MemoryLimitError: it does not start under the widest limits either.
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
                raise  # it fails by itself: a start function that traps is no question of limits
            limits = replace(limits, table_elements=limits.table_elements * 4, instances=limits.instances * 2)
        else:
            return limits
        finally:
            runtime.forget(name)
