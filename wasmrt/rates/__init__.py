"""Rate limits: sliding windows in this process, or in Redis for several machines."""

from __future__ import annotations

from wasmrt.rates._windows import (
    RateLimiter,
)

__all__ = [
    "RateLimiter",
]
