"""Sliding windows in Redis, through `limits`: each request is counted by one atomic Redis script.

If Redis does not respond, one request waits half a second. After that, requests do not wait for Redis for a while. They
are refused, or counted in this process only if the operator has chosen that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from limits.errors import ConfigurationError as LimitsConfigurationError
from limits.errors import StorageError
from limits.storage import RedisStorage, storage_from_string
from redis.backoff import NoBackoff
from redis.retry import Retry

from wasmrt.core.errors import ConfigurationError, ExternalServiceError
from wasmrt.core.limits import REDIS_PAUSE_SECONDS, REDIS_TIMEOUT_SECONDS
from wasmrt.egress.rates._window import WINDOWS, Limits, Window, WindowStore

Answer = TypeVar("Answer")


class RedisWindows:
    """Windows in a Redis that several machines share. While Redis does not respond, `fallback` counts the requests.

    SECURITY: without `fallback`, requests are refused while Redis does not respond.

    Raises:
        ConfigurationError: the URL is not a Redis URL, or the `redis` package is missing.
    """

    def __init__(self, url: str, fallback: WindowStore | None = None) -> None:
        if not url.startswith(("redis://", "rediss://")):
            # The URL may contain a password, so it is not in the message.
            raise ConfigurationError("the rate limiter's Redis URL must start with redis:// or rediss://")
        try:
            storage = storage_from_string(
                url,
                wrap_exceptions=True,
                key_prefix="WASMRT",
                socket_timeout=REDIS_TIMEOUT_SECONDS,
                socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
                retry=Retry(NoBackoff(), 0),  # type: ignore[arg-type]  # options are passed to redis.from_url
            )
        except (LimitsConfigurationError, ValueError) as error:
            raise ConfigurationError(
                "the rate limiter cannot use Redis", hint="check the URL, and pip install 'wasmrt[redis]'"
            ) from error
        assert isinstance(storage, RedisStorage)
        self._storage = storage
        self._lock = threading.Lock()
        self._fallback = fallback
        self._retry_at = 0.0

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows. If a window is full, return that window.

        The hour is checked first, so that a request that the hour refuses is not counted in the minute. If another
        machine takes the last request of the hour at the same time, it still counts in the minute, which is safe.
        """
        return self._use_redis(lambda: self._record(key, limits), lambda store: store.record(key, limits))

    def inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return the time of the oldest counted request in the window, and the number of counted requests."""
        return self._use_redis(
            lambda: self._inspect(key, window, limit), lambda store: store.inspect(key, window, limit)
        )

    def _record(self, key: str, limits: Limits) -> Window | None:
        hour = WINDOWS[1]
        if self._inspect(key, hour, limits[1])[1] >= limits[1]:
            return hour
        for window, limit in zip(WINDOWS, limits, strict=True):
            if not self._storage.acquire_entry(f"{key}/{window.name}", limit, window.seconds):
                return window
        return None

    def _inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        return self._storage.get_moving_window(f"{key}/{window.name}", limit, window.seconds)

    def _use_redis(self, redis: Callable[[], Answer], otherwise: Callable[[WindowStore], Answer]) -> Answer:
        """Call `redis`, on one thread at a time. If Redis fails or has just failed, call `otherwise(fallback)`."""
        if time.monotonic() >= self._retry_at and self._lock.acquire(timeout=REDIS_TIMEOUT_SECONDS):
            try:
                if time.monotonic() >= self._retry_at:  # the previous holder of the lock may have failed
                    return redis()
            except StorageError as error:
                self._retry_at = time.monotonic() + REDIS_PAUSE_SECONDS
                if self._fallback is None:
                    raise _make_unavailable_error() from error
            finally:
                self._lock.release()
        if self._fallback is None:
            raise _make_unavailable_error()
        return otherwise(self._fallback)


def _make_unavailable_error() -> ExternalServiceError:
    return ExternalServiceError(
        "the rate limiter's Redis does not respond", code="rate-store", hint="check that Redis runs, and its URL"
    )
