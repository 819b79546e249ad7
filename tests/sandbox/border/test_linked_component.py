"""A linked component: its memories, its runs, and the usage of a run."""

from __future__ import annotations

import sys
import types

import pytest
import wasmtime
from blake3 import blake3
from wasmrt.testing.attacks import Body, tool

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.worlds import Failure, agent_tool
from wasmrt import ResourceLimits, ToolError
from wasmrt.core.errors import CancelledError, FuelExhaustedError, InstantiationError, MemoryLimitError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MIB
from wasmrt.sandbox.guest.clock import LogicalClock
from wasmrt.sandbox.guest.settings import (
    POOL_MEMORY_BYTES,
    POOL_TABLE_ELEMENTS,
    Allocator,
    best_allocator,
    fits_the_pool,
)

PAGES_PER_MIB = 16


def adder(*mib: int) -> bytes:
    """A component that adds, with a memory of each size."""
    memories = "".join(
        f"(core module $m{number} (memory {size * PAGES_PER_MIB})) (core instance (instantiate $m{number}))"
        for number, size in enumerate(mib)
    )
    return bytes(
        wasmtime.wat2wasm(f"""(component {memories}
  (core module $main (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
  (core instance $main (instantiate $main))
  (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $main "add"))))""")
    )


@pytest.mark.parametrize("memories", [(8,), (4, 4), (2, 2, 2)])
def test_memories_that_use_the_whole_limit_are_allowed(start: Start, memories: tuple[int, ...]) -> None:
    add = only_tool(start(), adder(*memories), limits=ResourceLimits(memory_bytes=sum(memories) * MIB))
    assert add.execute({"a": 40, "b": 2}).result == 42


@pytest.mark.parametrize(("needed", "told"), [(2, 2), (3, 4), (5, 8), (100, 128)])
def test_a_memory_over_the_limit_is_refused_with_the_needed_size(start: Start, needed: int, told: int) -> None:
    with pytest.raises(MemoryLimitError, match=f"about {told} MiB of memory to start, over its limit of 1 MiB"):
        start().prepare("add", adder(needed), limits=ResourceLimits(memory_bytes=MIB))


@pytest.mark.parametrize(
    ("over_memory", "over_table", "fits"), [(0, 0, True), (1, 0, False), (0, 1, False), (1, 1, False)]
)
def test_the_pool_accepts_components_within_its_limits(over_memory: int, over_table: int, fits: bool) -> None:
    limits = ResourceLimits(
        memory_bytes=POOL_MEMORY_BYTES + over_memory, table_elements=POOL_TABLE_ELEMENTS + over_table
    )
    assert fits_the_pool(limits) is fits


@pytest.mark.parametrize("posix", [True, False])
def test_limited_address_space_selects_on_demand_allocation(monkeypatch: pytest.MonkeyPatch, posix: bool) -> None:
    limits = types.SimpleNamespace(RLIMIT_AS=9, RLIM_INFINITY=-1, getrlimit=lambda which: (2**32, -1))
    monkeypatch.setitem(sys.modules, "resource", limits if posix else None)
    assert best_allocator() is (Allocator.ON_DEMAND if posix else Allocator.POOLING)
    if posix:
        limits.getrlimit = lambda which: (-1, -1)
        assert best_allocator() is Allocator.POOLING


def test_a_table_over_the_limit_is_not_reported_as_memory(start: Start) -> None:
    large = bytes(
        wasmtime.wat2wasm("""(component
      (core module $main (table 2000 funcref) (func (export "f")))
      (core instance $main (instantiate $main))
      (func (export "f") (canon lift (core func $main "f"))))""")
    )
    with pytest.raises(InstantiationError, match="instances, tables or table elements") as caught:
        start().prepare("large", large, limits=ResourceLimits(table_elements=1999))
    assert "limits.table_elements" in str(caught.value.hint)
    assert start().prepare("large", large, limits=ResourceLimits(table_elements=2000)).problems == ()


def test_wasi_clocks_are_linked_to_the_hosts_clock(start: Start) -> None:
    clock = bytes(
        wasmtime.wat2wasm("""(component
      (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock (export "now" (func (result u64)))))
      (core func $now (canon lower (func $clock "now")))
      (core module $main (import "" "now" (func $now (result i64)))
        (func (export "f") (result i64) (i64.rem_u (call $now) (i64.const 1000000))))
      (core instance $main (instantiate $main (with "" (instance (export "now" (func $now))))))
      (func (export "below-a-millisecond") (result u64) (canon lift (core func $main "f"))))""")
    )
    prepared = start().prepare("clock", clock)
    assert [wanted.name for wanted in prepared.type.imports] == ["wasi:clocks/monotonic-clock@0.2.0"]
    assert prepared.execute({}).result == 0


def test_fuel_is_counted_for_description_success_and_exhaustion(start: Start) -> None:
    runtime = start()
    says = runtime.prepare("says", agent_tool("", "{}"))
    assert says.describe_fuel > 0
    assert says.execute({}).usage.fuel > 0
    loop = bytes(wasmtime.wat2wasm(tool(Body(execute="(loop (br 0)) (unreachable)"))))
    with pytest.raises(FuelExhaustedError) as caught:
        runtime.prepare("loop", loop, limits=ResourceLimits(fuel=10_000)).execute({})
    assert caught.value.used is not None
    assert 9_000 < caught.value.used <= 10_000
    assert caught.value.usage is not None
    assert caught.value.usage.fuel == caught.value.used


def test_a_tool_failure_is_raised_unchanged(start: Start) -> None:
    with pytest.raises(ToolError) as caught:
        start().prepare("fails", agent_tool("@0.4.1", Failure("client", "broken", "it broke"))).execute({})
    seen: list[BaseException] = [caught.value]
    while (cause := seen[-1].__cause__) is not None:
        assert cause not in seen
        seen.append(cause)


def test_a_logical_clock_has_constant_values() -> None:
    clock = LogicalClock()
    assert [clock.now_ns(), clock.now_ns()] == [1_767_225_600_001_000_000, 1_767_225_600_002_000_000]
    assert clock.monotonic_ns() == 3_000_000
    assert [clock.random_bytes(8), clock.random_bytes(4)] == [
        blake3(b"0:1").digest(length=8),
        blake3(b"0:2").digest(length=4),
    ]
    assert LogicalClock(seed=7).random_bytes(4) == blake3(b"7:1").digest(length=4)


def test_a_logical_sleep_advances_time_and_ends_with_the_call() -> None:
    clock, lifetime = LogicalClock(start_ns=0), Lifetime(3600)
    clock.sleep(lifetime, 2.5)
    assert clock.now_ns() == 2_501_000_000
    lifetime.cancel()
    with pytest.raises(CancelledError):
        clock.sleep(lifetime, 1)
