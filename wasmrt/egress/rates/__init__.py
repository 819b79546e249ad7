"""Rate limits: sliding windows in this process, or in a shared Redis."""

from __future__ import annotations

from wasmrt.egress.rates._limiter import RateLimiter

__all__ = ["RateLimiter"]
