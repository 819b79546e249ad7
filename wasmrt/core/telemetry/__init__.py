"""OpenTelemetry spans, metrics and log records of calls: names and durations, never content."""

from __future__ import annotations

from wasmrt.core.telemetry._log import CALLS_LOGGER, log_call
from wasmrt.core.telemetry._telemetry import TOOL_ERROR, Operation, Telemetry, current_operation
from wasmrt.core.telemetry.names import NAMES, STATUS_CODE, Name

__all__ = [
    "CALLS_LOGGER",
    "NAMES",
    "STATUS_CODE",
    "TOOL_ERROR",
    "Name",
    "Operation",
    "Telemetry",
    "current_operation",
    "log_call",
]
