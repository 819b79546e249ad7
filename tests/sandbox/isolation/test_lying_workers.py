"""A compromised worker answers as it likes: its call ends with a typed error, and no later call gets its frames."""

from __future__ import annotations

import asyncio
import json
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import prepared
from tests.sandbox.isolation.liar import COUNTS, Liar, Script, lying
from wasmrt import PreparedTool, ResourceLimits, WasmToolRuntime
from wasmrt.core.errors import ToolError, WorkerCrashedError
from wasmrt.core.limits import MIB
from wasmrt.sandbox.isolation.wire import Kind

LOG = {"place": 0, "level": "info", "message": "m", "at": 1}
LEFT_OVER: dict[str, tuple[int, Any, bytes]] = {
    "a result": (Kind.RESULT, COUNTS, b'{"of": "an earlier call"}'),
    "an error": (Kind.FAULT, {"error": "GuestError", "code": "c", "message": "m", "kind": "sandbox"}, COUNTS),
    "a log line": (Kind.LOG, LOG, b""),
    "a request": (Kind.IMPORT, {"do": "secret_exists", "name": "n"}, b""),
}


@pytest.mark.parametrize("left", LEFT_OVER)
def test_a_frame_that_an_earlier_call_left_over_ends_the_worker(runtime: WasmToolRuntime, left: str) -> None:
    echo = prepared(runtime)

    def script(liar: Liar) -> None:
        liar.read_call()
        liar.answer(b'{"of": "this call"}')
        liar.send(*LEFT_OVER[left])
        liar.read_call()

    with lying(echo, script):
        assert echo.execute({}).result == {"of": "this call"}
        with pytest.raises(WorkerCrashedError, match="got one of another call"):
            echo.execute({})
    assert echo.execute({"a": 1}).result == {"a": 1}


@pytest.mark.parametrize("guess", [-1, 0, 1], ids=["one less", "none", "one more"])
def test_the_number_of_the_next_call_cannot_be_predicted(runtime: WasmToolRuntime, guess: int) -> None:
    echo = prepared(runtime)

    def script(liar: Liar) -> None:
        liar.read_call()
        liar.answer()
        number = (liar.number + guess) % 2**64 if guess else 0
        liar.send(Kind.RESULT, COUNTS, b'{"sent": "ahead"}', number=number)

    with lying(echo, script):
        assert echo.execute({}).result == {}
        with pytest.raises(WorkerCrashedError, match="got one of another call"):
            echo.execute({})


DEADLINE = 1.0
LATE = DEADLINE + 0.1
ROOM = 1.0
"""Seconds that a loaded machine may add."""
FAR = 30.0
"""The deadline of calls that end at once."""
DEEP = b"[" * 1_000_000


def raw_frame(size: int, kind: int, head: int) -> Script:
    """Send only the start of a frame, then nothing."""
    return lambda liar: liar.raw(struct.pack("<IBQI", size, kind, liar.number, head))


def request(do: str, **fields: Any) -> Script:
    return lambda liar: liar.send(Kind.IMPORT, {"do": do} | fields)


def result(*counts: int, text: bytes = b"{}") -> Script:
    return lambda liar: liar.send(Kind.RESULT, struct.pack("<4Q", *counts), text)


def fault(tail: bytes = COUNTS, **fields: Any) -> Script:
    usual = {"error": "GuestError", "code": "guest-error", "message": "m", "kind": "sandbox"}
    return lambda liar: liar.send(Kind.FAULT, usual | fields, tail)


def logs(**fields: Any) -> Script:
    return lambda liar: liar.send(Kind.LOG, LOG | fields)


def number(text: str) -> Script:
    """Send a request whose number is this JSON text."""
    return lambda liar: liar.send(Kind.IMPORT, b'{"do": "report_progress", "done": %s}' % text.encode())


def both(first: Script, second: Script) -> Script:
    def script(liar: Liar) -> None:
        first(liar)
        second(liar)

    return script


def flood(kind: int, head: Any) -> Script:
    text = json.dumps(head).encode()  # once: the host shares the interpreter with this thread

    def script(liar: Liar) -> None:
        with suppress(OSError):
            while True:
                liar.send(kind, text)

    return script


BROKEN: dict[str, Script] = {
    "a length of zero": raw_frame(0, Kind.RESULT, 0),
    "a length below the head's": raw_frame(3, Kind.RESULT, 0),
    "a length of 4 GiB": raw_frame(2**32 - 1, Kind.RESULT, 0),
    "a head longer than its frame": raw_frame(100, Kind.RESULT, 2**32 - 1),
    "a head of 4 MiB": lambda liar: liar.send(Kind.FAULT, b'{"a": "' + b"x" * 4 * MIB + b'"}', COUNTS),
    "a greeting": lambda liar: liar.send(Kind.READY),
    "a description": lambda liar: liar.send(Kind.DESCRIBED, {"specs": []}),
    "a host's frame": lambda liar: liar.send(Kind.ANSWER),
    "an unknown kind": lambda liar: liar.send(200),
    "a BYE of a new worker": lambda liar: liar.send(Kind.BYE, number=0),
    "a BYE of this call": lambda liar: liar.send(Kind.BYE),
    "a BYE after a log line": both(logs(), lambda liar: liar.send(Kind.BYE, number=0)),
    "a frame of no call": lambda liar: liar.send(Kind.RESULT, COUNTS, b"{}", number=0),
    "counts that are too short": lambda liar: liar.send(Kind.RESULT, COUNTS[:-1], b"{}"),
    "a huge count of fuel": result(2**64 - 1, 0, 0, 0),
    "a huge count of host calls": result(0, 2**63, 0, 0),
    "a huge count of values": result(0, 0, 2**63, 0),
    "a huge count of lost lines": result(0, 0, 0, 2**63),
    "an error without counts": fault(tail=b""),
    "an error of an unknown type": fault(error="SystemExit"),
    "an error of an unknown kind": fault(kind="fatal"),
    "an error of an unknown setting": fault(error="FuelExhaustedError", limit=1, used=1, setting="policy.allow"),
    "a negative limit": fault(error="FuelExhaustedError", limit=-1, used=1, setting="limits.fuel"),
    "a message that is no text": fault(message=["m"]),
    "a message over its bound": fault(message="m" * 100_000),
    "an exit code of 256": fault(error="GuestExitError", exit_code=256),
    "an exit code of -1": fault(error="GuestExitError", exit_code=-1),
    "a lie about the host": fault(ended="by the host"),
    "a line out of order": logs(place=1),
    "a line at a negative place": logs(place=-1),
    "a line at an unknown level": logs(level="root"),
    "a line in the year 300,000,000": logs(at=2**62),
    "a line over its bound": logs(message="m" * 100_000),
    "an unknown request": request("__class__"),
    "a negative handle": request("http_read", handle=-1),
    "a handle of another call": request("http_close", handle=1),
    "a negative number": number("-1"),
    "a number with a fraction": number("1.5"),
    "a number over 63 bits": number("9223372036854775809"),
    "a number of 100,000 digits": number("9" * 100_000),
    "NaN": number("NaN"),
    "Infinity": number("Infinity"),
    "a flag in the place of a number": number("true"),
    "a denial that the host decides": request("refuse", reason="allowed", subject="s", limit=0),
    "a denial with its own rule": request("refuse", reason="s", rule="r", hint="h", subject="s", limit=0),
    "too many headers": request("http_open", method="GET", url="u", body=False, headers=[["a", "b"]] * 5000),
    "headers that are no pairs": request("http_open", method="GET", url="u", body=False, headers=[["a"]]),
    "a deep head": lambda liar: liar.send(Kind.IMPORT, DEEP),
    "a head of 100,000 lists": request("secret_exists", name="n", more=[[]] * 100_000),
    "a head that is a list": lambda liar: liar.send(Kind.IMPORT, b"[]"),
    "a head that is no UTF-8": lambda liar: liar.send(Kind.IMPORT, b'{"do": "\xff"}'),
    "a result that is no UTF-8": result(0, 0, 0, 0, text=b'"\xff"'),
}
"""Frames after which the worker is killed at once."""
REFUSED: dict[str, Script] = {
    "a deep result": result(0, 0, 0, 0, text=DEEP),
    "a result that is no JSON": result(0, 0, 0, 0, text=b"{"),
    "NaN as the result": result(0, 0, 0, 0, text=b"NaN"),
    "a result with half a surrogate": result(0, 0, 0, 0, text=b'"\\ud800"'),
    "a result over its bound": result(0, 0, 0, 0, text=b'"' + b"x" * (4 * MIB + 1) + b'"'),
    "a request that is denied, then silence": request("workspace_read", path="a", probe=False),
    "endless log lines": flood(Kind.LOG, LOG),
    "endless requests": flood(Kind.IMPORT, {"do": "secret_exists", "name": "n"}),
    "endless heads of 300,000 numbers": flood(Kind.IMPORT, {"do": "secret_exists", "name": "n", "more": [0] * 300_000}),
    "half of a frame": lambda liar: liar.raw(struct.pack("<IBQI", 2 * MIB, Kind.RESULT, liar.number, 32)),
    "half of a start": lambda liar: liar.raw(b"\x08\x00"),
    "silence": lambda liar: None,
}
"""Frames after which the call fails in any way, no later than its deadline."""


def execute(tool: PreparedTool) -> None:
    tool.execute({})


def aexecute(tool: PreparedTool) -> None:
    async def call() -> None:
        await tool.aexecute({})

    asyncio.run(call())


@pytest.mark.table
@pytest.mark.parametrize("call", [execute, aexecute])
@pytest.mark.parametrize("mode", [*BROKEN, *REFUSED])
def test_a_lying_worker_ends_its_call_with_a_typed_error_in_time_and_within_memory(
    runtime: WasmToolRuntime, mode: str, call: Callable[[PreparedTool], None]
) -> None:
    deadline = FAR if mode in BROKEN else DEADLINE
    echo = prepared(runtime, limits=ResourceLimits(timeout_seconds=deadline))

    def script(liar: Liar) -> None:
        liar.read_call()
        (BROKEN | REFUSED)[mode](liar)

    tracemalloc.start()
    try:
        with lying(echo, script):
            started = time.monotonic()
            with pytest.raises(ToolError) as caught:
                call(echo)
            took = time.monotonic() - started
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(caught.value, WorkerCrashedError) == (mode in BROKEN)
    assert mode in BROKEN or took < LATE + ROOM
    assert peak < 64 * MIB
    if mode in BROKEN:
        assert "violated the protocol" in caught.value.message
    assert echo.execute({"after": 1}).result == {"after": 1}
