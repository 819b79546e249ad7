from __future__ import annotations

import gc
import threading
import weakref

from tests.runtime.call.conftest import until
from wasmrt.sandbox.guest.engine._ticker import Ticker


class Engine:
    def __init__(self) -> None:
        self.ticks = 0
        self.enough = threading.Event()

    def increment_epoch(self) -> None:
        self.ticks += 1
        if self.ticks >= 3:
            self.enough.set()


def tickers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "wasm-epoch-ticker"]


def test_the_ticker_is_named_and_ticks_only_during_calls() -> None:
    engine = Engine()
    ticker = Ticker(engine)
    before = len(tickers())
    ticker.enter()
    assert engine.enough.wait(10)
    assert len(tickers()) == before + 1
    ticker.leave()
    ticker.stop()
    assert len(tickers()) == before


def test_the_ticker_sleeps_while_a_guest_waits_for_the_host() -> None:
    engine = Engine()
    ticker = Ticker(engine)
    ticker.enter()
    assert engine.enough.wait(10)

    def wait() -> int:
        until(lambda: not ticker._state.awake)
        return engine.ticks

    before = ticker.paused(wait)
    until(lambda: engine.ticks > before)
    ticker.leave()
    ticker.stop()


def test_the_thread_ends_when_the_engine_is_garbage_collected() -> None:
    engine = Engine()
    ticker = Ticker(engine)
    ticker.enter()
    assert engine.enough.wait(10)
    [thread] = [t for t in tickers() if t is ticker._thread]
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    thread.join(10)
    assert gone() is None
    assert not thread.is_alive()


def test_a_stopped_ticker_starts_no_thread() -> None:
    ticker = Ticker(Engine())
    ticker.stop()
    before = len(tickers())
    ticker.enter()
    ticker.leave()
    assert len(tickers()) == before
