"""Functions that need a handle which is never given out: no guest can call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.core.errors import InternalError


def unreachable(resource: str, methods: str) -> dict[str, Callable[..., Any]]:
    """`[method]resource.name` for every word of `methods`, each an internal error should it ever run."""
    return {f"[method]{resource}.{method}": _method(f"{resource}.{method}") for method in methods.split()}


def _method(name: str) -> Callable[..., Any]:
    def refuse(*_: object) -> Any:
        raise InternalError(f"{name} was called, but no {name.partition('.')[0]} was ever given out")

    return refuse
