"""A call without a component: its host and guest objects, and the WASI functions as the engine calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wasmrt.capabilities import Capabilities
from wasmrt.core.limits import ResourceLimits
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.backends import GuestHttp
from wasmrt.runtime.call import Backends, Call, CallServices
from wasmrt.sandbox.guest import wasi
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import Clock, LogicalClock

_INTERFACES = {interface.name.partition("@")[0]: interface for interface in wasi.interfaces()}
_DETECTOR = LeakDetector()


class Guest:
    """Calls WASI functions of one call."""

    def __init__(
        self,
        *,
        seconds: float = 30,
        clock: Clock | None = None,
        workspace: Any = None,
        writer: Any = None,
        grant: Capabilities | None = None,
        http: Any = None,
    ) -> None:
        limits = ResourceLimits(timeout_seconds=seconds)
        grant = grant or Capabilities.none()
        self.call = Call(
            call_id="test",
            tool="test",
            limits=limits,
            grant=grant,
            full_grant=grant,
            backends=Backends(
                _DETECTOR, workspace=workspace, writer=writer, http=None if http is None else GuestHttp(http)
            ),
        )
        self.services = CallServices(self.call)
        self.ctx = self.call.guest = GuestCall(self.call.lifetime, limits, self.services, clock or LogicalClock())

    def __call__(self, name: str, *values: Any) -> Any:
        interface, _, function = name.partition("#")
        return _INTERFACES[f"wasi:{interface}"].functions[function](self.ctx, *values)

    def drop(self, resource: str, handle: int) -> None:
        interface, _, name = resource.partition("#")
        _INTERFACES[f"wasi:{interface}"].resources[name](self.ctx, handle)

    @property
    def lines(self) -> list[str]:
        return [entry.message for entry in self.ctx.logs]


@pytest.fixture
def guest() -> Guest:
    return Guest()


@pytest.fixture
def new_guest() -> Callable[..., Guest]:
    return Guest
