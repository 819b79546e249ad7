"""Link and describe a component, and run each call of its tools in a fresh store."""

from __future__ import annotations

import time
from dataclasses import replace

from wasmrt.core.errors import (
    DeadlineExceededError,
    InstantiationError,
    InternalError,
    MemoryLimitError,
    ToolError,
    WasmrtError,
)
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.component import ComponentType, ToolSpec, printable_line
from wasmrt.sandbox.guest import worlds
from wasmrt.sandbox.guest.artifacts import DiskCache
from wasmrt.sandbox.guest.call import GuestBudgets, GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import Component, EngineFault, HostInterface, Linker, Sandbox, StoreLimits
from wasmrt.sandbox.guest.outcome import end_cause
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
    """A component whose imports are bound to the host. Call `describe` or `adopt` before `run`.

    Raises:
        UnknownImportError: the component imports something that the host does not offer.
        UnknownWorldError: none of the component's exports can be run.
        InvalidComponentError: the component exports a known interface with different types.
    """

    checks_params = False

    def __init__(self, component: Component, data: bytes, limits: ResourceLimits, *, metered: bool) -> None:
        self.limits = limits
        self._linker = Linker(component, _list_interfaces(component.type))
        self._fiber_linker: Linker | None = None
        self._world = worlds.detect(self._linker, data)
        self._metered = metered

    def describe(self, name: str) -> Description:
        """Start the component once, without any grant, and ask it to describe its tools.

        Raises:
            InstantiationError: the component cannot be started within its limits.
            MemoryLimitError: the component needs more memory to start than its limits allow.
        """
        description = self._describe(name)
        self.adopt(description)
        return description

    def adopt(self, description: Description) -> None:
        """Use a description that an earlier `describe` of the same component returned."""
        self.description = description
        self._store_limits = self._store(self.limits, description.memories)

    def close(self) -> None:
        """Do nothing: there is no state between calls that would have to be released."""

    @property
    def world(self) -> str:
        """The interface through which the component is called."""
        return self._world.name

    @property
    def type(self) -> ComponentType:
        """The component's imports and exports, as reported by the engine."""
        return self._linker.component.type

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a fresh store and return its JSON text; `user` is not needed here.

        If the engine's pool has no room for another guest, wait until a guest has ended.

        Raises:
            ToolError: the guest failed, trapped or used up a budget, or had no room until the deadline.
            BaseException: the call's first failure, which can be any exception of a host function.
        """
        engine, began = self._linker.component.engine, time.monotonic()
        while True:
            ended = engine.ended
            try:
                return self._run(call, tool, params, context)
            except _NoRoomError as error:
                if call.is_shared or not engine.wait_for_room(ended, call.lifetime):
                    raise end_cause(error.fault, call) from error
            reason = call.lifetime.interruption()
            if reason is not None:
                raise _make_late_error(call.lifetime, began) if isinstance(reason, DeadlineExceededError) else reason

    def _run(self, call: GuestCall, tool: str, params: str, context: str | None) -> str:
        sandbox = Sandbox(self._get_fiber_linker() if call.is_shared else self._linker, self._store_limits, call)
        try:
            try:
                sandbox.instantiate()
            except EngineFault as error:
                # The component has started before with these limits, so the pool has no room. If this start already
                # called the host, the component is not started again.
                if error.code is None and call.failure is None and not call.host_calls:
                    raise _NoRoomError(error) from error
                raise
            text = self._world.run(sandbox, call, self.description.specs[tool], params, context)
            call.finish()
            return text
        except BaseException as error:
            call.fuel_used = sandbox.fuel_used
            cause = end_cause(error, call)
            if cause is error:
                raise
            raise cause from error
        finally:
            try:
                sandbox.finish()
            finally:
                call.fuel_used = sandbox.fuel_used
                sandbox.drop()
                sandbox.release_signals()  # last, because a signal's handler may raise

    def _get_fiber_linker(self) -> Linker:
        if self._fiber_linker is None:
            component = self._linker.component
            self._fiber_linker = Linker(component, _list_interfaces(component.type), fibers=True)
        return self._fiber_linker

    def _describe(self, name: str) -> Description:
        small = replace(
            self.limits,
            fuel=DESCRIBE_FUEL,  # a separate budget, so that tools with little fuel per call can be described too
            timeout_seconds=min(self.limits.timeout_seconds, DESCRIBE_SECONDS),
        )
        memories = 0
        while True:
            memories += 1
            # No grant: a component that is being described has no permissions.
            call = GuestCall(Lifetime(small.timeout_seconds), small, NoServices(), SystemClock())
            sandbox = Sandbox(self._linker, self._store(small, memories), call)
            try:
                try:
                    sandbox.instantiate()
                except EngineFault as error:
                    if error.code is None and call.failure is None and memories < POOL_MEMORIES_PER_COMPONENT:
                        continue  # the start was not a trap but exceeded a store limit, possibly the number of memories
                    raise self._not_instantiable(error, small, call) from error
                specs = {spec.name: spec for spec in self._ask(name, sandbox, call)}
                return Description(specs, memories, sandbox.fuel_used)
            finally:
                sandbox.close()

    def _ask(self, name: str, sandbox: Sandbox, budgets: GuestBudgets) -> list[ToolSpec]:
        try:
            return self._world.describe(sandbox, name)
        except (EngineFault, WasmrtError) as error:
            # A tool that cannot describe itself can still be called.
            budgets.fuel_used = sandbox.fuel_used
            cause = end_cause(error, budgets)
            if not isinstance(cause, Exception):
                raise cause from error  # an interrupt is not the tool's fault
            text = cause.message if isinstance(cause, WasmrtError) else "a host function failed"
            return [ToolSpec(name, problems=(f"describing it failed: {printable_line(text)}",))]

    def _store(self, limits: ResourceLimits, memories: int, *, allowed: int | None = None) -> StoreLimits:
        # The budget is for all memories together, but the engine limits each one, so each memory gets an equal share.
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
            cause = end_cause(error, budgets)
            if isinstance(cause, ToolError):
                return InstantiationError(f"the component cannot be started: {cause.message}", hint=cause.hint)
            if isinstance(cause, WasmrtError) or not isinstance(cause, Exception):
                return cause
            # SECURITY: the text of an unexpected exception may contain secrets, so the message does not include it.
            error.__cause__ = cause
            return InternalError("a host function failed when the component was started", hint="please report it")
        needed = self._measure_memory(limits)
        if needed is not None:
            return MemoryLimitError(
                f"the component needs about {needed // MIB} MiB of memory to start, over its limit of "
                f"{limits.memory_bytes // MIB} MiB",
                limit=limits.memory_bytes, used=None, setting="limits.memory_bytes",
            )  # fmt: skip
        return InstantiationError(
            "the component needs more instances, tables or table elements than its limits allow",
            hint="raise limits.table_elements or limits.instances for this tool",
        )

    def _measure_memory(self, limits: ResourceLimits) -> int | None:
        """Double the memory limit until the component starts, and return that limit, or None if it never starts.

        This is necessary because the engine's error does not contain the amount of memory that the component needs.
        """
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
                        return None  # the start function ran and failed, so the initial memory was large enough
                    continue
                return budget
        return None


class _NoRoomError(Exception):
    """The engine could not instantiate a component that it has instantiated before: its pool has no room."""

    def __init__(self, fault: EngineFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _make_late_error(lifetime: Lifetime, began: float) -> DeadlineExceededError:
    waited = time.monotonic() - began
    return DeadlineExceededError(
        f"the call waited {waited:.3g} s for a free instance in the engine's pool, "
        "and its deadline passed before it could start",
        limit=round(lifetime.deadline - lifetime.started, 6), used=waited, setting="max_concurrent_calls",
        hint="make fewer calls at once in this process, or run guests in workers",
    )  # fmt: skip


def _list_interfaces(component: ComponentType) -> tuple[HostInterface, ...]:
    """Return the interfaces that a guest may import. The functions send requests, which the host checks."""
    offered = worlds.interfaces()
    if any(wanted.name.startswith("wasi:") for wanted in component.imports):
        # Importing WASI takes a tenth of a short program's start time, and most tools use none of its 108 functions.
        from wasmrt.sandbox.guest import wasi

        offered += wasi.interfaces()
    return offered


class InProcessHome:
    """Compiles and runs guests in this process."""

    def __init__(self, engine: EngineConfig, *, keep: bool, disk: DiskCache | None, max_compiles: int) -> None:
        engine = engine._replace(allocator=best_allocator())
        self._metered = engine.consume_fuel
        self._compiler = Compiler(engine, keep=keep, disk=disk, max_compiles=max_compiles)

    def load(self, name: str, data: bytes, digest: str, limits: ResourceLimits) -> LinkedComponent:
        """Prepare the component `data` for its calls: compile it or load it from the cache, link it and describe it.

        `digest` is the BLAKE3 digest of `data`.

        Raises:
            ComponentError, MemoryLimitError: for the reasons that `GuestHome.load` lists.
        """
        compiled = self._compiler.compile(data, digest, pooled=fits_the_pool(limits))
        linked = LinkedComponent(compiled, data, limits, metered=self._metered)
        linked.describe(name)
        return linked

    def close(self) -> None:
        """Release the compiled code and the engines."""
        self._compiler.close()
