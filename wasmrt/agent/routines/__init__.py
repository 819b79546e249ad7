"""Routines: prompts that run on a schedule, on an event, on a webhook or on demand."""

from __future__ import annotations

from wasmrt.agent.routines._engine import RoutineEngine
from wasmrt.agent.routines._model import (
    MAX_EVENT_CHARS,
    ActionType,
    Definition,
    FireRefusedError,
    Routine,
    Run,
    RunState,
    TriggerType,
    describe_trigger,
    timestamp,
)
from wasmrt.agent.routines._read import changed_definition, read_definition
from wasmrt.agent.routines._schedule import Schedule
from wasmrt.agent.routines._store import RoutineStore, Trigger
from wasmrt.agent.routines._tools import add_routines, register_routine_tools, routine_tools

__all__ = [
    "MAX_EVENT_CHARS",
    "ActionType",
    "Definition",
    "FireRefusedError",
    "Routine",
    "RoutineEngine",
    "RoutineStore",
    "Run",
    "RunState",
    "Schedule",
    "Trigger",
    "TriggerType",
    "add_routines",
    "changed_definition",
    "describe_trigger",
    "read_definition",
    "register_routine_tools",
    "routine_tools",
    "timestamp",
]
