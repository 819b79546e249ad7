"""A component in worker processes: the template that its workers are forked from, and those of them that wait."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from wasmrt.core.errors import ToolError, WasmrtError, WorkerCrashedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.component import ComponentType
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.runner import Description
from wasmrt.sandbox.isolation.pool.control import GoneError, held, unhurried
from wasmrt.sandbox.isolation.pool.handle import Worker, WorkerGoneError, crashed
from wasmrt.sandbox.isolation.pool.launcher import Zygote
from wasmrt.sandbox.isolation.pool.template import ProgramKey, Template
from wasmrt.sandbox.isolation.wire import ClosedError, ProtocolError

DESCRIBE_SECONDS = 15.0
MAX_UNCALLED = 4
"""Workers that told what their component is and were not called since: who loads many tools calls few at once."""
MAX_CALLS = 10_000
"""Calls of one worker, after which another takes its place."""
_ENDED_WELL = frozenset({"GuestError", "GuestExitError", "InvalidParametersError"})


class Program:
    """A component that is ready to run in workers. Threads may share it.

    Raises:
        ComponentError, MemoryLimitError: it cannot run here; what a template or a worker said, in its words.
    """

    checks_params = True

    def __init__(self, zygote: Zygote, key: ProgramKey, artifact: int, data: bytes, shelf: Shelf) -> None:
        self._zygote = zygote
        self._key = key
        self._artifact = artifact
        self._shelf = shelf
        self._lock = threading.Lock()
        """Held for moments only; `_loading` for as long as a template takes to be forked."""
        self._loading = threading.RLock()
        self._template: Template | None = None
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
            lifetime = unhurried()
            with self._busy():
                self._type = self._loaded(lifetime).type(lifetime)
        return self._type

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a worker of this component and user.

        Raises:
            WorkerCrashedError: the worker ended in the middle of the call, or broke the rules.
            ToolError: as `GuestComponent.run`.
        """
        with self._busy():
            return self._run(call, tool, params, context, user)

    def _run(self, call: GuestCall, tool: str, params: str, context: str | None, user: str) -> str:
        while True:
            worker = self._shelf.take(self, user) or self._shelf.take(self, None) or self._fork(call.lifetime)
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
                raise self._crash(worker, error, call.lifetime) from error
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
                self._template.leave(worker.pid)

    def unload_idle(self, lifetime: Lifetime) -> bool:
        """End the template and its workers, unless a call is under way; the next call starts them anew."""
        with self._lock:
            if self._calls:
                return False
            template, self._template = self._template, None
        self._end(template, lifetime)
        return True

    def close(self) -> None:
        """End its processes."""
        with self._lock:
            template, self._template = self._template, None
        self._end(template, unhurried())

    def _end(self, template: Template | None, lifetime: Lifetime) -> None:
        gone = self._shelf.drop(self)
        if template is not None:
            for worker in gone:
                template.status(worker.pid, lifetime)
            template.close(lifetime)

    def _crash(self, worker: Worker, error: WasmrtError, lifetime: Lifetime) -> WorkerCrashedError:
        worker.kill()
        if isinstance(error, ProtocolError):
            return WorkerCrashedError(f"the tool's worker broke the rules: {error.message}", signal=None)
        with self._lock:
            template = self._template
        pid, worker.pid = worker.pid, 0
        return crashed(0 if template is None else template.status(pid, lifetime))

    def _describe(self, data: bytes) -> Description:
        loading = unhurried()
        with self._busy():
            self._world = self._loaded(loading, data).world
            worker = self._forked(loading)
            lifetime = Lifetime(DESCRIBE_SECONDS)
            try:
                worker.greet(lifetime)
                description = worker.describe(lifetime)
            except (ClosedError, ProtocolError) as error:
                raise self._crash(worker, error, lifetime) from error
            except BaseException:
                self.retire(worker)
                raise
            self._keep(worker, description, lifetime)
            return description

    def _keep(self, worker: Worker, description: Description, lifetime: Lifetime) -> None:
        """Keep the worker that told what the component is: it has heard of no user, and the first one gets it.

        One that may have trapped, or does not listen any more, is ended.
        """
        if not any(spec.problems for spec in description.specs.values()):
            with suppress(WasmrtError):
                worker.adopt(description, lifetime)  # as it was read here
                self._shelf.put(self, None, worker)
                return
        self.retire(worker)

    def _fork(self, lifetime: Lifetime) -> Worker:
        worker = self._forked(lifetime)
        try:
            worker.greet(lifetime)
            worker.adopt(self.description, lifetime)
        except ClosedError as error:
            raise self._crash(worker, error, lifetime) from error
        except BaseException:
            self.retire(worker)
            raise
        return worker

    def _forked(self, lifetime: Lifetime) -> Worker:
        template = self._loaded(lifetime)
        try:
            return template.fork(lifetime)
        except GoneError:  # somebody ended it, or the zygote, and it with that
            self._forget(template)
            return self._loaded(lifetime).fork(lifetime)

    def _loaded(self, lifetime: Lifetime, data: bytes = b"") -> Template:
        """Return the template when it has loaded the component, which may take long; the call's time bounds the wait.

        The bytes are only looked at for what the component says of itself, and it is asked once.
        """
        with held(self._loading, lifetime):
            template = self._template
            if template is None:
                template = Template(self._zygote, self._key, self._artifact, data, lifetime)
                with self._lock:
                    self._template = template
                self._shelf.loaded(self, lifetime)
        try:
            template.load(lifetime)
        except WasmrtError:
            if not lifetime.is_over:  # then it is not what was waited for that failed
                self._forget(template)
            raise
        return template

    def _forget(self, template: Template) -> None:
        with self._lock:
            if self._template is template:
                self._template = None
        template.close(unhurried())

    @contextmanager
    def _busy(self) -> Iterator[None]:
        with self._lock:
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1


class Shelf:
    """Workers that wait for a call, each for one program and user, or none yet; and the programs that have a template.

    Both are bounded: the one that has waited longest goes first.
    """

    def __init__(self, max_workers: int, max_programs: int) -> None:
        self._max_workers = max_workers
        self._max_programs = max_programs
        self._lock = threading.Lock()
        # One list, which is always whole: a signal's handler may raise anywhere.
        self._idle: list[tuple[Program, str | None, Worker]] = []
        self._loaded: dict[int, Program] = {}
        self._closed = False

    def take(self, program: Program, user: str | None) -> Worker | None:
        """Return the worker that has waited the shortest, or None."""
        with self._lock:
            for place in range(len(self._idle) - 1, -1, -1):
                held = self._idle[place]
                if held[0] is program and held[1] == user:
                    return self._idle.pop(place)[2]
        return None

    def put(self, program: Program, user: str | None, worker: Worker) -> None:
        """Take a worker; the one that has waited longest ends where there are too many."""
        over: tuple[Program, str | None, Worker] | None = (program, user, worker)
        with self._lock:
            if not self._closed:
                # One that nobody has called yet goes before those that somebody may call again.
                self._idle.insert(0 if user is None else len(self._idle), (program, user, worker))
                uncalled = sum(owner is None for _, owner, _ in self._idle)
                if uncalled > MAX_UNCALLED:
                    over = self._idle.pop(uncalled - 1)  # they stand first, the newest before the others
                else:
                    over = self._idle.pop(0) if len(self._idle) > self._max_workers else None
        if over is not None:
            over[0].retire(over[2])

    def drop(self, program: Program) -> list[Worker]:
        """Forget that a program has a template, and end its workers; return them, to be waited for."""
        with self._lock:
            self._loaded.pop(id(program), None)
            gone = [worker for owner, _, worker in self._idle if owner is program]
            self._idle = [held for held in self._idle if held[0] is not program]
        for worker in gone:
            worker.kill()
        return gone

    def loaded(self, program: Program, lifetime: Lifetime) -> None:
        """Note that a program has a template; where there are too many, one without calls loses its own."""
        with self._lock:
            self._loaded[id(program)] = program
            others = list(self._loaded.values()) if len(self._loaded) > self._max_programs else []
        any(other.unload_idle(lifetime) for other in others if other is not program)

    def close(self) -> list[Program]:
        """Take no worker back any more; return the programs that have a template."""
        with self._lock:
            self._closed = True
            return list(self._loaded.values())
