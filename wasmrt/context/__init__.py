"""One call's context: deadline, budgets, logs, decisions, and the services that it may use."""

from wasmrt.context._clock import Clock, LogicalClock, SystemClock
from wasmrt.context._context import LOG_OVERLAP_BYTES, CallContext, cut_log
from wasmrt.context._services import HttpDoor, Services, ToolInvoker, Workspace

__all__ = [
    "LOG_OVERLAP_BYTES",
    "CallContext",
    "Clock",
    "HttpDoor",
    "LogicalClock",
    "Services",
    "SystemClock",
    "ToolInvoker",
    "Workspace",
    "cut_log",
]
