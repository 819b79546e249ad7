"""Rate limits, and resource limits of one tool that replace the limits of the runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from wasmrt.capabilities._fields import Number, ObjectSchema, Property
from wasmrt.capabilities._phrases import format_number, join_words
from wasmrt.capabilities.kinds._capability import Change, Numbers
from wasmrt.capabilities.model import check_numbers
from wasmrt.core.limits import DEFAULT_REQUESTS_PER_HOUR, DEFAULT_REQUESTS_PER_MINUTE, ResourceLimits

MAX_REQUESTS = 1_000_000
MAX_CALL_TIMEOUT_SECONDS = 86_400
_NAMES = {
    "memory_bytes": "memory",
    "fuel": "units of fuel",
    "timeout_seconds": "time",
    "output_bytes": "a result's size",
    "table_elements": "elements in a table",
    "instances": "core instances",
}
RATE_NAMES = {"requests_per_minute": "times a minute", "requests_per_hour": "times an hour"}
_UNITS = {
    "memory_bytes": "of memory",
    "fuel": "units of fuel",
    "timeout_seconds": "for a call",
    "output_bytes": "of output",
    "table_elements": "elements in a table",
    "instances": "core instances",
}


@dataclass(frozen=True, slots=True)
class RateLimitConfig:
    """Maximum numbers of requests in sliding windows, for each user and tool.

    Examples:
        >>> from wasmrt import RateLimitConfig
        >>> RateLimitConfig(requests_per_minute=10).requests_per_hour
        1000
    """

    requests_per_minute: int = DEFAULT_REQUESTS_PER_MINUTE
    requests_per_hour: int = DEFAULT_REQUESTS_PER_HOUR

    def __post_init__(self) -> None:
        check_numbers(self, "requests_per_minute", "requests_per_hour", maximum=MAX_REQUESTS)

    def intersect(self, other: RateLimitConfig) -> RateLimitConfig:
        """Return the lower of the two rates for each window."""
        return RateLimitConfig(
            min(self.requests_per_minute, other.requests_per_minute),
            min(self.requests_per_hour, other.requests_per_hour),
        )

    def numbers(self) -> dict[str, float]:
        """Return the rates by their paths in the section that contains `rate_limit`."""
        return {f"rate_limit.{name}": number for name, number in asdict(self).items()}

    def as_json(self, outer: RateLimitConfig) -> dict[str, Any]:
        """Return `rate_limit` and its JSON data for a section. Rates that are equal in `outer` are omitted."""
        theirs = asdict(outer)
        changed = {name: number for name, number in asdict(self).items() if number != theirs[name]}
        return {"rate_limit": changed} if changed else {}

    def describe(self) -> str:
        """Describe the rates: `60 times a minute and 1,000 times an hour`."""
        return f"{self.requests_per_minute:,} times a minute and {self.requests_per_hour:,} times an hour"


RATE = Property(
    field=ObjectSchema(
        {
            "requests_per_minute": Property(field=Number(maximum=MAX_REQUESTS), about="60 by default."),
            "requests_per_hour": Property(field=Number(maximum=MAX_REQUESTS), about="1000 by default."),
        }
    ),
    about="Rate limits for each user.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """Limits of one tool that replace the limits of the runtime. If a limit is None, the runtime's limit applies.

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
        """Return the limits that are not None."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}

    def over(self, defaults: ResourceLimits) -> ResourceLimits:
        """Replace the runtime's limits `defaults` by the limits of this tool that are not None."""
        return replace(defaults, **self.overrides())

    def intersect(self, other: ToolLimits, defaults: ResourceLimits) -> ToolLimits:
        """Return the lower value of each limit. For a limit that is None, the value in `defaults` is compared."""
        theirs, usual = asdict(other.over(defaults)), asdict(defaults)
        least = {name: min(value, theirs[name]) for name, value in asdict(self.over(defaults)).items()}
        return ToolLimits(**{name: value for name, value in least.items() if value != usual[name]})

    def added(self, before: ToolLimits, defaults: ResourceLimits, numbers: Numbers) -> Iterator[Change]:
        """Yield a change for each limit that is larger than in `before`."""
        return numbers.larger("limits", asdict(before.over(defaults)), asdict(self.over(defaults)), _NAMES)

    def describe(self) -> str:
        """Describe the limits that are set: `64 MiB of memory and 30 seconds for a call`."""
        return join_words(f"{format_number(name, value)} {_UNITS[name]}" for name, value in self.overrides().items())


LIMITS = Property(
    field=ObjectSchema(
        {
            "memory_bytes": Property(
                field=Number(example="67108864 for 64 MiB"),
                about="Total size of all linear memories.",
                aliases=("memory",),
            ),
            "fuel": Property(field=Number(example="500000000"), about="Approximate number of instructions of a call."),
            "timeout_seconds": Property(
                field=Number(fraction=True, maximum=MAX_CALL_TIMEOUT_SECONDS, example="30 for half a minute"),
                about="Maximum duration of one call, including host calls.",
                aliases=("timeout",),
            ),
            "output_bytes": Property(
                field=Number(example="1048576 for 1 MiB"), about="Maximum size of the result.", aliases=("output",)
            ),
            "table_elements": Property(field=Number(), about="Maximum number of elements in each table."),
            "instances": Property(field=Number(), about="Maximum number of core instances."),
        }
    ),
    about="Limits that replace the limits of the runtime.",
)
