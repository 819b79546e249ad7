"""Guests in their host's own process: the small plain path, where a bug of the engine reaches all that the host has."""

from __future__ import annotations

from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.guest.artifacts import DiskCache
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.guest.settings import EngineConfig, best_allocator, fits_the_pool


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
