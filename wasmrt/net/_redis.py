"""Moving windows in Redis, through `limits`: each acquisition is one script there, atomic among all machines."""

from __future__ import annotations

from limits.errors import ConfigurationError as LimitsConfigurationError
from limits.errors import StorageError
from limits.storage import RedisStorage, storage_from_string

from wasmrt.errors import ConfigurationError, ExternalServiceError
from wasmrt.limits import REDIS_TIMEOUT_SECONDS


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

    def acquire_entry(self, key: str, limit: int, expiry: int) -> bool:
        try:
            return self._storage.acquire_entry(key, limit, expiry)
        except StorageError as error:
            raise _away() from error

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        try:
            return self._storage.get_moving_window(key, limit, expiry)
        except StorageError as error:
            raise _away() from error


def _away() -> ExternalServiceError:
    return ExternalServiceError(
        "the rate limiter's Redis does not answer", code="rate-store", hint="check its URL and that it runs"
    )
