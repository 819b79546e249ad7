"""Compile components, with a cache in memory and a cache on disk.

If several threads request the same component at once, it is compiled only once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from wasmrt.core.errors import InvalidComponentError
from wasmrt.sandbox.guest.artifacts import DiskCache, cache_key
from wasmrt.sandbox.guest.engine import VERSION, Component, Engine, shared_engine
from wasmrt.sandbox.guest.settings import Allocator, EngineConfig

MEMORY_ENTRIES = 256
MAX_COMPILES = 2


class Compiler:
    """Compiles components, or returns them from a cache.

    A component that is too large for the pooling allocator is compiled for a second engine, which allocates on demand.
    At most `max_compiles` compilations run at once; a request for a cached component does not wait for them.
    """

    def __init__(
        self, config: EngineConfig, *, keep: bool, disk: DiskCache | None, max_compiles: int = MAX_COMPILES
    ) -> None:
        self._config = config
        self._compiling = threading.BoundedSemaphore(max_compiles)
        self._keep = keep
        self._disk = disk
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str], Component] = OrderedDict()
        self._flights: dict[tuple[str, str], _Flight] = {}
        self._engines: dict[Allocator, Engine] = {}
        self.closed = False

    def compile(self, data: bytes, digest: str, *, pooled: bool = True) -> Component:
        """Return the compiled form of the component `data`, whose BLAKE3 digest is `digest`.

        Raises:
            ComponentTooLargeError: the component has more functions, instances or other parts than allowed.
            InvalidComponentError: the engine rejects the bytes.
        """
        if not pooled or self._config.allocator == Allocator.ON_DEMAND:
            return self._once(data, digest, Allocator.ON_DEMAND)
        try:
            return self._once(data, digest, Allocator.POOLING)
        except InvalidComponentError:
            # The component is either invalid or over the pool's limits. The other engine finds out which.
            return self._once(data, digest, Allocator.ON_DEMAND)

    def close(self) -> None:
        """Drop all components and release the engines. An engine's ticker ends when its last user releases it."""
        with self._lock:
            self.closed = True
            self._kept.clear()
            engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.remove_user()

    def _once(self, data: bytes, digest: str, allocator: Allocator) -> Component:
        key = (digest, str(allocator))
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
            flight = self._flights.get(key)
            mine = flight is None
            if flight is None:
                flight = self._flights[key] = _Flight()
        if not mine:
            flight.done.wait()
            return flight.result()
        try:
            flight.component = self._compile(data, digest, allocator)
        except BaseException as error:
            flight.error = error
        finally:
            with self._lock:
                del self._flights[key]
                if flight.component is not None and self._keep and not self.closed:
                    self._kept[key] = flight.component
                    while len(self._kept) > MEMORY_ENTRIES:
                        self._kept.popitem(last=False)
            flight.done.set()
        return flight.result()

    def _compile(self, data: bytes, digest: str, allocator: Allocator) -> Component:
        engine = self._engine(allocator)
        if self._disk is None:
            return self._compile_uncached(engine, data)
        key = cache_key(digest, VERSION, engine.config)
        artifact = self._disk.load(key)
        if artifact is not None:
            try:
                return engine.deserialize(artifact)
            except InvalidComponentError:
                pass  # the artifact is authentic, but a different build of the engine made it, so compile again
        component = self._compile_uncached(engine, data)
        self._disk.store(key, component.serialize())
        return component

    def _compile_uncached(self, engine: Engine, data: bytes) -> Component:
        with self._compiling:
            return engine.compile(data)

    def _engine(self, allocator: Allocator) -> Engine:
        with self._lock:
            engine = self._engines.get(allocator)
            if engine is None:
                engine = shared_engine(self._config._replace(allocator=allocator))
                engine.add_user()
                self._engines[allocator] = engine
            return engine


class _Flight:
    __slots__ = ("component", "done", "error")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.component: Component | None = None
        self.error: BaseException | None = None

    def result(self) -> Component:
        if self.component is None:
            assert self.error is not None
            raise self.error
        return self.component
