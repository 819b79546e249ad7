"""A component in worker processes: the template that its workers are forked from, and those of them that wait."""

from __future__ import annotations

import os
import socket
import threading
import weakref
from contextlib import suppress
from dataclasses import asdict
from typing import NamedTuple

from wasmrt.component import ComponentType
from wasmrt.errors import InternalError, ToolError, WasmrtError, WorkerCrashedError
from wasmrt.guest.call import GuestCall
from wasmrt.guest.runner import Description
from wasmrt.guest.settings import Allocator
from wasmrt.isolation.pool.exchange import unbroken
from wasmrt.isolation.pool.handle import Worker, WorkerGoneError, crashed
from wasmrt.isolation.pool.launcher import Zygote
from wasmrt.isolation.pool.memory import memory_file
from wasmrt.isolation.wire import (
    MAX_DESCRIPTION_HEAD,
    Channel,
    ClosedError,
    Kind,
    ProtocolError,
    faults,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.isolation.wire.types import read_type
from wasmrt.lifetime import Lifetime
from wasmrt.limits import ResourceLimits

LOAD_SECONDS = 60.0
"""For a template to map its code and link it; the largest guest that was seen takes a tenth of a second."""
DESCRIBE_SECONDS = 15.0
MAX_CALLS = 10_000
"""Calls of one worker, after which another takes its place."""
_ANSWER_SECONDS = 5.0
_ENDED_WELL = frozenset({"GuestError", "GuestExitError", "InvalidParametersError"})


class ProgramKey(NamedTuple):
    """The settings that a template is made for."""

    name: str
    digest: str
    limits: ResourceLimits
    allocator: Allocator
    metered: bool
    required: bool
    """True where every layer has to stand."""


class Program:
    """A component that is ready to run in workers. Threads may share it.

    Raises:
        ComponentError, MemoryLimitError: it cannot run here; what a template or a worker said, in its words.
    """

    unbounded_lift = False
    checks_params = True

    def __init__(self, zygote: Zygote, key: ProgramKey, artifact: int, data: bytes, shelf: Shelf) -> None:
        self._zygote = zygote
        self._key = key
        self._artifact = artifact
        self._shelf = shelf
        self._lock = threading.Lock()
        self._template: _Template | None = None
        self._calls = 0
        self._type: ComponentType | None = None
        weakref.finalize(self, os.close, artifact)
        self.description = self._describe(data)

    @property
    def limits(self) -> ResourceLimits:
        """The limits of one call."""
        return self._key.limits

    @property
    def world(self) -> str:
        """The interface it is called through."""
        return self._world

    @property
    def type(self) -> ComponentType:
        """Imports and exports, in the engine's words."""
        if self._type is None:
            with self._lock:
                self._type = self._loaded().type()
        return self._type

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a worker of this component and user.

        Raises:
            WorkerCrashedError: the worker ended in the middle of the call, or broke the rules.
            ToolError: as `GuestComponent.run`.
        """
        with self._lock:
            self._calls += 1
        try:
            return self._run(call, tool, params, context, user)
        finally:
            with self._lock:
                self._calls -= 1

    def _run(self, call: GuestCall, tool: str, params: str, context: str | None, user: str) -> str:
        while True:
            worker = self._shelf.take(self, user) or self._fork(call.lifetime)
            whole = False
            try:
                text = worker.run(call, tool, params, context)
                whole = True
                return text
            except WorkerGoneError:
                continue  # it saw nothing of the call
            except ToolError as error:
                whole = type(error).__name__ in _ENDED_WELL and call.failure is None
                raise
            except (ClosedError, ProtocolError) as error:
                raise self._crash(worker, error) from error
            finally:
                if whole and worker.calls < MAX_CALLS:
                    self._shelf.put(self, user, worker)
                else:
                    self.retire(worker)

    def retire(self, worker: Worker) -> None:
        """End a worker; whoever asks for the next one has it waited for."""
        worker.kill()
        with self._lock:
            if self._template is not None and worker.pid:
                self._template.ended.append(worker.pid)

    def unload_idle(self) -> bool:
        """End the template and its workers, unless a call is under way; the next call starts them anew."""
        with self._lock:
            if self._calls:
                return False
            template, self._template = self._template, None
        self._end(template)
        return True

    def close(self) -> None:
        """End its processes."""
        with self._lock:
            template, self._template = self._template, None
        self._end(template)

    def _end(self, template: _Template | None) -> None:
        gone = self._shelf.drop(self)
        if template is not None:
            for worker in gone:
                template.status(worker.pid)
            template.close()

    def _crash(self, worker: Worker, error: WasmrtError) -> WorkerCrashedError:
        worker.kill()
        if isinstance(error, ProtocolError):
            return WorkerCrashedError(f"the tool's worker broke the rules: {error.message}", signal=None)
        with self._lock:
            status = 0 if self._template is None else self._template.status(worker.pid)
        worker.pid = 0
        return crashed(status)

    def _describe(self, data: bytes) -> Description:
        lifetime = Lifetime(DESCRIBE_SECONDS)
        with self._lock:
            self._world = self._loaded(data).world
        worker = self._fork(lifetime, adopt=False)
        try:
            return worker.describe(lifetime)
        except (ClosedError, ProtocolError) as error:
            raise self._crash(worker, error) from error
        finally:
            self.retire(worker)

    def _fork(self, lifetime: Lifetime, *, adopt: bool = True) -> Worker:
        with self._lock:
            worker = self._forked()
        try:
            worker.greet(lifetime)
            if adopt:
                worker.adopt(self.description)
        except ClosedError as error:
            raise self._crash(worker, error) from error
        except BaseException:
            self.retire(worker)
            raise
        return worker

    def _forked(self) -> Worker:
        try:
            return self._loaded().fork()
        except _GoneError:  # somebody ended the template, or the zygote, and with it the template
            if self._template is not None:
                self._template.close()
                self._template = None
            return self._loaded().fork()

    def _loaded(self, data: bytes = b"") -> _Template:
        # The bytes are only looked at for what the component says of itself, and it is asked once.
        if self._template is None:
            self._template = _Template(self._zygote, self._key, self._artifact, data)
            self._shelf.loaded(self)
        return self._template


class _GoneError(InternalError):
    """A template is gone."""


class _Template:
    """The process that a program's workers are forked from."""

    def __init__(self, zygote: Zygote, key: ProgramKey, artifact: int, data: bytes) -> None:
        self._zygote = zygote
        self._asking = threading.Lock()
        ours, theirs = socket.socketpair()
        ours.settimeout(LOAD_SECONDS)
        self._control = ours
        head = {
            "allocator": str(key.allocator),
            "limits": asdict(key.limits),
            "name": key.name,
            "metered": key.metered,
            "required": key.required,
        }
        with theirs, memory_file(data) as source:
            self._pid = zygote.fork(Kind.LOAD, head, [theirs.fileno(), artifact, source])
        try:
            frame, _ = receive_with_descriptors(ours)
            if frame.kind == Kind.REFUSED:
                raise faults.from_fields(frame.fields())
            if frame.kind != Kind.READY:
                raise ProtocolError("a template answered something else than that it is ready")
            self.world = frame.fields().text("world", 1000)
        except BaseException as error:
            status = self.close()
            if isinstance(error, (ClosedError, ProtocolError)):
                raise crashed(status) from error
            raise
        ours.settimeout(_ANSWER_SECONDS)
        self.ended: list[int] = []
        """Workers that were killed, and take a while to be gone where they held much memory."""

    def fork(self) -> Worker:
        """Have a worker forked."""
        while self.ended:
            self.status(self.ended.pop())
        ours, theirs = socket.socketpair()
        with theirs:
            worker = Worker(ours, 0)  # first: it has to ask the kernel for the sender's number before anything is sent
            try:
                worker.pid = self._ask(Kind.FORK, {}, [theirs.fileno()], Kind.SPAWNED, "pid")
            except BaseException:
                worker.kill()
                raise
        return worker

    def status(self, pid: int) -> int:
        """Wait for a worker that has ended, and return its status as `waitpid` gives it."""
        if not pid:
            return 0
        with suppress(InternalError):
            return self._ask(Kind.REAP, {"pid": pid}, [], Kind.ENDED, "status")
        return 0

    def type(self) -> ComponentType:
        """Return the component's imports and exports."""

        def ask() -> ComponentType:
            with self._asking:
                send_with_descriptors(self._control, Kind.DESCRIBE, {}, ())
                frame = Channel(self._control).receive(MAX_DESCRIPTION_HEAD)
            return read_type(frame.fields(MAX_DESCRIPTION_HEAD))

        try:
            return unbroken(ask)
        except (ClosedError, ProtocolError) as error:
            raise InternalError("a template does not tell the types of its component") from error

    def close(self) -> int:
        """End it with all its workers; return its status."""
        self._control.close()
        return self._zygote.end(self._pid)

    def _ask(self, kind: Kind, head: dict[str, object], descriptors: list[int], expected: Kind, field: str) -> int:
        def ask() -> int:
            with self._asking:
                send_with_descriptors(self._control, kind, head, descriptors)
                frame, _ = receive_with_descriptors(self._control)
            if frame.kind != expected:
                raise ProtocolError("a template answered something else")
            return frame.fields().whole(field, 2**31)

        try:
            return unbroken(ask)
        except (ClosedError, ProtocolError) as error:
            raise _GoneError("the process that a tool's workers come from is gone") from error


class Shelf:
    """Workers that wait for their next call, by program and user, and the programs that have a template.

    Both are bounded: the one that has waited longest goes first.
    """

    def __init__(self, max_workers: int, max_programs: int) -> None:
        self._max_workers = max_workers
        self._max_programs = max_programs
        self._lock = threading.Lock()
        self._idle: dict[tuple[int, str], list[Worker]] = {}
        self._order: dict[int, tuple[Program, str, Worker]] = {}
        self._loaded: dict[int, Program] = {}
        self._closed = False

    def take(self, program: Program, user: str) -> Worker | None:
        """Return a worker that waits, or None."""
        key = (id(program), user)
        with self._lock:
            waiting = self._idle.get(key)
            if not waiting:
                return None
            worker = waiting.pop()
            if not waiting:
                del self._idle[key]
            del self._order[id(worker)]
            return worker

    def put(self, program: Program, user: str, worker: Worker) -> None:
        """Take a worker back; the one that has waited longest ends where there are too many."""
        with self._lock:
            over: tuple[Program, str, Worker] | None = (program, user, worker)
            if not self._closed:
                over = None
                self._idle.setdefault((id(program), user), []).append(worker)
                self._order[id(worker)] = (program, user, worker)
                if len(self._order) > self._max_workers:
                    over = next(iter(self._order.values()))
                    self._remove(*over)
        if over is not None:
            over[0].retire(over[2])

    def drop(self, program: Program) -> list[Worker]:
        """Forget that a program has a template, and end its workers; return them, to be waited for."""
        with self._lock:
            self._loaded.pop(id(program), None)
            gone = [held for held in self._order.values() if held[0] is program]
            for held in gone:
                self._remove(*held)
        for _, _, worker in gone:
            worker.kill()
        return [worker for _, _, worker in gone]

    def loaded(self, program: Program) -> None:
        """Note that a program has a template; where there are too many, one without calls loses its own."""
        with self._lock:
            self._loaded[id(program)] = program
            others = list(self._loaded.values()) if len(self._loaded) > self._max_programs else []
        any(other.unload_idle() for other in others if other is not program)

    def close(self) -> list[Program]:
        """Take no worker back any more; return the programs that have a template."""
        with self._lock:
            self._closed = True
            return list(self._loaded.values())

    def _remove(self, program: Program, user: str, worker: Worker) -> None:
        del self._order[id(worker)]
        key = (id(program), user)
        waiting = self._idle[key]
        waiting.remove(worker)
        if not waiting:
            del self._idle[key]
