"""OpenTelemetry spans and metrics of calls: names and durations, never content."""

from __future__ import annotations

from wasmrt.core.telemetry._telemetry import TOOL_ERROR, Operation, Telemetry, current_operation
from wasmrt.core.telemetry.names import NAMES, STATUS_CODE, Name

__all__ = ["NAMES", "STATUS_CODE", "TOOL_ERROR", "Name", "Operation", "Telemetry", "current_operation"]
