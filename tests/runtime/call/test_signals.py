"""Signals during a guest on the main thread: the process survives, and the caller gets the handler's exception."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO, Prepare, until
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.guest.engine._lift import calls

LOOPS = {
    "in a host call": Body(
        imports=("now-millis",), execute="(loop $l (drop (call $now-millis)) (br $l)) (unreachable)"
    ),
    "in the guest": Body(imports=("now-millis",), execute="(drop (call $now-millis)) (loop (br 0)) (unreachable)"),
}


@pytest.fixture
def isolation() -> Isolation:
    """Use an in-process guest, which only the engine can interrupt."""
    return Isolation.IN_PROCESS


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """Keep signals out of the callbacks of the garbage collector, which lose exceptions. Hypothesis adds one."""
    gc.disable()
    yield
    gc.enable()


WITH_HOST = Body(imports=("now-millis",), execute="(drop (call $now-millis)) (call $ok)")


class Rung(BaseException):
    """An exception that, like KeyboardInterrupt, is not a call's failure."""


def ring(_number: int, _frame: FrameType | None) -> None:
    raise Rung


def is_interrupted_at(place: int, prepared: PreparedTool) -> bool:
    """Call a tool, and raise at the `place`th point where a signal handler could; return False beyond the last.

    Python runs handlers when a function begins and when one of C has returned, if they are not held back.
    """
    seen = 0

    def look(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal seen
        if event in ("call", "c_return") and signal.getsignal(signal.SIGUSR1) is ring:
            seen += 1
            if seen > place:
                sys.setprofile(None)
                raise Rung

    try:
        sys.setprofile(look)
        prepared.execute({})
        sys.setprofile(None)
    except Rung:
        return True
    finally:
        sys.setprofile(None)
    return False


def send_under_a_guest(*numbers: int) -> threading.Thread:
    """A thread that sends the signals once a guest has called the host and continued."""

    def send() -> None:
        until(lambda: any(call.host_calls for call in tuple(calls.values())))
        threading.Event().wait(0.05)
        for number in numbers:
            signal.raise_signal(number)

    return threading.Thread(target=send)


@pytest.mark.parametrize("where", LOOPS)
def test_a_signal_handlers_exception_reaches_the_caller_and_the_next_call_works(prepare: Prepare, where: str) -> None:
    assert threading.current_thread() is threading.main_thread()
    looping = prepare(LOOPS[where], name="loop", limits=ResourceLimits(timeout_seconds=20, fuel=2**60))

    before = signal.signal(signal.SIGUSR1, ring)
    sender = send_under_a_guest(signal.SIGUSR1)
    try:
        sender.start()
        with pytest.raises(Rung):
            looping.execute({})
        assert signal.getsignal(signal.SIGUSR1) is ring
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)
    assert prepare(ECHO).execute({"still": "here"}).result == {"still": "here"}


# If a callback of the test's own tools raises, Python reports that as unraisable.
@pytest.mark.ci("slow")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a socket that has no owner yet
@pytest.mark.parametrize(
    ("body", "isolation"),
    [
        pytest.param(Body(), Isolation.IN_PROCESS, id="alone"),
        pytest.param(WITH_HOST, Isolation.IN_PROCESS, id="with the host"),
        pytest.param(Body(imports=("fetch",)), Isolation.IN_PROCESS, id="with lists for the host"),
        pytest.param(WITH_HOST, Isolation.PROCESS, id="in a worker"),
    ],
)
def test_a_raising_signal_handler_leaks_neither_a_permit_nor_a_store(body: Body, isolation: Isolation) -> None:
    config = WasmRuntimeConfig(cache_compiled=False, isolation=isolation, max_concurrent_calls=1)
    with WasmToolRuntime(config) as runtime:
        prepared = runtime.prepare("tool", wat2wasm(tool(body)), limits=ResourceLimits(timeout_seconds=5))
        prepared.execute({})
        before = signal.signal(signal.SIGUSR1, ring)
        try:
            places = 0
            while is_interrupted_at(places, prepared):
                places += 1
                until(lambda: not calls)  # every store has ended
                assert signal.getsignal(signal.SIGUSR1) is ring
                prepared.execute({})  # the only permit is free
            assert places > 20
        finally:
            signal.signal(signal.SIGUSR1, before)
            gc.collect()  # collect objects abandoned by the handler here, not in another test


def test_two_signals_during_a_guest_are_both_handled(prepare: Prepare) -> None:
    looping = prepare(LOOPS["in the guest"], limits=ResourceLimits(timeout_seconds=20, fuel=2**60))
    told: list[int] = []

    def ring(number: int, _frame: FrameType | None) -> None:
        told.append(number)
        raise Rung

    both = (signal.SIGUSR1, signal.SIGUSR2)
    before = [signal.signal(number, ring) for number in both]
    sender = send_under_a_guest(*both)
    try:
        sender.start()
        with pytest.raises(Rung):
            looping.execute({})
        assert sorted(told) == sorted(both)
    finally:
        sender.join()
        for number, handler in zip(both, before, strict=True):
            signal.signal(number, handler)
