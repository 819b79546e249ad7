"""`CallRunner`: what a prepared tool needs from its runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.call._call import CallPipeline, CallRequest
from wasmrt.runtime.call._target import CallTarget
from wasmrt.runtime.call._tasks import LoopCall

if TYPE_CHECKING:
    from concurrent.futures import Future

_Tool = TypeVar("_Tool", covariant=True)


class CallRunner(Protocol[_Tool]):
    """The runtime that a prepared tool belongs to."""

    @property
    def pipeline(self) -> CallPipeline:
        """The parts of the runtime that every call uses."""

    def prepared(self, name: str) -> _Tool | None:
        """Return the prepared tool to which grants refer as `name`, or None."""

    def check_open(self) -> None:
        """Raise `RuntimeClosedError` if the runtime accepts no more calls."""

    def submit(
        self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, limits: ResourceLimits
    ) -> tuple[Lifetime, Future[ToolOutput]]:
        """Run a call on one of the runtime's threads; return its lifetime, which has begun."""

    def start(self, run: Callable[[CallRequest], ToolOutput], request: CallRequest, target: CallTarget) -> LoopCall:
        """Start a call for the running event loop."""
