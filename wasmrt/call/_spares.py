"""Instances made ahead of the calls that will use them, so that the caller of a busy tool waits for neither the making
of a store nor the dropping of the last one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from wasmrt.errors import CancelledError, InternalError
from wasmrt.guest.engine import Sandbox
from wasmrt.limits import MAX_RETIRED_STORES, MAX_SPARE_BYTES, MAX_SPARE_INSTANCES, MAX_SPARE_SECONDS

if TYPE_CHECKING:
    from wasmrt.call._program import Program
    from wasmrt.capabilities import Capabilities
    from wasmrt.context import CallContext


_LOOK_SECONDS = 0.001
_IDLE_LOOKS = 50


class Spare(NamedTuple):
    """One instance that waits for its call."""

    sandbox: Sandbox
    grant: Capabilities
    ready: float
    """When it was made, in monotonic seconds."""


class Shelf:
    """The spares of one program. Taking and putting are atomic."""

    __slots__ = ("calls", "spares", "unfit")

    def __init__(self) -> None:
        self.spares: deque[Spare] = deque()
        self.calls: deque[float] = deque((-MAX_SPARE_SECONDS,) * 2, maxlen=2)
        self.unfit = False
        """It could not be instantiated without its call, as when a start function asks the host for something."""

    @property
    def hot(self) -> bool:
        """Whether the last two calls were close enough for a spare to be worth its memory."""
        return time.monotonic() - self.calls[0] < MAX_SPARE_SECONDS


class Spares:
    """Makes and drops instances on a thread of its own: at most `per_tool` a tool, each used once, none for long.

    All spares together count, with their memory limits, against `MAX_SPARE_BYTES`.
    """

    def __init__(self, per_tool: int) -> None:
        self._per_tool = per_tool
        self._jobs: deque[_Job] = deque()
        self._wake = threading.Event()
        self._awake = False
        self._shelves: dict[int, tuple[Program, Shelf]] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def take(self, program: Program, grant: Capabilities, context: CallContext) -> Sandbox | None:
        """An instance that nobody has used, now in the name of `context`; None where there is none."""
        shelf = program.shelf
        now = time.monotonic()
        shelf.calls.append(now)
        while shelf.spares:
            try:
                spare = shelf.spares.popleft()
            except IndexError:  # another call was quicker
                return None
            if spare.grant is grant and now - spare.ready < MAX_SPARE_SECONDS:
                spare.sandbox.adopt(context)
                return spare.sandbox
            self._ask(_Job(spare.sandbox))
        return None

    def retire(self, program: Program, grant: Capabilities, sandbox: Sandbox) -> None:
        """Have a finished store dropped, and one instance made for the next call of a tool that is called often."""
        if self._closed or len(self._jobs) >= MAX_RETIRED_STORES:
            sandbox.drop()
        else:
            self._ask(_Job(sandbox, program, grant))

    def forget(self, program: Program) -> None:
        """Drop every spare of a program, as when its tool is prepared anew under another grant."""
        program.shelf.unfit = True
        _empty(program.shelf)

    def close(self) -> None:
        """Drop everything and end the thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join()
        while self._jobs:
            self._do(self._jobs.popleft())

    def _ask(self, job: _Job) -> None:
        self._jobs.append(job)
        if not self._awake:
            self._awake = True
            self._wake.set()
            if self._thread is None:
                self._begin()

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="wasmrt-spares", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no thread is left for it; the next job tries again
                    self._awake = False
                    while self._jobs:
                        if (used := self._jobs.popleft().used) is not None:
                            used.drop()
                    return
                self._thread = thread

    def _run(self) -> None:
        """Look for work every millisecond as long as there is some: a caller that had to wake a thread each time would
        lose what it gains."""
        idle = 0
        while not self._closed:
            if self._jobs:
                idle = 0
                self._do(self._jobs.popleft())
                continue
            self._sweep()
            idle += 1
            if idle < _IDLE_LOOKS:
                time.sleep(_LOOK_SECONDS)
                continue
            self._awake = False
            self._wake.clear()
            if not self._jobs and not self._closed:
                self._wake.wait(1.0 if self._shelves else None)
        for _, shelf in self._shelves.values():
            _empty(shelf)

    def _do(self, job: _Job) -> None:
        if job.used is not None:
            job.used.drop()
        if job.program is not None and job.grant is not None:
            self._make(job.program, job.grant)

    def _make(self, program: Program, grant: Capabilities) -> None:
        shelf = program.shelf
        if self._closed or shelf.unfit or not shelf.hot or len(shelf.spares) >= self._per_tool:
            return
        if not self._room_for(program):
            return
        sandbox = Sandbox(program.linker, program.store_limits, _NoCall(lambda: self._closed))
        try:
            sandbox.instantiate()
        except BaseException:  # the next call meets the same, and tells its caller
            shelf.unfit = True
            sandbox.close()
            return
        sandbox.rest()
        self._shelves[id(program)] = (program, shelf)
        shelf.spares.append(Spare(sandbox, grant, time.monotonic()))
        if shelf.unfit:  # forgotten by another thread while it was made
            _empty(shelf)  # type: ignore[unreachable]

    def _room_for(self, program: Program) -> bool:
        held = [(len(shelf.spares), of.limits.memory_bytes) for of, shelf in self._shelves.values()]
        memory = sum(count * each for count, each in held) + program.limits.memory_bytes
        return sum(count for count, _ in held) < MAX_SPARE_INSTANCES and memory <= MAX_SPARE_BYTES

    def _sweep(self) -> None:
        """Drop what is too old, and let go of programs that have no spare."""
        before = time.monotonic() - MAX_SPARE_SECONDS
        for key, (_, shelf) in list(self._shelves.items()):
            while shelf.spares and shelf.spares[0].ready <= before:
                _drop_first(shelf)
            if not shelf.spares:
                del self._shelves[key]


class _Job(NamedTuple):
    used: Sandbox | None
    program: Program | None = None
    grant: Capabilities | None = None


class _NoCall:
    """Whose instance a spare is while it is made: nobody's. It may compute, and ask the host for nothing."""

    def __init__(self, unwanted: Callable[[], bool]) -> None:
        self._unwanted = unwanted
        self._deadline = time.monotonic() + MAX_SPARE_SECONDS

    def enter_host(self) -> None:
        raise InternalError("an instance without a call asked the host for something")

    def leave_host(self) -> None: ...

    def charge_values(self, count: int) -> None: ...

    def charge_text(self, size: int) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def interruption(self) -> BaseException | None:
        if time.monotonic() < self._deadline and not self._unwanted():
            return None
        return CancelledError("an instance without a call took too long to make")


def _empty(shelf: Shelf) -> None:
    while shelf.spares:
        _drop_first(shelf)


def _drop_first(shelf: Shelf) -> None:
    try:
        spare = shelf.spares.popleft()
    except IndexError:  # a call has taken it
        return
    spare.sandbox.drop()
