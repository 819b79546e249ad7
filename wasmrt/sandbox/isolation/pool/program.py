"""A component in worker processes: its template, its workers, and the pool of idle workers."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from wasmrt.core.errors import ToolError, WasmrtError, WorkerCrashedError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.tasks import Task, current_task
from wasmrt.sandbox.component import ComponentType
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.runner import Description
from wasmrt.sandbox.guest.settings import CALLS_PER_WORKER
from wasmrt.sandbox.isolation.pool.control import GoneError, Turns, run_unbroken, unlimited_lifetime
from wasmrt.sandbox.isolation.pool.handle import Worker, WorkerGoneError, make_crash_error
from wasmrt.sandbox.isolation.pool.launcher import Zygote, Zygotes
from wasmrt.sandbox.isolation.pool.lease import Lane, Lease
from wasmrt.sandbox.isolation.pool.template import ProgramKey, Template
from wasmrt.sandbox.isolation.wire import ClosedError, ProtocolError

DESCRIBE_SECONDS = 15.0
MAX_UNCALLED = 4
"""Maximum number of idle workers that only described their component: of many loaded tools, few are called at once."""
MAX_CALLS = 10_000
"""Maximum number of calls of one worker before it is replaced."""
_ENDED_WELL = frozenset({"GuestError", "GuestExitError", "InvalidParametersError"})


class Program:
    """A component that is ready to run in workers. Threads may share it.

    Raises:
        ComponentError, MemoryLimitError: the component cannot run here, as reported by its template or worker.
    """

    checks_params = True

    def __init__(
        self,
        key: ProgramKey,
        artifact: int,
        zygotes: Zygotes,
        idle_workers: IdleWorkers,
        *,
        zygote: Zygote,
        data: bytes,
    ) -> None:
        self._key = key
        self._artifact = artifact
        self._zygotes = zygotes
        self._idle_workers = idle_workers
        self._lock = threading.Lock()
        """Held only briefly. In contrast, `_starting` is held until a template or a worker was forked."""
        self._starting = Turns()
        self._template: Template | None = None
        self._leases: weakref.WeakKeyDictionary[object, dict[str, list[Lease]]] = weakref.WeakKeyDictionary()
        self._calls = _CallCount(self._lock)
        self._type: ComponentType | None = None
        weakref.finalize(self, os.close, artifact)
        self.description = self._describe(zygote, data)

    @property
    def limits(self) -> ResourceLimits:
        """The limits of one call."""
        return self._key.limits

    @property
    def world(self) -> str:
        """The interface through which the component is called."""
        return self._world

    @property
    def type(self) -> ComponentType:
        """The component's imports and exports, as reported by the engine."""
        if self._type is None:
            lifetime = unlimited_lifetime()
            with self._calls:
                self._type = self._load_template(lifetime).type(lifetime)
        return self._type

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, *, user: str) -> str:
        """Run one tool in a worker of this component and user.

        Raises:
            WorkerCrashedError: the worker ended during the call, or violated the protocol.
            ToolError: see `GuestComponent.run`.
        """
        with self._calls:
            return self._run(call, tool, params, context, user)

    def _run(self, call: GuestCall, tool: str, params: str, context: str | None, user: str) -> str:
        task = current_task()
        while True:
            call.lifetime.check()  # SECURITY: compromised workers that end at once must not hold the caller
            lane = None if task is None else self._open_lane(user, call.lifetime, task)
            worker, is_new = self._take_worker(user, call.lifetime) if lane is None else (lane.worker, lane.is_first)
            whole = False
            try:
                text = worker.run(call, tool, params, context, lane)
                whole = True
                return text
            except WorkerGoneError as error:
                if error.idle and is_new:
                    early = ProtocolError("it was new, but ended as if it had been idle too long")
                    raise self._crash(worker, early, call.lifetime) from error
                continue  # the worker did not receive the call
            except ToolError as error:
                whole = type(error).__name__ in _ENDED_WELL and call.failure is None
                raise
            except (ClosedError, ProtocolError) as error:
                if lane is not None:
                    lane.fail(error)
                raise self._crash(worker, error, call.lifetime) from error
            finally:
                if lane is not None:
                    lane.close(is_well=whole and worker.calls < MAX_CALLS)
                elif whole and worker.calls < MAX_CALLS:
                    self._idle_workers.put(self, user, worker)
                else:
                    self.retire(worker)

    def _open_lane(self, user: str, lifetime: Lifetime, task: Task) -> Lane:
        """Return a place for a call in a worker of this user that the tasks of this thread share."""
        leases = self._leases.setdefault(task.group, {})
        if (lane := _find_lane(leases.get(user, ()), task)) is not None:
            return lane
        with self._starting.hold(lifetime):
            if (lane := _find_lane(leases.get(user, ()), task)) is not None:  # another call has started a worker
                return lane
            kept = self._take_idle_worker(user)
            worker = kept or self._fork_worker(lifetime)
            if kept is None:
                self._adopt(worker, lifetime)
            lease = Lease(worker, CALLS_PER_WORKER, partial(self._end_lease, leases, user), is_new=kept is None)
            leases.setdefault(user, []).append(lease)
            return lease.open_lane(task)

    def _end_lease(self, leases: dict[str, list[Lease]], user: str, lease: Lease) -> None:
        leases[user].remove(lease)
        if not leases[user]:
            del leases[user]
        if lease.is_worn or lease.is_large or lease.failure is not None:
            self.retire(lease.worker)
        else:
            self._idle_workers.put(self, user, lease.worker)

    def retire(self, worker: Worker) -> None:
        """End a worker; the next request to the template waits for it."""
        worker.kill()
        with self._lock:
            if self._template is not None and worker.pid:
                self._template.leave(worker.pid)

    def unload_idle(self, lifetime: Lifetime) -> bool:
        """End the template and its workers, unless a call is running; the next call starts them again."""
        with self._lock:
            if self._calls.count:
                return False
            template, self._template = self._template, None
        self._end(template, lifetime)
        return True

    def close(self) -> None:
        """End the processes of the component."""
        with self._lock:
            template, self._template = self._template, None
        self._end(template, unlimited_lifetime())

    def _end(self, template: Template | None, lifetime: Lifetime) -> None:
        gone = self._idle_workers.drop(self)
        if template is not None:
            for worker in gone:
                template.status(worker.pid, lifetime)
            template.close(lifetime)

    def _crash(self, worker: Worker, error: WasmrtError, lifetime: Lifetime) -> WorkerCrashedError:
        worker.kill()
        if isinstance(error, ProtocolError):
            return WorkerCrashedError(f"the tool's worker violated the protocol: {error.message}", signal=None)
        with self._lock:
            template = self._template
        pid, worker.pid = worker.pid, 0
        return make_crash_error(0 if template is None else template.status(pid, lifetime))

    def _describe(self, zygote: Zygote, data: bytes) -> Description:
        loading = unlimited_lifetime()
        with self._calls:
            self._world = self._load_template(loading, zygote, data).world
            worker = self._fork_worker(loading)
            lifetime = Lifetime(DESCRIBE_SECONDS)
            try:
                worker.wait_until_ready(lifetime)
                description = worker.describe(lifetime)
            except (ClosedError, ProtocolError) as error:
                raise self._crash(worker, error, lifetime) from error
            except BaseException:
                self.retire(worker)
                raise
            self._keep_for_first_user(worker, description, lifetime)
            return description

    def _keep_for_first_user(self, worker: Worker, description: Description, lifetime: Lifetime) -> None:
        """Keep a worker that has described the component, but has served no user, for the component's first user.

        Retire the worker instead if it may have trapped, or has ended.
        """
        if not any(spec.problems for spec in description.specs.values()):
            with suppress(WasmrtError):
                worker.adopt(description, lifetime)  # as validated by the host
                self._idle_workers.put(self, None, worker)
                return
        self.retire(worker)

    def _take_worker(self, user: str, lifetime: Lifetime) -> tuple[Worker, bool]:
        """Return a worker for a call of this user, and whether it is new."""
        if kept := self._take_idle_worker(user):
            return kept, False
        with self._starting.hold(lifetime):
            if kept := self._take_idle_worker(user):  # a worker became idle while this call waited for its turn
                return kept, False
            worker = self._fork_worker(lifetime)
        self._adopt(worker, lifetime)
        return worker, True

    def _adopt(self, worker: Worker, lifetime: Lifetime) -> None:
        try:
            worker.wait_until_ready(lifetime)
            worker.adopt(self.description, lifetime)
        except ClosedError as error:
            raise self._crash(worker, error, lifetime) from error
        except BaseException:
            self.retire(worker)
            raise

    def _take_idle_worker(self, user: str) -> Worker | None:
        return self._idle_workers.take(self, user) or self._idle_workers.take(self, None)

    def _fork_worker(self, lifetime: Lifetime) -> Worker:
        template = self._load_template(lifetime)
        try:
            return template.fork(lifetime)
        except GoneError:  # the template was killed, perhaps with its zygote
            self._forget(template)
            return self._load_template(lifetime).fork(lifetime)

    def _load_template(self, lifetime: Lifetime, zygote: Zygote | None = None, data: bytes = b"") -> Template:
        """Wait until the template has loaded the component, and return the template. The wait ends with `lifetime`.

        The first time, pass the zygote that compiled the component, and `data`, from which its world is detected.
        """
        with self._starting.hold(lifetime):
            template = self._template
            if template is None:
                template = run_unbroken(lambda: self._new_template(zygote, data))
                self._idle_workers.loaded(self, lifetime)
        try:
            template.load(lifetime)
        except WasmrtError:
            if not lifetime.is_over:  # otherwise only the wait has ended, and loading continues
                self._forget(template)
            raise
        return template

    def _new_template(self, zygote: Zygote | None, data: bytes) -> Template:
        template = Template(zygote or self._zygotes.start(), self._key, self._artifact, data)
        with self._lock:
            self._template = template
        return template

    def _forget(self, template: Template) -> None:
        with self._lock:
            if self._template is template:
                self._template = None
        template.close(unlimited_lifetime())


class _CallCount:
    """The number of running calls. Each call runs in a `with` block of this object."""

    def __init__(self, lock: threading.Lock) -> None:
        self.count = 0
        self._lock = lock

    def __enter__(self) -> None:
        with self._lock:
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.count -= 1


def _find_lane(leases: Sequence[Lease], task: Task) -> Lane | None:
    for lease in reversed(leases):  # the last lease has the most room
        if lease.has_room:
            return lease.open_lane(task)
    return None


class IdleWorkers:
    """Idle workers, each for one component and at most one user, and the components that have a template.

    The number of idle workers and the number of components are limited. The least recently used is ended first.
    """

    def __init__(self, max_workers: int, max_programs: int) -> None:
        self._max_workers = max_workers
        self._max_programs = max_programs
        self._lock = threading.Lock()
        # Always consistent: a signal handler may raise anywhere.
        self._idle: list[tuple[Program, str | None, Worker]] = []
        self._programs: OrderedDict[int, Program] = OrderedDict()
        """The most recently used is the last."""
        self._closed = False

    def take(self, program: Program, user: str | None) -> Worker | None:
        """Return the most recently used worker, or None."""
        with self._lock:
            if id(program) in self._programs:
                self._programs.move_to_end(id(program))
            for place in range(len(self._idle) - 1, -1, -1):
                held = self._idle[place]
                if held[0] is program and held[1] == user:
                    return self._idle.pop(place)[2]
        return None

    def put(self, program: Program, user: str | None, worker: Worker) -> None:
        """Add a worker; if there are too many, end the least recently used."""
        over: tuple[Program, str | None, Worker] | None = (program, user, worker)
        with self._lock:
            if not self._closed:
                # Workers without a user come first, so that they are ended first.
                self._idle.insert(0 if user is None else len(self._idle), (program, user, worker))
                uncalled = 0 if user is not None else sum(owner is None for _, owner, _ in self._idle)
                if uncalled > MAX_UNCALLED:
                    over = self._idle.pop(uncalled - 1)  # workers without a user come first, newest first
                else:
                    over = self._idle.pop(0) if len(self._idle) > self._max_workers else None
        if over is not None:
            over[0].retire(over[2])

    def drop(self, program: Program) -> list[Worker]:
        """Forget a component's template and kill its workers. The caller must wait for the returned workers."""
        with self._lock:
            self._programs.pop(id(program), None)
            gone = [worker for owner, _, worker in self._idle if owner is program]
            self._idle = [held for held in self._idle if held[0] is not program]
        for worker in gone:
            worker.kill()
        return gone

    def loaded(self, program: Program, lifetime: Lifetime) -> None:
        """Record that a component has a template. If too many components have one, unload some that run no call."""
        with self._lock:
            self._programs[id(program)] = program
            others = [other for other in self._programs.values() if other is not program]
        for other in others:
            if len(self._programs) <= self._max_programs:
                break
            other.unload_idle(lifetime)

    def close(self) -> list[Program]:
        """Accept no more workers; return the components that have a template."""
        with self._lock:
            self._closed = True
            return list(self._programs.values())
