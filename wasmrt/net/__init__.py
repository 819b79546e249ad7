from wasmrt.net._rates import RateLimiter

__all__ = ["RateLimiter"]
