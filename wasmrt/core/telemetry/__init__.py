"""OpenTelemetry spans, metrics and log records of calls: names and durations, never content."""

from __future__ import annotations

from wasmrt.core.telemetry._prometheus import PrometheusMetrics
from wasmrt.core.telemetry._telemetry import TOOL_ERROR, Operation, Telemetry, current_operation
from wasmrt.core.telemetry.names import CALLS_LOGGER, NAMES, PENDING_APPROVALS, RUNNING_CALLS, STATUS_CODE

__all__ = [
    "CALLS_LOGGER",
    "NAMES",
    "PENDING_APPROVALS",
    "RUNNING_CALLS",
    "STATUS_CODE",
    "TOOL_ERROR",
    "Operation",
    "PrometheusMetrics",
    "Telemetry",
    "current_operation",
]
