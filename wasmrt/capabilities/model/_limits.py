"""Limits of one tool that differ from the runtime's."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from wasmrt.capabilities.model._checks import check_numbers
from wasmrt.core.limits import ResourceLimits

MAX_CALL_TIMEOUT_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Limits of one tool that needs others than the runtime's; None keeps the runtime's.

    Raises:
        ConfigurationError: a limit is not a positive number, or the timeout is longer than a day.
    """

    memory_bytes: int | None = None
    fuel: int | None = None
    timeout_seconds: float | None = None
    output_bytes: int | None = None
    table_elements: int | None = None
    instances: int | None = None

    def __post_init__(self) -> None:
        check_numbers(self, *self.overrides())
        if self.timeout_seconds is not None:
            check_numbers(self, "timeout_seconds", maximum=MAX_CALL_TIMEOUT_SECONDS)

    def overrides(self) -> dict[str, Any]:
        """Return the limits that are set."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def over(self, defaults: ResourceLimits) -> ResourceLimits:
        """Return the runtime's limits with these in their place."""
        return replace(defaults, **self.overrides())
