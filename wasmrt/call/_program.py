"""One component made ready: linked, measured, and asked once what it offers."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from wasmrt.call._outcome import from_exception
from wasmrt.call._spares import Shelf
from wasmrt.capabilities import Capabilities
from wasmrt.context import CallContext, Services
from wasmrt.errors import InstantiationError, MemoryLimitError, ToolError, WasmrtError
from wasmrt.guest.engine import (
    POOL_MEMORIES_PER_COMPONENT,
    POOL_MEMORY_BYTES,
    POOL_TABLE_ELEMENTS,
    POOL_TABLES_PER_COMPONENT,
    Component,
    EngineFault,
    HostInterface,
    Linker,
    Sandbox,
    StoreLimits,
)
from wasmrt.guest.worlds._detect import World, detect
from wasmrt.guest.worlds._spec import ToolSpec
from wasmrt.leaks import LeakDetector
from wasmrt.limits import MIB, ResourceLimits
from wasmrt.schema import Validator

DESCRIBE_FUEL = 100_000_000
DESCRIBE_SECONDS = 10.0


@dataclass(slots=True, eq=False, repr=False)
class Program:
    """What calls of one component share."""

    name: str
    digest: str
    linker: Linker
    world: World
    limits: ResourceLimits
    store_limits: StoreLimits
    specs: dict[str, ToolSpec]
    describe_fuel: int
    apart: bool
    """Whether calls run on a thread of their own, because the engine may take long over the guest's values."""
    _validators: dict[str, Validator] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    shelf: Shelf = field(default_factory=Shelf)

    def validator(self, tool: str) -> Validator:
        """The compiled schema of a tool, built when first needed."""
        validator = self._validators.get(tool)
        if validator is None:
            with self._lock:
                validator = self._validators.setdefault(tool, Validator(self.specs[tool].schema))
        return validator


def make_program(
    name: str,
    digest: str,
    component: Component,
    data: bytes,
    interfaces: tuple[HostInterface, ...],
    limits: ResourceLimits,
    *,
    metered: bool,
) -> Program:
    """Link a component, find how many memories it needs, and read its description and schema.

    Raises:
        UnknownImportError, UnknownWorldError, InvalidComponentError: it cannot run here.
        InstantiationError: it cannot be instantiated within `limits`.
        MemoryLimitError: it needs more memory than `limits` give.
    """
    linker = Linker(component, interfaces)
    world = detect(linker, data)
    small = replace(
        limits,
        fuel=DESCRIBE_FUEL,  # its own: a tool with a small budget a call can still be asked what it is
        timeout_seconds=min(limits.timeout_seconds, DESCRIBE_SECONDS),
    )
    memories, specs, fuel = _describe(name, linker, world, small, metered)
    store_limits = _store_limits(limits, memories, limits.fuel if metered else None)
    return Program(
        name, digest, linker, world, limits, store_limits, specs, fuel, linker.converts_slowly or world.converts_slowly
    )


def fits_the_pool(limits: ResourceLimits) -> bool:
    """Whether a tool with these limits can live in the pooling allocator."""
    return limits.memory_bytes <= POOL_MEMORY_BYTES and limits.table_elements <= POOL_TABLE_ELEMENTS


def _store_limits(
    limits: ResourceLimits, memories: int, fuel: int | None, *, allowed: int | None = None
) -> StoreLimits:
    # The engine counts per memory; the budget is the store's, so each memory gets its share.
    return StoreLimits(
        memory_bytes=limits.memory_bytes // memories,
        memories=allowed or memories,
        table_elements=limits.table_elements,
        tables=POOL_TABLES_PER_COMPONENT,
        instances=limits.instances,
        fuel=fuel,
    )


def _describe(
    name: str, linker: Linker, world: World, limits: ResourceLimits, metered: bool
) -> tuple[int, dict[str, ToolSpec], int]:
    for memories in range(1, POOL_MEMORIES_PER_COMPONENT + 1):
        context = _probe_context(name, limits)
        sandbox = Sandbox(linker, _store_limits(limits, memories, limits.fuel if metered else None), context)
        try:
            try:
                sandbox.instantiate()
            except EngineFault as error:
                if error.code is None and context.failure is None and memories < POOL_MEMORIES_PER_COMPONENT:
                    continue  # not a trap: a limit of the store, perhaps of its memories
                raise _not_instantiable(error, linker, limits, context, sandbox.fuel_used) from error
            specs = {spec.name: spec for spec in _ask(name, world, sandbox, context)}
            return memories, specs, sandbox.fuel_used
        finally:
            sandbox.close()
    raise AssertionError("the last round returns or raises")


def _ask(name: str, world: World, sandbox: Sandbox, context: CallContext) -> list[ToolSpec]:
    try:
        return world.describe(sandbox, name)
    except (EngineFault, WasmrtError) as error:
        # A tool that cannot describe itself can still be called by whoever knows it.
        ended = from_exception(error, context, sandbox.fuel_used)
        text = ended.message if isinstance(ended, WasmrtError) else str(ended)
        return [ToolSpec(name, problems=(f"it could not be asked what it does: {text}",))]


def _probe_context(name: str, limits: ResourceLimits, deadline: float | None = None) -> CallContext:
    # No service and no grant: a component that is being looked at has no power whatsoever.
    return CallContext(
        call_id="prepare",
        tool=name,
        user="",
        limits=limits,
        grant=Capabilities.none(),
        services=_NO_SERVICES,
        deadline=deadline,
    )


_NO_SERVICES = Services(LeakDetector())


def _not_instantiable(
    error: EngineFault, linker: Linker, limits: ResourceLimits, context: CallContext, fuel_used: int
) -> BaseException:
    if error.code is not None or context.failure is not None:
        ended = from_exception(error, context, fuel_used)
        if isinstance(ended, ToolError):
            return InstantiationError(f"the component cannot be started: {ended.message}", hint=ended.hint)
        return ended
    needed = _memory_needed(linker, limits)
    if needed is not None:
        return MemoryLimitError(
            f"the component needs about {needed // MIB} MiB of memory to start, over its limit of "
            f"{limits.memory_bytes // MIB} MiB",
            limit=limits.memory_bytes, used=None, setting="limits.memory_bytes",
        )  # fmt: skip
    return InstantiationError(
        "the component needs more instances, tables or table elements than its limits give",
        hint="raise limits.table_elements or limits.instances for this tool",
    )


def _memory_needed(linker: Linker, limits: ResourceLimits) -> int | None:
    """The smallest power of two with which it starts; the engine's error says in words only which limit it was."""
    budget = limits.memory_bytes
    deadline = time.monotonic() + min(limits.timeout_seconds, DESCRIBE_SECONDS)
    while budget < POOL_MEMORY_BYTES * POOL_MEMORIES_PER_COMPONENT:
        budget *= 2
        wider = replace(limits, memory_bytes=budget)
        with Sandbox(
            linker,
            _store_limits(wider, 1, DESCRIBE_FUEL, allowed=POOL_MEMORIES_PER_COMPONENT),
            _probe_context("probe", wider, deadline),
        ) as sandbox:
            try:
                sandbox.instantiate()
            except EngineFault as error:
                if error.code is not None or time.monotonic() >= deadline:
                    return None  # its start function ran and broke: not the first memory's size
                continue
            return budget
    return None
