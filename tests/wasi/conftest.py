"""A call without a guest: its context, and the WASI functions as the engine would call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wasmrt.capabilities import Capabilities
from wasmrt.context import CallContext, Clock, HttpDoor, LogicalClock, Services, Workspace
from wasmrt.guest import wasi
from wasmrt.leaks import LeakDetector
from wasmrt.limits import ResourceLimits

_INTERFACES = {interface.name.partition("@")[0]: interface for interface in wasi.interfaces()}
_DETECTOR = LeakDetector()


class Guest:
    """Calls WASI functions of one call."""

    def __init__(
        self,
        *,
        seconds: float = 30,
        clock: Clock | None = None,
        workspace: Workspace | None = None,
        grant: Capabilities | None = None,
        http: HttpDoor | None = None,
    ) -> None:
        self.context = CallContext(
            call_id="test",
            tool="test",
            user="local",
            limits=ResourceLimits(timeout_seconds=seconds),
            grant=grant or Capabilities.none(),
            services=Services(_DETECTOR, workspace=workspace, http=http),
            clock=clock or LogicalClock(),
        )

    def __call__(self, name: str, *values: Any) -> Any:
        interface, _, function = name.partition("#")
        return _INTERFACES[f"wasi:{interface}"].functions[function](self.context, *values)

    def drop(self, resource: str, handle: int) -> None:
        interface, _, name = resource.partition("#")
        _INTERFACES[f"wasi:{interface}"].resources[name](self.context, handle)

    @property
    def lines(self) -> list[str]:
        return [entry.message for entry in self.context.logs]


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture
def new_guest() -> Callable[..., Guest]:
    return Guest
