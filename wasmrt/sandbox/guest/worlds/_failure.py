"""A refusal of the host, in the shapes of the tool worlds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.sandbox.component import Err, Ok
from wasmrt.sandbox.guest.requests import HostFailure


def as_text(failure: HostFailure) -> str:
    """For worlds whose errors are one string."""
    return f"{failure.code}: {failure.message}"


def as_failure(failure: HostFailure) -> dict[str, Any]:
    """wasmrt:tool's `failure`."""
    return {"kind": failure.kind, "code": failure.code, "message": failure.message}


def as_http_failure(failure: HostFailure) -> dict[str, Any]:
    """near:agent@0.4.1's `http-failure`."""
    return {**as_failure(failure), "request-sent": failure.request_sent}


def result(render: Callable[[HostFailure], Any], ask: Callable[..., Any], *values: Any) -> Ok | Err:
    """Ask the host, and make a WIT `result` of what it answers or refuses."""
    try:
        return Ok(ask(*values))
    except HostFailure as failure:
        return Err(render(failure))
