"""The rate limiter, in memory and with a real Redis."""

from __future__ import annotations

import math
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import ConfigurationError, ExternalServiceError, RateLimitedError
from wasmrt.egress.rates import RateLimiter
from wasmrt.egress.rates._redis import RedisWindows
from wasmrt.egress.rates._window import WINDOWS, MemoryWindows


class Clock:
    def __init__(self) -> None:
        self.now = 5_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "redis"])
def limiter(request: pytest.FixtureRequest) -> Iterator[RateLimiter]:
    if request.param == "memory":
        yield RateLimiter()
        return
    yield RateLimiter(redis_url=request.getfixturevalue("redis_url"))


def test_a_full_minute_is_refused_with_the_time_to_retry(limiter: RateLimiter) -> None:
    rates = RateLimitConfig(2, 100)
    limiter.check_and_record("ann", "tool", rates)
    limiter.check_and_record("ann", "tool", rates)
    with pytest.raises(RateLimitedError, match="2 requests per minute") as caught:
        limiter.check_and_record("ann", "tool", rates)
    assert 50 < caught.value.retry_after_seconds <= 60
    assert caught.value.limit_type == caught.value.as_dict()["limit_type"] == "minute"
    assert caught.value.retryable


def test_a_full_hour_is_refused_without_using_up_the_minute(limiter: RateLimiter) -> None:
    rates = RateLimitConfig(100, 2)
    limiter.check_and_record("ann", "tool", rates)
    limiter.check_and_record("ann", "tool", rates)
    for _ in range(3):
        with pytest.raises(RateLimitedError, match="per hour") as caught:
            limiter.check_and_record("ann", "tool", rates)
        assert 3500 < caught.value.retry_after_seconds <= 3600
        assert caught.value.limit_type == "hour"
    assert limiter.remaining("ann", "tool", rates) == (98, 0)


def test_users_tools_and_kinds_have_separate_windows(limiter: RateLimiter) -> None:
    rates = RateLimitConfig(1, 10)
    names = [("ann", "tool"), ("bob", "tool"), ("ann", "other"), ("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c")]
    for user, tool in names:
        limiter.check_and_record(user, tool, rates)
    limiter.check_and_record("ann", "tool", rates, what="tool_invoke")
    for user, tool in names:
        with pytest.raises(RateLimitedError):
            limiter.check_and_record(user, tool, rates)


def test_lowering_a_limit_later_works(limiter: RateLimiter) -> None:
    for _ in range(5):
        limiter.check_and_record("ann", "tool", RateLimitConfig(5, 10))
    with pytest.raises(RateLimitedError):
        limiter.check_and_record("ann", "tool", RateLimitConfig(2, 10))


def test_threads_never_overrun_a_window(limiter: RateLimiter) -> None:
    allowed = []
    start = threading.Barrier(8)

    def burst() -> None:
        start.wait()
        for _ in range(20):
            try:
                limiter.check_and_record("ann", "tool", RateLimitConfig(60, 1000))
            except RateLimitedError:
                continue
            allowed.append(1)

    threads = [threading.Thread(target=burst) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(allowed) == 60


def test_two_machines_share_one_budget(redis_url: str) -> None:
    one, other = RateLimiter(redis_url=redis_url), RateLimiter(redis_url=redis_url)
    for _ in range(30):
        one.check_and_record("ann", "tool", RateLimitConfig())
        other.check_and_record("ann", "tool", RateLimitConfig())
    for limiter in (one, other):
        with pytest.raises(RateLimitedError):
            limiter.check_and_record("ann", "tool", RateLimitConfig())


def test_windows_slide() -> None:
    clock = Clock()
    limiter = RateLimiter(now=clock)
    rates = RateLimitConfig(2, 1000)
    limiter.check_and_record("ann", "tool", rates)
    clock.now += 40
    limiter.check_and_record("ann", "tool", rates)
    clock.now += 19.5
    with pytest.raises(RateLimitedError) as caught:
        limiter.check_and_record("ann", "tool", rates)
    assert caught.value.retry_after_seconds == pytest.approx(0.5)
    clock.now += 0.5
    limiter.check_and_record("ann", "tool", rates)
    with pytest.raises(RateLimitedError) as caught:
        limiter.check_and_record("ann", "tool", rates)
    assert caught.value.retry_after_seconds == pytest.approx(40)


def test_memory_stays_bounded_and_drops_the_least_recently_used_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.egress.rates._window.MAX_RATE_KEYS", 2)
    limiter = RateLimiter()
    rates = RateLimitConfig(1, 10)
    for user in ("ann", "bob", "cat"):
        limiter.check_and_record(user, "tool", rates)
    with pytest.raises(RateLimitedError):
        limiter.check_and_record("cat", "tool", rates)
    assert limiter.remaining("ann", "tool", rates) == (1, 10)


def test_an_unavailable_redis_refuses_requests() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so that connections are refused at once
        limiter = RateLimiter(redis_url=f"redis://:pass-word@127.0.0.1:{taken.getsockname()[1]}/0")
        with pytest.raises(ExternalServiceError) as caught:
            limiter.check_and_record("ann", "tool", RateLimitConfig())
    assert "pass-word" not in str(caught.value)


def test_a_redis_that_fails_between_two_windows_refuses_requests(redis_url: str) -> None:
    import redis

    limiter = RateLimiter(redis_url=redis_url)
    limiter.check_and_record("ann", "tool", RateLimitConfig())
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        (minute,) = (key for key in client.scan_iter() if "minute" in key)
        client.delete(minute)
        client.set(minute, "what nobody of ours put there")
    with pytest.raises(ExternalServiceError) as caught:
        limiter.check_and_record("ann", "tool", RateLimitConfig())
    assert caught.value.code == "rate-store"


@pytest.mark.parametrize("url", ["memory://", "http://127.0.0.1/", "redis+sentinel://127.0.0.1", "redis://h:port/"])
def test_a_url_that_is_not_redis_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RateLimiter(redis_url=url)
    assert url not in str(caught.value)


@pytest.mark.parametrize("package", ["limits", "redis"])
def test_a_missing_extra_is_reported_with_the_command_to_install_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for loaded in [
        name for name in sys.modules if name.partition(".")[0] == package or name == "wasmrt.egress.rates._redis"
    ]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError) as caught:
        RateLimiter(redis_url="redis://127.0.0.1:6379/0")
    assert "pip install 'wasmrt[redis]'" in str(caught.value.hint)


@pytest.fixture
def silent_redis() -> Iterator[tuple[str, list[socket.socket]]]:
    """A server that accepts connections and never responds, with the accepted connections."""
    taken: list[socket.socket] = []
    over = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        listener.settimeout(0.2)

        def take() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    taken.append(listener.accept()[0])

        thread = threading.Thread(target=take)
        thread.start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0", taken
        over.set()
        thread.join()
        for connection in taken:
            connection.close()


def test_a_silent_redis_is_waited_for_only_once(silent_redis: tuple[str, list[socket.socket]]) -> None:
    url, taken = silent_redis
    limiter = RateLimiter(redis_url=url)
    for _ in range(50):
        with pytest.raises(ExternalServiceError):
            limiter.check_and_record("ann", "tool", RateLimitConfig())
    assert len(taken) == 1


def test_an_operator_can_allow_local_counting_while_redis_is_silent(
    silent_redis: tuple[str, list[socket.socket]],
) -> None:
    limiter = RateLimiter(redis_url=silent_redis[0], unsafe_without_redis=True)
    for _ in range(2):
        limiter.check_and_record("ann", "tool", RateLimitConfig(2, 9))
    with pytest.raises(RateLimitedError):
        limiter.check_and_record("ann", "tool", RateLimitConfig(2, 9))


class _HeldLock:
    """A lock whose previous holder found Redis unresponsive."""

    def __init__(self, windows: RedisWindows) -> None:
        self._windows = windows

    def acquire(self, timeout: float) -> bool:
        self._windows._retry_at = math.inf
        return True

    def release(self) -> None:
        pass


@pytest.mark.parametrize("instead", [None, MemoryWindows(lambda: 5_000.0)], ids=["refused", "counted here"])
def test_a_waiting_call_does_not_ask_redis_again_after_a_timeout_of_another_call(
    silent_redis: tuple[str, list[socket.socket]], instead: MemoryWindows | None
) -> None:
    windows = RedisWindows(silent_redis[0], instead)
    windows._lock = _HeldLock(windows)  # type: ignore[assignment]
    if instead is None:
        with pytest.raises(ExternalServiceError):
            windows.record("key", (1, 9))
    else:
        assert [windows.record("key", (1, 9)), windows.record("key", (1, 9))] == [None, WINDOWS[0]]
    assert silent_redis[1] == []
