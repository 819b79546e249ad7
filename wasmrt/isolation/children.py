"""The children of the zygote: a component's template, which forks its run workers, and the compile worker."""

from __future__ import annotations

import gc
import os

from wasmrt.errors import WasmrtError
from wasmrt.guest.component import LinkedComponent
from wasmrt.guest.engine import Engine
from wasmrt.isolation import faults, sealing
from wasmrt.isolation.forking import OWN, own_socket, spawn, status_of
from wasmrt.isolation.protocol import (
    Channel,
    Head,
    Kind,
    ProtocolError,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.isolation.types_data import type_fields
from wasmrt.isolation.worker import RunWorker
from wasmrt.limits import MIB, ResourceLimits


def template(engine: Engine, head: Head, descriptors: list[int]) -> None:
    """Load a component from memory that the host has sealed, then fork a worker of it for each that is asked for.

    SECURITY: what is loaded is hostile, the bytes and the machine code that they became; so the seal comes first. No
    function of the component runs here: what it could do to this process it would do to all its users' workers.
    """
    end, artifact, data = descriptors
    limits, name, metered = ResourceLimits(**head.mapping("limits")), head.text("name"), head.flag("metered")
    control = own_socket(end)
    os.setpgid(0, 0)  # it ends with all that it forked
    sealing.template(keep=(OWN, artifact, data))
    try:
        component = engine.deserialize(_content(artifact))
        linked = LinkedComponent(component, _content(data), limits, metered=metered)
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, faults.as_fields(error), ())
        return
    os.close(artifact)
    os.close(data)
    sealed = sealing.prepare_worker(limits)
    gc.collect()
    gc.freeze()
    send_with_descriptors(control, Kind.READY, {"world": linked.world}, ())
    while True:
        frame, received = receive_with_descriptors(control)
        if frame.kind == Kind.FORK:
            pid = spawn(lambda: _run_worker(engine, linked, name, received[0], sealed))
            os.close(received[0])
            send_with_descriptors(control, Kind.SPAWNED, {"pid": pid}, ())
        elif frame.kind == Kind.REAP:
            send_with_descriptors(control, Kind.ENDED, {"status": status_of(frame.fields().whole("pid"))}, ())
        elif frame.kind == Kind.DESCRIBE:
            Channel(control).send(Kind.DESCRIBED, type_fields(linked.type))
        else:
            raise ProtocolError("the host asked a template for something else than a worker")


def _run_worker(engine: Engine, linked: LinkedComponent, name: str, end: int, sealed: sealing.Sealed) -> None:
    worker = RunWorker(linked, own_socket(end), name)
    engine.ticker.start()  # sealed, it could start no thread
    sealed.apply()
    worker.serve()  # whose first word tells the host which process it is


def compile_worker(engine: Engine, _head: Head, descriptors: list[int]) -> None:
    """Compile the component in one descriptor into the memory of another, and end."""
    end, data, artifact = descriptors
    control = own_socket(end)
    os.setpgid(0, 0)
    sealing.compile_worker(keep=(OWN, data, artifact))
    try:
        code = memoryview(engine.compile(_content(data)).serialize())
    except WasmrtError as error:
        send_with_descriptors(control, Kind.REFUSED, faults.as_fields(error), ())
        return
    while code:
        code = code[os.write(artifact, code) :]
    send_with_descriptors(control, Kind.READY, {}, ())


def _content(descriptor: int) -> bytes:
    """Read a memory file whole; another process may share the place where it is read."""
    pieces, at = [], 0
    while piece := os.pread(descriptor, 16 * MIB, at):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)

