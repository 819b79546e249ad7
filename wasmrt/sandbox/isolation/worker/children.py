"""The children of the zygote: a component's template, which forks its run workers, and the compile worker.

Their confinement is prepared before they read hostile bytes.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_LIST_BYTES, MIB, ResourceLimits
from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.guest.engine import Engine
from wasmrt.sandbox.guest.settings import GUESTS_AT_LIMIT
from wasmrt.sandbox.isolation.confine import COMPILE_WORKER, CORE, RUN_WORKER, TEMPLATE, Prepared, prepare
from wasmrt.sandbox.isolation.confine._code_pages import check_code_pages, open_own_maps
from wasmrt.sandbox.isolation.confine._process import open_own_status, own_status
from wasmrt.sandbox.isolation.wire import (
    Channel,
    ClosedError,
    Head,
    Kind,
    ProtocolError,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.sandbox.isolation.wire.calls import write_error
from wasmrt.sandbox.isolation.wire.types import type_fields
from wasmrt.sandbox.isolation.worker.run import RunWorker

OWN = 3
"""The descriptor of the process's socket."""
_OK, _BROKEN = 0, 70
_kept: list[socket.socket] = []
"""Sockets kept until the process ends, because the process's filter may kill it for closing a socket."""


def spawn(body: Callable[[], None]) -> int:
    """Fork a child that runs `body` and then ends; return the child's PID."""
    pid = os.fork()
    if pid:
        return pid
    code = _BROKEN
    try:
        body()
        code = _OK
    except ClosedError:
        code = _OK
    finally:
        os._exit(code)  # for every exception: the parent's exit handlers must not run


def end_group(pid: int) -> int:
    """End a child and everything it forked; return its `waitpid` status."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # the PID and group ID are not reused until the child is waited for
    return status_of(pid)


def status_of(pid: int) -> int:
    """Wait for a child that has ended. Return its `waitpid` status, or 0 if `pid` is not a child."""
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def own_socket(descriptor: int) -> socket.socket:
    """Install a descriptor as this process's socket, replacing the inherited one."""
    if descriptor != OWN:
        os.dup2(descriptor, OWN, inheritable=False)
        os.close(descriptor)
    own = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, OWN)
    _kept.append(own)
    return own


WORKER_ROOM_BYTES = 384 * MIB
"""Memory for the work of engine and interpreter on values, in addition to the guest's memory."""
_LIST_ROOM_BYTES = 72 * MAX_LIST_BYTES
"""Memory for the longest list of bytes that a guest receives. The engine allocates 32 bytes per element, twice."""
EVERY_LAYER = (*CORE, "capabilities", "descriptors", "landlock", "limits")
# A template leads a process group with its workers, so that all can be ended at once.
_RUN_WORKER = replace(RUN_WORKER, session=False)
_COMPILE_WORKER = replace(COMPILE_WORKER, session=False)


def _list_required_layers(required: bool) -> tuple[str, ...]:
    """Return the required layers: all layers, or none if machines with fewer layers are accepted."""
    return EVERY_LAYER if required else ()


class TemplateSeal:
    """The confinement of a template, which is entered at once, and the confinement of its workers.

    `keep` are descriptors that the template needs.

    Raises:
        ConfineError: a required layer is missing.
    """

    def __init__(self, limits: ResourceLimits, *, keep: tuple[int, ...], required: bool) -> None:
        room = GUESTS_AT_LIMIT * limits.memory_bytes + WORKER_ROOM_BYTES + _LIST_ROOM_BYTES
        self._worker: Prepared = prepare(_RUN_WORKER, data_bytes=room, required=_list_required_layers(required))
        self._status = open_own_status()  # a sealed process cannot open these files
        self._maps = open_own_maps()
        held = (*keep, self._status, self._maps, *self._worker.descriptors)
        prepare(TEMPLATE, keep=held, required=_list_required_layers(required)).apply()

    def check_code(self) -> None:
        """Check that no worker will be able to write to executable memory; workers inherit all mappings.

        Raises:
            ConfineError: a mapping is writable and executable.
        """
        check_code_pages(self._maps)

    def measure(self, *keep: int) -> None:
        """Measure the memory that workers start with; `keep` are descriptors that the workers need."""
        self._in_use = own_status(self._status).data_bytes
        self._kept = keep

    def seal_worker(self, before: Callable[[], None]) -> None:
        """Seal a worker that was just forked. `before` is called while the worker can still start threads."""
        self._worker.apply(before, data_in_use=self._in_use, keep=self._kept)


def seal_compiler(*, required: bool) -> None:
    """Seal a compile worker.

    Raises:
        ConfineError: a required layer is missing.
    """
    prepare(_COMPILE_WORKER, required=_list_required_layers(required)).apply()


def template(engine: Engine, head: Head, descriptors: list[int]) -> None:
    """Load a component from the host's sealed memfd, then fork a worker for each request.

    SECURITY: the component's bytes and machine code are hostile, so the process is sealed first. No function of the
    component runs here, because it could affect the workers of all users.
    """
    limits, name, metered = ResourceLimits(**head.mapping("limits")), head.text("name"), head.flag("metered")
    control, artifact, data = _begin(descriptors[0]), descriptors[1], _read_content(descriptors[2])
    os.close(descriptors[2])
    try:
        seal = TemplateSeal(limits, keep=(artifact,), required=head.flag("required"))
        # The engine keeps its file open, to map memory from it, at the lowest free descriptor.
        code = os.dup(artifact)
        os.close(code)
        component = engine.deserialize_file(f"/proc/self/fd/{artifact}")
        linked = LinkedComponent(component, data, limits, metered=metered)
        seal.check_code()
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, write_error(error), ())
        return
    os.close(artifact)
    del data
    gc.collect()
    gc.freeze()  # the garbage collector would copy every page that the workers share
    seal.measure(code)
    send_with_descriptors(control, Kind.READY, {"world": linked.world}, ())
    while True:
        frame, received = receive_with_descriptors(control)
        if frame.kind == Kind.FORK:
            pid = spawn(partial(_run_worker, engine, linked, name, received[0], seal))
            os.close(received[0])
            send_with_descriptors(control, Kind.SPAWNED, {"pid": pid}, ())
        elif frame.kind == Kind.REAP:
            send_with_descriptors(control, Kind.ENDED, {"status": status_of(frame.fields().whole("pid"))}, ())
        elif frame.kind == Kind.DESCRIBE:
            Channel(control).send(Kind.DESCRIBED, type_fields(linked.type))
        else:
            raise ProtocolError("expected a request for a worker, got another frame")


def _run_worker(engine: Engine, linked: LinkedComponent, name: str, end: int, seal: TemplateSeal) -> None:
    worker = RunWorker(linked, own_socket(end), name, engine.ticker)
    seal.seal_worker(engine.ticker.start)
    worker.serve()  # its first frame carries its PID, added by the kernel


def compile_worker(engine: Engine, head: Head, descriptors: list[int]) -> None:
    """Compile the component in the passed descriptor, send its machine code, and exit."""
    control, data = _begin(descriptors[0]), _read_content(descriptors[1])
    try:
        seal_compiler(required=head.flag("required"))
        artifact = engine.compile(data).serialize()
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, write_error(error), ())
        return
    Channel(control).send(Kind.READY, {}, artifact)


def _begin(end: int) -> socket.socket:
    """Start a process group, so that all forked processes can be ended together. Install and return the socket."""
    os.setpgid(0, 0)
    return own_socket(end)


def _read_content(descriptor: int) -> bytes:
    pieces, at = [], 0
    while piece := os.pread(descriptor, 16 * MIB, at):  # another process may share the file offset
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
