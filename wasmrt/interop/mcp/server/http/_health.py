"""Health checks for process managers, load balancers and Kubernetes."""

from __future__ import annotations

from wasmrt.interop.web import Request, Response, plain

HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"


def check_health(web: Request, *, is_ready: bool) -> Response | None:
    """Return the response to a health check, which requires no token; None for other requests.

    `/healthz` is 200 while the server handles requests. `/readyz` is 503 until the tools are available, and while the
    server closes. SECURITY: both are public, so they contain only the status.
    """
    if web.path not in (HEALTH_PATH, READY_PATH):
        return None
    if web.method not in ("GET", "HEAD"):
        return plain(405, headers=(("allow", "GET, HEAD"),))
    return plain(200 if is_ready or web.path == HEALTH_PATH else 503)
