"""The rate limiter: requests per (user, tool) in a sliding minute and a sliding hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from urllib.parse import quote

from wasmrt.capabilities import RateLimitConfig
from wasmrt.core.errors import ConfigurationError, RateLimitedError
from wasmrt.core.setting_commands import set_command
from wasmrt.egress.rates._window import WINDOWS, MemoryWindows, WindowStore


class RateLimiter:
    """A rate limiter that counts requests per (user, tool) in the last minute and the last hour.

    With `redis_url` (`redis://` or `rediss://`), processes and machines share the windows. Otherwise, the windows are
    in this object. If Redis fails, requests are refused, or, with `unsafe_without_redis`, counted in this object.

    Raises:
        ConfigurationError: the URL is not a Redis URL, or the packages of the `redis` extra are missing.
    """

    def __init__(
        self,
        *,
        redis_url: str | None = None,
        unsafe_without_redis: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        # The wall clock is the only clock that machines share.
        self._now: Callable[[], float] = now if redis_url is None else time.time
        if redis_url is None:
            self._store: WindowStore = MemoryWindows(now)
        else:
            self._store = _redis_windows(redis_url, MemoryWindows(time.time) if unsafe_without_redis else None)

    def check_and_record(
        self,
        user: str,
        tool: str,
        config: RateLimitConfig,
        *,
        what: str = "http",
        setting: Callable[[str, int], str] | None = None,
    ) -> None:
        """Record one request of kind `what`, or refuse it. A refused request is not recorded.

        `setting` receives the name of a window, `minute` or `hour`, and the window's limit. It returns a suggestion to
        raise the limit, or an empty string if no setting raises the limit.

        Raises:
            RateLimitedError: a window is full until `retry_after_seconds`.
            ExternalServiceError: Redis does not respond, so the request is refused.
        """
        key, limits = _window_key(user, tool, what), (config.requests_per_minute, config.requests_per_hour)
        full = self._store.record(key, limits)
        if full is None:
            return
        limit = limits[WINDOWS.index(full)]
        oldest, _ = self._store.inspect(key, full, limit)
        wait = min(max(0.0, oldest + full.seconds - self._now()), full.seconds)
        raised = (setting or partial(_suggest_raising, what))(full.name, limit)
        raise RateLimitedError(
            f"the tool may send {limit} requests per {full.name}",
            retry_after_seconds=wait,
            limit_type=full.name,
            hint=f"wait {wait:.0f} s" + (f", or {raised}" if raised else "; no setting raises it"),
        )

    def remaining(self, user: str, tool: str, config: RateLimitConfig, *, what: str = "http") -> tuple[int, int]:
        """Return how many requests are still allowed in the current minute and hour.

        Raises:
            ExternalServiceError: Redis does not respond.
        """
        key, limits = _window_key(user, tool, what), (config.requests_per_minute, config.requests_per_hour)
        minute, hour = (
            max(0, limit - self._store.inspect(key, window, limit)[1])
            for window, limit in zip(WINDOWS, limits, strict=True)
        )
        return minute, hour


def _suggest_raising(what: str, window: str, limit: int) -> str:
    """Return how to raise the limit for requests of this kind, in the capability or configuration file."""
    if what == "call":
        return f"raise the limit: {set_command(f'rates.calls_per_{window}', 2 * limit)}"
    return f"raise {'tool_invoke' if what == 'invoke' else what}.rate_limit.requests_per_{window}, now {limit}"


@lru_cache(maxsize=4096)
def _window_key(user: str, tool: str, what: str) -> str:
    # SECURITY: quoted; otherwise user "a/b" with tool "c" would share the windows of user "a" with tool "b/c".
    return "/".join(quote(part, safe="") for part in (what, user, tool))


def _redis_windows(url: str, fallback: WindowStore | None) -> WindowStore:
    try:
        from wasmrt.egress.rates._redis import RedisWindows  # imports an optional package, in 50 ms
    except ImportError as error:
        message = f"rate limits in Redis need the package {error.name}"
        raise ConfigurationError(message, hint="pip install 'wasmrt[redis]'") from None
    return RedisWindows(url, fallback)
