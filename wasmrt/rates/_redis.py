"""Moving windows in Redis, through `limits`: each acquisition is one script there, atomic among all machines."""

from __future__ import annotations

import threading

from limits.errors import ConfigurationError as LimitsConfigurationError
from limits.errors import StorageError
from limits.storage import RedisStorage, storage_from_string

from wasmrt.errors import ConfigurationError, ExternalServiceError
from wasmrt.limits import REDIS_TIMEOUT_SECONDS
from wasmrt.rates._windows import WINDOWS, Limits, Window


class RedisWindows:
    """The windows of every machine that names the same Redis.

    Raises:
        ConfigurationError: the URL is not one of Redis, or the `redis` package is missing.
    """

    def __init__(self, url: str) -> None:
        if not url.startswith(("redis://", "rediss://")):
            # The URL may hold a password and stays out of the message.
            raise ConfigurationError("the rate limiter's URL must start with redis:// or rediss://")
        try:
            storage = storage_from_string(
                url,
                wrap_exceptions=True,
                key_prefix="WASMRT",
                socket_timeout=REDIS_TIMEOUT_SECONDS,
                socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            )
        except (LimitsConfigurationError, ValueError) as error:
            raise ConfigurationError(
                "the rate limiter cannot use Redis", hint="install wasmrt[redis] and check the URL"
            ) from error
        assert isinstance(storage, RedisStorage)
        self._storage = storage
        self._lock = threading.Lock()

    def record(self, key: str, limits: Limits) -> Window | None:
        """Take a place in both windows, or return the one that is full.

        Each acquisition is one script there. Looking at the hour first keeps a refused request from taking a place
        in the minute; only machines that race for the last place of an hour can lose one of a minute, which is the
        safe side.
        """
        hour = WINDOWS[1]
        with self._lock:
            if self.look(key, hour, limits[1])[1] >= limits[1]:
                return hour
            for window, limit in zip(WINDOWS, limits, strict=True):
                try:
                    taken = self._storage.acquire_entry(f"{key}/{window.name}", limit, window.seconds)
                except StorageError as error:
                    raise _away() from error
                if not taken:
                    return window
        return None

    def look(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        try:
            return self._storage.get_moving_window(f"{key}/{window.name}", limit, window.seconds)
        except StorageError as error:
            raise _away() from error


def _away() -> ExternalServiceError:
    return ExternalServiceError(
        "the rate limiter's Redis does not answer", code="rate-store", hint="check its URL and that it runs"
    )
