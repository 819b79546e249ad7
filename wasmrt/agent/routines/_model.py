"""Routines as values: definitions, runs, states and limits.

Source of names, parameters, states, limits and errors: IronClaw's routine tools, section 4.9.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from wasmrt.agent.jobs import JobTask
from wasmrt.core.errors import ConfigurationError, ToolError
from wasmrt.core.limits import KIB

MAX_ROUTINES_PER_USER = 100
MAX_ROUTINE_NAME_BYTES = 256
MAX_ROUTINE_PROMPT_BYTES = 32 * KIB
MAX_ROUTINE_DESCRIPTION_CHARS = 1000
MAX_CRON_CHARS = 256
MAX_ZONE_CHARS = 64
MAX_CONTEXT_PATHS = 16
MAX_CONTEXT_PATH_CHARS = 1024
MAX_EVENT_PATTERN_CHARS = 1000
MAX_EVENT_PATTERN_BYTES = 64 * KIB  # compiled
MAX_EVENT_CHANNEL_CHARS = 128
MAX_EVENT_CHARS = 64 * KIB  # text of one event or webhook
MAX_EVENT_FILTERS = 16
MAX_EVENT_NAME_CHARS = 128  # a source, a type, the key of a filter
MAX_NOTIFY_CHARS = 128
MAX_RUNS_AT_ONCE = 10
MAX_STORED_RUNS = 500  # for each routine
MAX_HISTORY = 50
MAX_DUE = 128  # routines that one tick starts
MAX_SUMMARY_CHARS = 8192
DEFAULT_COOLDOWN_SECONDS = 300
MAX_COOLDOWN_SECONDS = 30 * 86400
DEFAULT_TOOL_ROUNDS = 3
MAX_TOOL_ROUNDS = 20
DEFAULT_ITERATIONS = 25
MAX_ITERATIONS = 200
RUN_SECONDS = 600.0  # a lightweight run
JOB_SECONDS = 24 * 3600.0  # a full job
CLAIM_SECONDS = 7 * 86400.0  # time for which used slots are stored


class TriggerType(StrEnum):
    """The cause of a run."""

    CRON = "cron"
    EVENT = "event"
    WEBHOOK = "webhook"
    MANUAL = "manual"
    ONCE = "once"
    SYSTEM_EVENT = "system_event"


SCHEDULED = (TriggerType.CRON, TriggerType.ONCE)
"""Triggers with a next time."""
OK = "ROUTINE_OK"
"""The answer that means that nothing needs the user's attention."""


class ActionType(StrEnum):
    """The action of a run: one answer of the model, or a job."""

    LIGHTWEIGHT = "lightweight"
    FULL_JOB = "full_job"


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    OK = "ok"
    ATTENTION = "attention"
    """The run ended with a text for the user."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The part of a routine that its author chooses."""

    name: str
    trigger_type: TriggerType
    prompt: str
    description: str = ""
    schedule: str = ""
    timezone: str = "UTC"
    event_pattern: str = ""
    event_channel: str = ""
    """The channel whose messages start the routine; empty for every channel."""
    at: str = ""
    """The time of the trigger `once`."""
    event_source: str = ""
    event_type: str = ""
    event_filters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Values that a system event must have."""
    notify_channel: str = ""
    """The channel to which the program sends results; empty for its default."""
    notify_user: str = ""
    """The recipient of the results; empty for the routine's user."""
    context_paths: tuple[str, ...] = ()
    action_type: ActionType = ActionType.LIGHTWEIGHT
    use_tools: bool = False
    max_tool_rounds: int = DEFAULT_TOOL_ROUNDS
    max_iterations: int = DEFAULT_ITERATIONS
    cooldown_secs: int = DEFAULT_COOLDOWN_SECONDS

    @property
    def may_use_tools(self) -> bool:
        """True if a run may call tools."""
        return self.use_tools or self.action_type is ActionType.FULL_JOB

    @property
    def needs_approval(self) -> bool:
        """True if a run may call tools, or sends its results to a place that the definition names."""
        return self.may_use_tools or bool(self.notify_channel or self.notify_user)

    def as_task(self, context: str = "") -> JobTask:
        """Return the task of a run."""
        turns = self.max_iterations
        if self.action_type is ActionType.LIGHTWEIGHT:
            turns = self.max_tool_rounds + 1 if self.use_tools else 1
        ending = f"If nothing needs the user's attention, reply EXACTLY with: {OK}"
        return JobTask(self.name, f"{self.prompt}\n\n{ending}", context, turns)

    @property
    def digest(self) -> str:
        """The digest of all settings that affect a run."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()

    def as_json(self) -> str:
        """Return the definition as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Definition:
        """Return the definition in a JSON text from `as_json`.

        Raises:
            ValueError, KeyError, TypeError: the text is from a different version.
        """
        data: dict[str, Any] = json.loads(text)
        data["trigger_type"] = TriggerType(data["trigger_type"])
        data["action_type"] = ActionType(data["action_type"])
        data["context_paths"] = tuple(data["context_paths"])
        return cls(**data)


class Routine(NamedTuple):
    """A stored routine."""

    id: str
    user: str
    definition: Definition
    enabled: bool
    approved: bool
    """True if a user saw and approved the definition."""
    labels: tuple[str, ...] | None
    """Labels of the conversation that wrote the definition; None if they are unknown."""
    created_ms: int
    next_ms: int | None
    last_ms: int | None
    run_count: int
    consecutive_failures: int
    running: bool
    verified: bool
    """True if the current definition had a successful run."""
    last_summary: str
    needs_attention: bool
    """True if the last run ended with a text for the user."""

    @property
    def name(self) -> str:
        """The name, which is unique among the routines of a user."""
        return self.definition.name

    @property
    def status(self) -> str:
        """The state: `disabled`, `running`, `failing`, `completed`, `unverified`, `attention` or `active`."""
        if not self.enabled:
            return "disabled"
        if self.running:
            return "running"
        if self.consecutive_failures:
            return "failing"
        if self.definition.trigger_type is TriggerType.ONCE and self.next_ms is None:
            return "completed"
        if not self.verified:
            return "unverified"
        return "attention" if self.needs_attention else "active"

    def as_dict(self) -> dict[str, Any]:
        """Return the routine as `routine_list` and `wasmrt routines list --json` show it."""
        found = self.definition
        return {
            "id": self.id,
            "name": found.name,
            "description": found.description,
            "enabled": self.enabled,
            "trigger_type": str(found.trigger_type),
            "schedule": found.schedule or found.at or None,
            "timezone": found.timezone if found.trigger_type in SCHEDULED else None,
            "action_type": str(found.action_type),
            "last_run_at": timestamp(self.last_ms),
            "next_fire_at": timestamp(self.next_ms) if self.enabled else None,
            "run_count": self.run_count,
            "consecutive_failures": self.consecutive_failures,
            "status": self.status,
        }


class Run(NamedTuple):
    """One run of a routine."""

    id: str
    routine_id: str
    user: str
    trigger_type: str
    detail: str
    started_ms: int
    ended_ms: int | None
    state: RunState
    summary: str
    tokens: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return the run as `routine_history` shows it."""
        seconds = None if self.ended_ms is None else (self.ended_ms - self.started_ms) / 1000
        return {
            "id": self.id,
            "trigger_type": self.trigger_type,
            "trigger_detail": self.detail,
            "started_at": timestamp(self.started_ms),
            "completed_at": timestamp(self.ended_ms),
            "duration_secs": seconds,
            "status": str(self.state),
            "result_summary": self.summary,
            "tokens_used": self.tokens,
        }


def describe_trigger(found: Definition) -> str:
    """Return the trigger of a routine as text for users."""
    return {
        TriggerType.CRON: f"cron {found.schedule} ({found.timezone})",
        TriggerType.ONCE: f"once at {found.at} ({found.timezone})",
        TriggerType.EVENT: f"messages of {found.event_channel or 'every channel'} matching {found.event_pattern}",
        TriggerType.SYSTEM_EVENT: f"events {found.event_type} of {found.event_source}"
        + (f" with {json.dumps(dict(found.event_filters), sort_keys=True)}" if found.event_filters else ""),
        TriggerType.WEBHOOK: "webhook",
        TriggerType.MANUAL: "manual",
    }[found.trigger_type]


def timestamp(ms: int | None) -> str | None:
    """Return a time in Unix milliseconds as an RFC 3339 text in UTC."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def not_found(name: str) -> ToolError:
    """Return the error for an unknown routine. SECURITY: a routine of another user is reported in the same way."""
    return ToolError(
        f"routine {name[:MAX_ROUTINE_NAME_BYTES]!r} not found", code="routine-not-found", hint="routine_list shows them"
    )


class FireRefusedError(ToolError):
    """A routine was not started. `code` is the reason: `routine-disabled`, `routine-cooldown`, `routine-busy`."""

    code = "routine-busy"


def make_unusable_error(reason: str) -> ConfigurationError:
    """Return the error for a store that cannot be used."""
    return ConfigurationError(
        f"the routines cannot be read or written: {reason}", code="routine-store",
        hint="check the data directory: wasmrt doctor",
    )  # fmt: skip
