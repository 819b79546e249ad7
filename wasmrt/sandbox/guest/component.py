"""One component made ready to run: linked, measured, asked once what it offers; then run in a fresh store a call."""

from __future__ import annotations

import time
from dataclasses import replace

from wasmrt.core.errors import InstantiationError, InternalError, MemoryLimitError, ToolError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.component import ComponentType, ToolSpec, printable_line
from wasmrt.sandbox.guest import worlds
from wasmrt.sandbox.guest.artifacts import DiskCache
from wasmrt.sandbox.guest.call import GuestBudgets, GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import Component, EngineFault, HostInterface, Linker, Sandbox, StoreLimits
from wasmrt.sandbox.guest.outcome import ended
from wasmrt.sandbox.guest.runner import Description
from wasmrt.sandbox.guest.services import NoServices
from wasmrt.sandbox.guest.settings import (
    POOL_MEMORIES_PER_COMPONENT,
    POOL_MEMORY_BYTES,
    POOL_TABLES_PER_COMPONENT,
    EngineConfig,
    best_allocator,
    fits_the_pool,
)

DESCRIBE_FUEL = 100_000_000
DESCRIBE_SECONDS = 10.0


class LinkedComponent:
    """A component with its imports bound to the host. `describe` or `adopt` makes it ready to run.

    Raises:
        UnknownImportError, UnknownWorldError, InvalidComponentError: it cannot run here.
    """

    checks_params = False

    def __init__(self, component: Component, data: bytes, limits: ResourceLimits, *, metered: bool) -> None:
        self.limits = limits
        self._linker = Linker(component, _interfaces(component.type))
        self._world = worlds.detect(self._linker, data)
        self._metered = metered

    def describe(self, name: str) -> Description:
        """Start the component once, without any power, and ask it what it is.

        Raises:
            InstantiationError: it cannot be instantiated within its limits.
            MemoryLimitError: it needs more memory than its limits give.
        """
        description = self._describe(name)
        self.adopt(description)
        return description

    def adopt(self, description: Description) -> None:
        """Take over what the same component has said before."""
        self.description = description
        self._store_limits = self._store(self.limits, description.memories)

    def close(self) -> None:
        """Nothing is kept for the next call."""

    @property
    def world(self) -> str:
        """The interface that the component is called through."""
        return self._world.name

    @property
    def type(self) -> ComponentType:
        """Imports and exports, in the engine's words."""
        return self._linker.component.type

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a fresh store and return its JSON text; no store knows its `user`.

        Raises:
            ToolError: the guest failed, trapped or used up a budget.
            BaseException: the call's first failure, whatever a host function raised.
        """
        sandbox = Sandbox(self._linker, self._store_limits, call)
        try:
            sandbox.instantiate()
            text = self._world.run(sandbox, call, self.description.specs[tool], params, context)
            call.finish()
            return text
        except BaseException as error:
            call.fuel_used = sandbox.fuel_used
            cause = ended(error, call)
            if cause is error:
                raise
            raise cause from error
        finally:
            try:
                sandbox.finish()
            finally:
                call.fuel_used = sandbox.fuel_used
                sandbox.drop()
                sandbox.release_signals()  # what a signal's handler raises comes after all is put away

    def _describe(self, name: str) -> Description:
        small = replace(
            self.limits,
            fuel=DESCRIBE_FUEL,  # its own: a tool with a small budget a call can still be asked what it is
            timeout_seconds=min(self.limits.timeout_seconds, DESCRIBE_SECONDS),
        )
        memories = 0
        while True:
            memories += 1
            call = _probe(small)
            sandbox = Sandbox(self._linker, self._store(small, memories), call)
            try:
                try:
                    sandbox.instantiate()
                except EngineFault as error:
                    if error.code is None and call.failure is None and memories < POOL_MEMORIES_PER_COMPONENT:
                        continue  # not a trap: a limit of the store, perhaps of its memories
                    raise self._not_instantiable(error, small, call) from error
                specs = {spec.name: spec for spec in self._ask(name, sandbox, call)}
                return Description(specs, memories, sandbox.fuel_used)
            finally:
                sandbox.close()

    def _ask(self, name: str, sandbox: Sandbox, budgets: GuestBudgets) -> list[ToolSpec]:
        try:
            return self._world.describe(sandbox, name)
        except (EngineFault, WasmrtError) as error:
            # A tool that cannot describe itself can still be called by whoever knows it.
            budgets.fuel_used = sandbox.fuel_used
            cause = ended(error, budgets)
            if not isinstance(cause, Exception):
                raise cause from error  # an interrupt is no problem of the tool's
            text = cause.message if isinstance(cause, WasmrtError) else "a host function broke"
            return [ToolSpec(name, problems=(f"describing it failed: {printable_line(text)}",))]

    def _store(self, limits: ResourceLimits, memories: int, *, allowed: int | None = None) -> StoreLimits:
        # The engine counts per memory; the budget is the store's, so each memory gets its share.
        return StoreLimits(
            memory_bytes=limits.memory_bytes // memories,
            memories=allowed or memories,
            table_elements=limits.table_elements,
            tables=POOL_TABLES_PER_COMPONENT,
            instances=limits.instances,
            fuel=limits.fuel if self._metered else None,
        )

    def _not_instantiable(self, error: EngineFault, limits: ResourceLimits, budgets: GuestBudgets) -> BaseException:
        if error.code is not None or budgets.failure is not None:
            cause = ended(error, budgets)
            if isinstance(cause, ToolError):
                return InstantiationError(f"the component cannot be started: {cause.message}", hint=cause.hint)
            if isinstance(cause, WasmrtError) or not isinstance(cause, Exception):
                return cause
            # SECURITY: the text of an exception that nobody foresaw may hold anything, so none of it is passed on.
            error.__cause__ = cause
            return InternalError("a host function broke when the component was started", hint="please report it")
        needed = self._memory_needed(limits)
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

    def _memory_needed(self, limits: ResourceLimits) -> int | None:
        """Find the smallest power of two with which it starts; the engine's error names the limit only in words."""
        budget = limits.memory_bytes
        lifetime = Lifetime(min(limits.timeout_seconds, DESCRIBE_SECONDS))
        while budget < POOL_MEMORY_BYTES * POOL_MEMORIES_PER_COMPONENT:
            budget *= 2
            wider = replace(limits, memory_bytes=budget, fuel=DESCRIBE_FUEL)
            store = self._store(wider, 1, allowed=POOL_MEMORIES_PER_COMPONENT)
            with Sandbox(self._linker, store, GuestCall(lifetime, wider, NoServices(), SystemClock())) as sandbox:
                try:
                    sandbox.instantiate()
                except EngineFault as error:
                    if error.code is not None or time.monotonic() >= lifetime.deadline:
                        return None  # its start function ran and broke: not the first memory's size
                    continue
                return budget
        return None


def _probe(limits: ResourceLimits) -> GuestCall:
    # No service and no grant: a component that is being looked at has no power whatsoever.
    return GuestCall(Lifetime(limits.timeout_seconds), limits, NoServices(), SystemClock())


def _interfaces(component: ComponentType) -> tuple[HostInterface, ...]:
    """Return all that a guest may import; each asks the host, which decides by the grant."""
    offered = worlds.interfaces()
    if any(wanted.name.startswith("wasi:") for wanted in component.imports):
        from wasmrt.sandbox.guest import (
            wasi,  # 108 functions that most tools do without: a tenth of a short program's start
        )

        offered += wasi.interfaces()
    return offered


class InProcessHome:
    """Compiles and runs guests in this process."""

    def __init__(self, engine: EngineConfig, *, keep: bool, disk: DiskCache | None, max_compiles: int) -> None:
        engine = engine._replace(allocator=best_allocator())
        self._metered = engine.consume_fuel
        self._compiler = Compiler(engine, keep=keep, disk=disk, max_compiles=max_compiles)

    def load(self, name: str, data: bytes, digest: str, limits: ResourceLimits) -> LinkedComponent:
        """Compile a component, or find it compiled, link it and ask it what it is; `digest` is of `data`.

        Raises:
            ComponentError, MemoryLimitError: as `GuestHome.load`.
        """
        compiled = self._compiler.compile(data, digest, pooled=fits_the_pool(limits))
        linked = LinkedComponent(compiled, data, limits, metered=self._metered)
        linked.describe(name)
        return linked

    def close(self) -> None:
        """Let go of compiled code and the engine's thread."""
        self._compiler.close()
