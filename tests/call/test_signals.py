"""Signals while a guest runs on the main thread: the process lives, and the handler's error reaches the caller."""

from __future__ import annotations

import signal
import threading
from types import FrameType

import pytest

from tests.call.conftest import ECHO, Prepare
from wasmrt import ResourceLimits
from wasmrt.testing.attacks import Body

LOOPS = {
    "in a host call": Body(
        imports=("now-millis",), execute="(loop $l (drop (call $now-millis)) (br $l)) (unreachable)"
    ),
    "in the guest": Body(execute="(loop (br 0)) (unreachable)"),
}


class Rung(BaseException):
    """Like KeyboardInterrupt: nobody's failure."""


@pytest.mark.parametrize("where", LOOPS)
@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_what_a_handler_raises_reaches_the_caller_and_the_next_call_works(
    prepare: Prepare, where: str, delay: float
) -> None:
    assert threading.current_thread() is threading.main_thread()
    looping = prepare(LOOPS[where], name="loop", limits=ResourceLimits(timeout_seconds=20, fuel=2**60))

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Rung

    before = signal.signal(signal.SIGUSR1, ring)
    timer = threading.Timer(delay, signal.raise_signal, (signal.SIGUSR1,))
    try:
        timer.start()
        with pytest.raises(Rung):
            looping.execute({})
        assert signal.getsignal(signal.SIGUSR1) is ring
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert prepare(ECHO).execute({"still": "here"}).result == {"still": "here"}
