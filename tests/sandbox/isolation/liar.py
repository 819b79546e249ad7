"""A thread in the place of a worker: it reads the host's frames as a worker does, and sends any bytes."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import program_of
from wasmrt import PreparedTool
from wasmrt.sandbox.isolation.pool.handle import Worker
from wasmrt.sandbox.isolation.pool.program import Program
from wasmrt.sandbox.isolation.wire import Channel, Kind

COUNTS = struct.pack("<4Q", 1, 0, 0, 0)


class Liar:
    """The other end of a worker's socket. `number` is that of the call that was read last."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.channel = Channel(end)
        self.number = 0

    def read_call(self) -> None:
        """Wait for the next call."""
        while self.channel.receive(1 << 26, joins=True).kind != Kind.CALL:
            pass
        self.number = self.channel.number

    def raw(self, data: bytes) -> None:
        self.end.sendall(data)

    def send(self, kind: int, head: Any = None, tail: bytes = b"", *, number: int | None = None) -> None:
        """Send a frame, by default of the call that was read last."""
        text = head if isinstance(head, bytes) else json.dumps(head or {}).encode()
        own = self.number if number is None else number
        self.raw(struct.pack("<IBQI", 4 + len(text) + len(tail), kind, own, len(text)) + text + tail)

    def answer(self, text: bytes = b"{}") -> None:
        """Send a result."""
        self.send(Kind.RESULT, COUNTS, text)

    def wait(self) -> None:
        """Wait until the host closes its end."""
        while self.end.recv(1 << 16):
            pass


Script = Callable[[Liar], None]


@contextmanager
def lying(tool: PreparedTool, script: Script) -> Iterator[None]:
    """Within the block, each new worker of the tool is a thread that runs `script`."""
    program = program_of(tool)
    while worker := program._idle_workers.take(program, None) or program._idle_workers.take(program, "local"):
        program.retire(worker)
    ends: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def run(end: socket.socket) -> None:
        with end, suppress(OSError):
            script(Liar(end))
            Liar(end).wait()

    def fork(_program: Program, _lifetime: object) -> Worker:
        ours, theirs = socket.socketpair()
        ends.append(ours)
        thread = threading.Thread(target=run, args=(theirs,))
        threads.append(thread)
        thread.start()
        return Worker(ours, 0)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Program, "_fork_worker", fork)
            patch.setattr(Program, "_adopt", lambda *_: None)
            yield
    finally:
        while (worker := program._idle_workers.take(program, "local")) is not None:
            program.retire(worker)
        for end in ends:
            end.close()
        for thread in threads:
            thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
