"""The children of the zygote: a component's template, which forks its run workers, and the compile worker."""

from __future__ import annotations

import gc
import os
import socket
from functools import partial

from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MIB, ResourceLimits
from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.guest.engine import Engine
from wasmrt.sandbox.isolation.wire import (
    Channel,
    Head,
    Kind,
    ProtocolError,
    faults,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.sandbox.isolation.wire.types import type_fields
from wasmrt.sandbox.isolation.worker import sealing
from wasmrt.sandbox.isolation.worker.forking import own_socket, spawn, status_of
from wasmrt.sandbox.isolation.worker.run import RunWorker


def template(engine: Engine, head: Head, descriptors: list[int]) -> None:
    """Load a component from sealed memory of the host, then fork a worker for each request.

    SECURITY: the component's bytes and machine code are hostile, so the process is sealed first. No function of the
    component runs here, because it could affect the workers of all users.
    """
    limits, name, metered = ResourceLimits(**head.mapping("limits")), head.text("name"), head.flag("metered")
    control, artifact, data = _begin(descriptors[0]), descriptors[1], _content(descriptors[2])
    os.close(descriptors[2])
    try:
        seal = sealing.TemplateSeal(limits, keep=(artifact,), required=head.flag("required"))
        # The engine keeps its file open, to map memory from it, at the lowest free descriptor.
        code = os.dup(artifact)
        os.close(code)
        component = engine.deserialize_file(f"/proc/self/fd/{artifact}")
        linked = LinkedComponent(component, data, limits, metered=metered)
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, faults.as_fields(error), ())
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


def _run_worker(engine: Engine, linked: LinkedComponent, name: str, end: int, seal: sealing.TemplateSeal) -> None:
    worker = RunWorker(linked, own_socket(end), name)
    seal.seal_worker(engine.ticker.start)
    worker.serve()  # its first frame carries its PID, added by the kernel


def compile_worker(engine: Engine, head: Head, descriptors: list[int]) -> None:
    """Compile the component of a descriptor, send its machine code, and end."""
    control, data = _begin(descriptors[0]), _content(descriptors[1])
    try:
        sealing.seal_compiler(required=head.flag("required"))
        artifact = engine.compile(data).serialize()
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, faults.as_fields(error), ())
        return
    Channel(control).send(Kind.READY, {}, artifact)


def _begin(end: int) -> socket.socket:
    """Start a process group, so that all forked processes can be ended together, and install the socket."""
    os.setpgid(0, 0)
    return own_socket(end)


def _content(descriptor: int) -> bytes:
    pieces, at = [], 0
    while piece := os.pread(descriptor, 16 * MIB, at):  # another process may share the file offset
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
