"""What the host offers a tool, as the rooms that use it see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from wasmrt.context._context import CallContext
    from wasmrt.egress import SecretsView
    from wasmrt.leaks import LeakDetector


class HttpDoor(Protocol):
    """The gateway: checks, sends and scrubs one request, or raises `HttpFailure`; `open` waits for the head."""

    networks: Any
    """Those that the operator exempts from the judging of addresses."""

    def fetch(self, call: Any, request: Any) -> Any: ...
    def open(self, call: Any, request: Any) -> Any: ...


class Workspace(Protocol):
    """wasmrt.workspace's reader: raises `CapabilityDeniedError` for what it refuses."""

    def read(self, path: str) -> bytes: ...
    def list(self, path: str = "") -> Any: ...


class ToolInvoker(Protocol):
    """call/'s way to another tool by alias: raises `ToolError` or `CapabilityDeniedError`."""

    def invoke(self, context: CallContext, alias: str, params: str) -> str: ...


class Services(NamedTuple):
    """What the host offers a tool beyond its call's bookkeeping; None where nothing is configured."""

    detector: LeakDetector
    http: HttpDoor | None = None
    workspace: Workspace | None = None
    secrets_of: Callable[[str], SecretsView] | None = None
    """From a user to the view of that user's secrets, and of nobody else's."""
    tools: ToolInvoker | None = None
