"""The zygote: executed with nothing, it imports all that a worker needs and forks the processes that the host asks for.

It has one thread, no secret, no file of the host's and no socket but its own, and it never looks at hostile bytes: it
passes descriptors on. Each child seals itself before it reads what it was given.
"""

from __future__ import annotations

import codecs
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from wasmrt.errors import InvalidParametersError
from wasmrt.guest import wasi as _wasi  # noqa: F401 - a sealed worker can import nothing
from wasmrt.guest.engine import VERSION, Engine
from wasmrt.guest.settings import WORKER_POOL, Allocator, EngineConfig, OptLevel, best_allocator
from wasmrt.guest.worlds import _generic, _program  # noqa: F401 - as above
from wasmrt.isolation.wire import (
    ClosedError,
    Kind,
    ProtocolError,
    receive_with_descriptors,
    send_with_descriptors,
)
from wasmrt.isolation.worker import children
from wasmrt.isolation.worker.forking import OWN, end_group, spawn
from wasmrt.schema import Validator


def main() -> NoReturn:
    """Run the zygote, with its control socket as descriptor 3.

    The arguments are its engine's optimisation level, and `metered` or `unmetered`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.closerange(OWN + 1, os.sysconf("SC_OPEN_MAX"))  # what the host left open to its children
    level, metered = sys.argv[1], sys.argv[2] == "metered"
    config = EngineConfig(OptLevel(level), best_allocator(), metered)
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, OWN)
    engines: dict[Allocator, Engine] = {}

    def engine(allocator: Allocator) -> Engine:
        if config.allocator == Allocator.ON_DEMAND:
            allocator = Allocator.ON_DEMAND
        if allocator not in engines:
            engines[allocator] = Engine(config._replace(allocator=allocator), WORKER_POOL)
        return engines[allocator]

    engine(config.allocator)
    _validate_once()
    codecs.lookup("unicode_escape")  # a codec is a module too; refused paths are told in it
    gc.collect()
    gc.freeze()  # the collector would touch, and so copy, every page that the children share
    gc.enable()
    send_with_descriptors(control, Kind.HELLO, {"version": VERSION, "allocator": str(config.allocator)}, ())
    forked: set[int] = set()
    try:
        while True:
            _serve(control, engine, forked)
    except (ClosedError, ProtocolError):
        os._exit(0)


def _validate_once() -> None:
    """Use the schema validator once: its first pattern reads the number of processors from files."""
    texts: dict[str, object] = {"type": "string", "pattern": "^[a-z]+$"}
    texts |= {"format": "date-time", "contentEncoding": "base64", "contentMediaType": "application/json"}
    numbers = {"type": "number", "multipleOf": 0.01, "exclusiveMinimum": 0}
    lists = {"type": "array", "uniqueItems": True, "contains": {"const": 1}, "prefixItems": [numbers]}
    schema = {"type": "object", "properties": {"a": texts, "b": numbers, "c": lists}, "patternProperties": {"^x": {}}}
    with suppress(InvalidParametersError):
        Validator(schema).accept({"a": "abc", "b": 1.5, "c": [1, 2], "x": 10**20})


def _serve(control: socket.socket, engine: Callable[[Allocator], Engine], forked: set[int]) -> None:
    frame, descriptors = receive_with_descriptors(control)
    head = frame.fields()
    if frame.kind == Kind.REAP:
        pid = head.whole("pid")
        # One of a zygote before this one, which ended with it, may be anybody's number by now.
        status = end_group(pid) if pid in forked else 0
        forked.discard(pid)
        send_with_descriptors(control, Kind.ENDED, {"status": status}, ())
        return
    chosen = engine(Allocator(head.text("allocator")))
    body = children.template if frame.kind == Kind.LOAD else children.compile_worker
    pid = spawn(lambda: body(chosen, head, descriptors))
    forked.add(pid)
    for descriptor in descriptors:
        os.close(descriptor)
    send_with_descriptors(control, Kind.SPAWNED, {"pid": pid}, ())


if __name__ == "__main__":
    main()
