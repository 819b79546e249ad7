"""The host's handle for a template: the process from which a component's workers are forked."""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.component import ComponentType
from wasmrt.sandbox.guest.settings import EngineConfig
from wasmrt.sandbox.isolation.pool.control import Control, GoneError, Turns, run_unbroken
from wasmrt.sandbox.isolation.pool.handle import Worker, make_crash_error
from wasmrt.sandbox.isolation.pool.launcher import Zygote
from wasmrt.sandbox.isolation.pool.memory import memory_file, socket_pair
from wasmrt.sandbox.isolation.wire import DESCRIPTION_BOUNDS, Frame, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.calls import read_error
from wasmrt.sandbox.isolation.wire.types import read_type

LOAD_SECONDS = 60.0
"""Time for a template to map and link its code, or to answer; the largest known guest takes 0.1 s."""


class ProgramKey(NamedTuple):
    """The settings of a template."""

    name: str
    digest: str
    limits: ResourceLimits
    engine: EngineConfig
    required: bool
    """True if every layer is required."""

    def describe_engine(self) -> dict[str, object]:
        """Return the engine's settings as fields of a frame's head."""
        level, allocator, metered = self.engine
        return {"level": str(level), "allocator": str(allocator), "metered": metered}


class Template:
    """One template process and its zygote. Threads may share it; each waits at most until its call's deadline."""

    world: str
    """The interface through which the component is called. Set by `load`."""

    def __init__(self, zygote: Zygote, key: ProgramKey, artifact: int, data: bytes) -> None:
        self._zygote = zygote
        self._key = key
        self._artifact = artifact
        self._data = data
        self._lock = Turns()
        self._control: Control | None = None
        self._pid = 0

    def load(self, lifetime: Lifetime) -> None:
        """Wait until the component is loaded. If the lifetime ends first, loading continues, and another call may wait.

        Raises:
            ComponentError, MemoryLimitError: the component cannot run here.
            WorkerCrashedError: the process crashed, or took too long.
            InternalError: no process can be started.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended.
        """
        with self._lock.hold(lifetime):
            try:
                if self._control is None:
                    run_unbroken(lambda: self._start(lifetime))
                frame = self._loaded().greeting(lifetime)
                if frame.kind == Kind.REFUSED:
                    raise read_error(frame.fields())
                self.world = frame.fields().name("world", 1000)
            except (GoneError, ProtocolError) as error:
                raise make_crash_error(self.close(lifetime)) from error

    def _start(self, lifetime: Lifetime) -> None:
        """Fork the process, after its zygote has started."""
        ours, theirs = socket_pair()
        control = Control(ours, Kind.READY, LOAD_SECONDS)
        head = {
            **self._key.describe_engine(),
            "limits": asdict(self._key.limits),
            "name": self._key.name,
            "required": self._key.required,
        }
        try:
            with theirs, memory_file(self._data) as source:
                self._pid = self._zygote.fork(Kind.LOAD, head, [theirs.fileno(), self._artifact, source], lifetime)
        except BaseException:
            control.close()
            raise
        self._data = b""
        self._control = control

    def fork(self, lifetime: Lifetime) -> Worker:
        """Fork a worker.

        Raises:
            GoneError: the template has ended.
            InternalError: no process can be started.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the lifetime ended.
        """
        ours, theirs = socket_pair()
        with theirs:
            worker = Worker(ours, 0)  # first: the socket must request the sender's PID before the worker sends anything
            try:
                worker.pid = run_unbroken(lambda: self._fork_number(theirs.fileno(), lifetime))
            except BaseException:
                worker.kill()
                raise
        return worker

    def _fork_number(self, end: int, lifetime: Lifetime) -> int:
        with self._lock.hold(lifetime):
            return self._loaded().number(Kind.FORK, {}, [end], Kind.SPAWNED, "pid", lifetime)

    def status(self, pid: int, lifetime: Lifetime) -> int:
        """Wait for a worker that was ended. Return its `waitpid` status, or 0 if the status is not known in time."""
        return run_unbroken(lambda: self._status(pid, lifetime)) if pid else 0

    def _status(self, pid: int, lifetime: Lifetime) -> int:
        asked = False
        try:
            with self._lock.hold(lifetime):
                asked = True
                return self._loaded().status(pid, lifetime)
        except (GoneError, ToolError):
            if not asked:
                self.leave(pid)
            return 0

    def leave(self, pid: int) -> None:
        """Record that the next request must wait for a worker that was ended."""
        if self._control is not None:
            self._control.leave(pid)

    def type(self, lifetime: Lifetime) -> ComponentType:
        """Return the component's imports and exports.

        Raises:
            InternalError: the template does not return them.
        """

        def ask() -> Frame:
            with self._lock.hold(lifetime):
                return self._loaded().ask(Kind.DESCRIBE, {}, (), Kind.DESCRIBED, lifetime)

        frame = run_unbroken(ask)
        try:
            return read_type(frame.fields(DESCRIPTION_BOUNDS))
        except ProtocolError as error:
            raise GoneError("the template process did not send the types of its component") from error

    def close(self, lifetime: Lifetime) -> int:
        """End the template, its workers and its zygote; return the template's status, or 0 if it is not known."""
        status = 0
        if self._control is not None:
            self._control.close()
            status = self._zygote.end(self._pid, lifetime)
        self._zygote.close()
        return status

    def _loaded(self) -> Control:
        if self._control is None:
            raise GoneError("the template process has not been started")
        return self._control
