"""A compromised worker answers as it likes: its call ends with a typed error, and no later call gets its frames."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.isolation.conftest import prepared
from tests.sandbox.isolation.liar import COUNTS, Liar, lying
from wasmrt import WasmToolRuntime
from wasmrt.core.errors import WorkerCrashedError
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
