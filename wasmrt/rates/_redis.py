"""Moving windows in Redis, through `limits`: each acquisition is one script there, atomic among all machines."""

from __future__ import annotations

import threading

from limits.errors import ConfigurationError as LimitsConfigurationError
from limits.errors import StorageError
from limits.storage import RedisStorage, storage_from_string

from wasmrt.errors import ConfigurationError, ExternalServiceError
from wasmrt.limits import REDIS_TIMEOUT_SECONDS
from wasmrt.rates._window import WINDOWS, Limits, Window


class RedisWindows:
    """Windows shared by every machine that names the same Redis.

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
                "the rate limiter cannot use Redis", hint="check the URL, and pip install 'wasmrt[redis]'"
            ) from error
        assert isinstance(storage, RedisStorage)
        self._storage = storage
        self._lock = threading.Lock()

    def record(self, key: str, limits: Limits) -> Window | None:
        """Count a request in both windows, or return the full one.

        The hour is looked at first, so that a refused request is not counted in the minute. Only machines that race
        for the last place of an hour can lose one of a minute, which is the safe side.
        """
        hour = WINDOWS[1]
        with self._lock:
            if self.inspect(key, hour, limits[1])[1] >= limits[1]:
                return hour
            for window, limit in zip(WINDOWS, limits, strict=True):
                try:
                    taken = self._storage.acquire_entry(f"{key}/{window.name}", limit, window.seconds)
                except StorageError as error:
                    raise _unavailable() from error
                if not taken:
                    return window
        return None

    def inspect(self, key: str, window: Window, limit: int) -> tuple[float, int]:
        """Return the time of the oldest counted request in the window, and their number."""
        try:
            return self._storage.get_moving_window(f"{key}/{window.name}", limit, window.seconds)
        except StorageError as error:
            raise _unavailable() from error


def _unavailable() -> ExternalServiceError:
    return ExternalServiceError(
        "the rate limiter's Redis does not answer", code="rate-store", hint="check its URL and that it runs"
    )
