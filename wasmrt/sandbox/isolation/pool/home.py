"""Load guests into workers: compile in a worker, cache the authenticated code in the host, run in workers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from wasmrt.core.errors import (
    ComponentTooLargeError,
    DeadlineExceededError,
    InternalError,
    InvalidComponentError,
    RuntimeClosedError,
)
from wasmrt.core.lifetime import QUICK_SECONDS, Lifetime
from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.guest.artifacts import DiskCache, NotCachedError, cache_key
from wasmrt.sandbox.guest.settings import (
    Allocator,
    EngineConfig,
    Isolation,
    best_allocator,
    find_capacity,
    fits_the_pool,
)
from wasmrt.sandbox.isolation.pool.control import run_abandonable, unlimited_lifetime
from wasmrt.sandbox.isolation.pool.launcher import Zygote, Zygotes
from wasmrt.sandbox.isolation.pool.memory import memory_file, sealed_after, sealed_memory, socket_pair
from wasmrt.sandbox.isolation.pool.program import IdleWorkers, Program
from wasmrt.sandbox.isolation.pool.template import ProgramKey
from wasmrt.sandbox.isolation.wire import Channel, ClosedError, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.calls import read_error

MAX_PROGRAMS = 32
"""Maximum number of components that have processes (about 20 MiB each). A call of another component starts its own."""
KEPT_PROGRAMS = 256
COMPILE_SECONDS = 120.0
MAX_ARTIFACT_BYTES = 1024 * MIB


class WorkerHome:
    """Compiles and runs guests in confined processes."""

    def __init__(self, engine: EngineConfig, *, disk: DiskCache | None, max_compiles: int, required: bool) -> None:
        self._engine = engine
        self._disk = disk
        self._required = required
        self._zygotes = Zygotes()
        self._compiling = threading.BoundedSemaphore(max_compiles)
        self._idle_workers = IdleWorkers(find_capacity(Isolation.PROCESS).workers, MAX_PROGRAMS)
        self._lock = threading.Lock()
        self._kept: OrderedDict[ProgramKey, Program] = OrderedDict()
        self._closed = False

    def load(self, name: str, data: bytes, digest: str, limits: ResourceLimits) -> Program:
        """Compile a component in a worker, or load it from the cache, and describe it in another worker.

        Raises:
            ComponentError, MemoryLimitError: as `GuestHome.load`.
            WorkerCrashedError: a process crashed.
            InternalError: no process can be started.
        """
        key = ProgramKey(name, digest, limits, self._engine._replace(allocator=Allocator.POOLING), self._required)
        if fits_the_pool(limits) and best_allocator() == Allocator.POOLING:
            try:
                return self._load(key, data)
            except InvalidComponentError:
                pass  # the component is over the pool's limits, or invalid: the second attempt finds out
        return self._load(key._replace(engine=self._engine._replace(allocator=Allocator.ON_DEMAND)), data)

    def close(self) -> None:
        """End every worker, template and zygote."""
        with self._lock:
            self._closed = True
            self._kept.clear()
        for program in self._idle_workers.close():
            program.close()
        self._zygotes.close()

    def _load(self, key: ProgramKey, data: bytes) -> Program:
        with self._lock:
            if self._closed:
                raise RuntimeClosedError("the runtime is closed", hint="create a new WasmToolRuntime")
            known = self._kept.get(key)
            if known is not None:
                self._kept.move_to_end(key)
                return known
        # A signal handler that raises here would leak a permit, a lock or a process.
        return run_abandonable(lambda: self._made(key, data))

    def _made(self, key: ProgramKey, data: bytes) -> Program:
        zygote = self._zygotes.start()
        try:
            artifact = self._artifact(zygote, key, data)  # owned by the program from here on
            program = Program(key, artifact, self._zygotes, self._idle_workers, zygote=zygote, data=data)
        except BaseException:
            zygote.close()
            raise
        with self._lock:
            is_late = self._closed
            if not is_late:
                self._kept[key] = program
            while len(self._kept) > KEPT_PROGRAMS:
                self._kept.popitem(last=False)
        if is_late:  # the caller no longer waits
            program.close()
        return program

    def _artifact(self, zygote: Zygote, key: ProgramKey, data: bytes) -> int:
        """Return a sealed memfd with the compiled code."""
        if self._disk is None:
            return sealed_memory(self._compile(zygote, key, data))
        entry = cache_key(key.digest, zygote.version(unlimited_lifetime()), key.engine)
        with suppress(NotCachedError):
            return sealed_after(partial(self._disk.copy, entry))
        artifact = self._compile(zygote, key, data)
        self._disk.store(entry, artifact)
        return sealed_memory(artifact)

    def _compile(self, zygote: Zygote, key: ProgramKey, data: bytes) -> bytes | memoryview:
        """Compile the code in a separate process. The host stores the code without parsing it."""
        with self._compiling, _start_compiler(zygote, key, data) as answer:
            frame = answer.receive(MAX_ARTIFACT_BYTES)
            if frame.kind == Kind.REFUSED:
                raise read_error(frame.fields())
            if frame.kind != Kind.READY or not frame.tail:
                raise ProtocolError("expected code from the compile worker, got another frame")
            return frame.tail


def _get_bounds() -> str:
    from wasmrt.sandbox.isolation.confine import COMPILE_WORKER  # takes 10 ms, only needed for a failure

    limits = COMPILE_WORKER.limits
    return f"{(limits.data_bytes or 0) // MIB:,} MiB, {limits.cpu_seconds} s of the processor"


@contextmanager
def _start_compiler(zygote: Zygote, key: ProgramKey, data: bytes) -> Iterator[Channel]:
    """Start a compile worker, and end it after the block."""
    ours, theirs = socket_pair()
    with ours:
        lifetime = Lifetime(COMPILE_SECONDS)
        head: dict[str, object] = {**key.describe_engine(), "required": key.required}
        with theirs, memory_file(data) as source:
            pid = zygote.fork(Kind.COMPILE, head, [theirs.fileno(), source], unlimited_lifetime())
        channel = Channel(ours).patient(QUICK_SECONDS)
        channel.limit(lifetime)
        try:
            yield channel
        except DeadlineExceededError as error:
            raise ComponentTooLargeError(
                f"compiling the component took longer than {COMPILE_SECONDS:.0f} s",
                hint="try again when the machine is less busy, or make the component smaller",
            ) from error
        except ClosedError as error:
            raise ComponentTooLargeError(
                f"compiling the component exceeded its memory or time limit ({_get_bounds()}), or crashed the compiler",
                hint="build it smaller, with fewer nested instances, fewer locals or smaller functions",
            ) from error
        except ProtocolError as error:
            raise InternalError("the compile worker violated the protocol") from error
        finally:
            zygote.end(pid, unlimited_lifetime())
