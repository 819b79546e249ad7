"""A component's zygote: started without any access, it imports everything a worker needs, and forks for the host.

It has one thread, no secret, no file of the host and one socket, and it never reads hostile bytes: it only passes
descriptors on. Each child seals itself before it reads its input.
"""

from __future__ import annotations

import codecs
import gc
import os
import signal
import socket
from contextlib import suppress
from functools import cache
from typing import NoReturn

from wasmrt.core.errors import InvalidParametersError
from wasmrt.sandbox.guest import wasi as _wasi  # noqa: F401 - a sealed worker cannot import
from wasmrt.sandbox.guest.engine import VERSION, Engine
from wasmrt.sandbox.guest.settings import WORKER_POOL, Allocator, EngineConfig, OptLevel, best_allocator
from wasmrt.sandbox.guest.worlds import _generic, _handler, _program  # noqa: F401 - as above
from wasmrt.sandbox.isolation.confine._code_pages import protect_code_pages
from wasmrt.sandbox.isolation.wire import (
    ClosedError,
    Head,
    Kind,
    ProtocolError,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.sandbox.isolation.worker import children
from wasmrt.sandbox.isolation.worker.children import OWN, end_group, spawn
from wasmrt.sandbox.schema import Validator


def main() -> NoReturn:
    """Run the zygote, with its control socket as descriptor 3."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(OWN + 1, os.sysconf("SC_OPEN_MAX"))  # descriptors that the host left inheritable
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, OWN)
    _validate_once()
    protect_code_pages()
    codecs.lookup("unicode_escape")  # a codec is a module too, needed for messages about refused paths
    gc.freeze()  # the garbage collector would copy every page that the children share
    gc.enable()
    send_with_descriptors(control, Kind.HELLO, {"version": VERSION}, ())
    forked: set[int] = set()
    try:
        while True:
            _serve(control, forked)
    except (ClosedError, ProtocolError):
        os._exit(0)


def _validate_once() -> None:
    """Use the schema validator once: at its first pattern, it reads the number of processors from files."""
    texts: dict[str, object] = {"type": "string", "pattern": "^[a-z]+$"}
    texts |= {"format": "date-time", "contentEncoding": "base64", "contentMediaType": "application/json"}
    numbers = {"type": "number", "multipleOf": 0.01, "exclusiveMinimum": 0}
    lists = {"type": "array", "uniqueItems": True, "contains": {"const": 1}, "prefixItems": [numbers]}
    schema = {"type": "object", "properties": {"a": texts, "b": numbers, "c": lists}, "patternProperties": {"^x": {}}}
    with suppress(InvalidParametersError):
        Validator(schema).accept({"a": "abc", "b": 1.5, "c": [1, 2], "x": 10**20})


@cache
def _get_engine(config: EngineConfig) -> Engine:
    """Return the engine for these settings. All children that need it share one engine."""
    return Engine(config, WORKER_POOL)


def _serve(control: socket.socket, forked: set[int]) -> None:
    frame, descriptors = receive_with_descriptors(control)
    head = frame.fields()
    if frame.kind == Kind.REAP:
        pid = head.whole("pid")
        # The PID of an earlier zygote's child may belong to another process by now.
        status = end_group(pid) if pid in forked else 0
        forked.discard(pid)
        send_with_descriptors(control, Kind.ENDED, {"status": status}, ())
        return
    engine = _get_engine(_read_settings(head))
    body = children.template if frame.kind == Kind.LOAD else children.compile_worker
    pid = spawn(lambda: body(engine, head, descriptors))
    forked.add(pid)
    for descriptor in descriptors:
        os.close(descriptor)
    send_with_descriptors(control, Kind.SPAWNED, {"pid": pid}, ())


def _read_settings(head: Head) -> EngineConfig:
    """Return the engine's settings, without a memory pool if this process may not reserve its address space."""
    allocator = Allocator(head.text("allocator"))
    if best_allocator() == Allocator.ON_DEMAND:
        allocator = Allocator.ON_DEMAND
    return EngineConfig(OptLevel(head.text("level")), allocator, head.flag("metered"))


if __name__ == "__main__":
    main()
