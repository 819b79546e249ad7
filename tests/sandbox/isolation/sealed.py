"""Workers as created by a zygote, each in a forked child of this program; the result is JSON on standard output.

python -m tests.sandbox.isolation.sealed TASK USER
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wasmrt.sandbox.guest.wasi
from tests.sandbox.engine.conftest import PLAIN, CountingCall, Guest, agent_host, assembled
from wasmrt.core.limits import ResourceLimits
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.guest.engine import Component, EngineFault, _ffi
from wasmrt.sandbox.guest.settings import EngineConfig
from wasmrt.sandbox.isolation.confine import COMPILE_WORKER, RUN_WORKER, Confinement, _libc, prepare

ARTIFACT_FROM_FILE = _ffi._bind_function(
    _ffi._blocking, "wasmtime_component_deserialize_file", _ffi.P, _ffi.P, ctypes.c_char_p, _ffi.P
)


def in_child(confinement: Confinement, user: int, start: Callable[[], None] | None, work: Callable[[], Any]) -> Any:
    """The result of `work` in a sealed child, the layers, the refused calls, and its exit; or the error."""
    ours, theirs = socket.socketpair()
    refused, reporting = os.pipe()
    log = "--log" in sys.argv
    listed: Any = {"mode": "log", "report": reporting} if log else {}
    prepared = prepare(confinement, parent=os.getpid(), **listed)
    child = os.fork()
    if child == 0:
        if user:
            os.setgroups([])
            os.setresuid(user, user, user)
        os.dup2(theirs.fileno(), 3)
        try:
            standing = prepared.apply(start)
            answer = {"layers": standing, "found": work()}
        except BaseException as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(3, data) :]
        _libc.syscall("exit_group", 0)  # skip Python's shutdown
    theirs.close()
    os.close(reporting)
    _, status = os.waitpid(child, 0)
    with ours.makefile("rb") as stream:
        text = stream.read()
    with os.fdopen(refused, "rb") as stream:
        numbers = [number for (number,) in struct.iter_unpack("=i", stream.read())]
    return (json.loads(text) if text else {}) | {"status": status, "refused": sorted(set(numbers))}


def mapped_from_memory_file(compiler: Compiler, component: Component) -> Component:
    """The component from its artifact in a sealed memfd: the code is neither copied nor writable."""
    descriptor = os.memfd_create("artifact", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, component.serialize())
    fcntl.fcntl(descriptor, 1033, 1 | 2 | 4 | 8)  # F_ADD_SEALS: seal, shrink, grow, write
    pointer = ctypes.c_void_p()
    path = f"/proc/self/fd/{descriptor}".encode()
    assert not ARTIFACT_FROM_FILE(component.engine.pointer, path, ctypes.addressof(pointer))
    os.close(descriptor)
    return Component(component.engine, pointer.value or 0)


def run(user: int) -> Any:
    compiler = Compiler(EngineConfig(), keep=True, disk=None)
    component = mapped_from_memory_file(compiler, compiler.compile(assembled(PLAIN), "plain"))
    guest = Guest(component, agent_host(lambda call, path: f"text of {path}"))

    def work() -> Any:
        echoes = {guest.call("echo", "x" * size) == "x" * size for size in range(0, 100_000, 2000)}
        faults = []
        for name in ("unreachable", "outside", "divide", "recurse"):
            try:
                guest.call(name)
            except EngineFault as error:
                faults.append(str(error.code))
        late = CountingCall(0.1)
        try:
            guest.call("spin", call=late)
        except EngineFault:
            faults.append("late")
        return {"echoes": sorted(echoes), "ws": guest.call("ws", "a"), "count": guest.call("count"), "faults": faults}

    return in_child(RUN_WORKER, user, lambda: guest.call("now"), work)


def compiled(user: int) -> Any:
    data = Path("wasmrt/catalog/shipped/json.wasm").read_bytes()
    wasmrt.sandbox.guest.wasi.interfaces()
    compiler = Compiler(EngineConfig(), keep=True, disk=None)
    compiler._engine(compiler._config.allocator)

    def work() -> Any:
        component = compiler.compile(data, "hostile")
        described = LinkedComponent(component, data, ResourceLimits(), metered=True).describe("hostile")
        return {"digest": hashlib.sha256(component.serialize()).hexdigest(), "tools": sorted(described.specs)}

    inside = in_child(COMPILE_WORKER, user, None, work)
    return inside | {"outside": hashlib.sha256(compiler.compile(data, "same").serialize()).hexdigest()}


def forgets(user: int) -> Any:
    def work() -> Any:
        refused = 0
        for attempt in (lambda: os.open("/", os.O_RDONLY), lambda: os.dup(3), lambda: os.kill(os.getpid(), 0)):
            try:
                attempt()
            except PermissionError:
                refused += 1
        return refused

    return in_child(RUN_WORKER, user, None, work)


def holds(user: int) -> Any:
    os.environ["A_TOKEN"] = "value"
    os.dup2(os.open("/etc/passwd", os.O_RDONLY), 200)

    def work() -> Any:
        return {"open": [number for number in range(300) if is_open(number)], "environment": dict(os.environ)}

    def is_open(descriptor: int) -> bool:
        asking = select.poll()  # allowed in a sealed worker
        asking.register(descriptor, 0)
        return not any(events & select.POLLNVAL for _, events in asking.poll(0))

    return in_child(RUN_WORKER, user, None, work)


def eats(user: int) -> Any:
    def work() -> Any:
        try:
            bytearray(300 << 20)
        except MemoryError:
            return "refused"
        return "given"

    return in_child(RUN_WORKER, user, None, work)


TASKS = {"run": run, "compile": compiled, "eats": eats, "forgets": forgets, "holds": holds}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](int(sys.argv[2]))))
