"""Tools for routines: routine_create, routine_list, routine_update, routine_delete and routine_history.

Source of names, parameters and answers: IronClaw's routine tools, section 4.9.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from wasmrt.agent.builtin.host_tool import HostTool, Params, Plan
from wasmrt.agent.builtin.secret_check import refuse_secrets
from wasmrt.agent.jobs import AgentRunner
from wasmrt.agent.registry import ToolRegistry, detector_of
from wasmrt.agent.routines._engine import RoutineEngine
from wasmrt.agent.routines._model import (
    DEFAULT_COOLDOWN_SECONDS,
    DEFAULT_TOOL_ROUNDS,
    MAX_CONTEXT_PATH_CHARS,
    MAX_CONTEXT_PATHS,
    MAX_CRON_CHARS,
    MAX_EVENT_CHANNEL_CHARS,
    MAX_EVENT_FILTERS,
    MAX_EVENT_PATTERN_CHARS,
    MAX_HISTORY,
    MAX_ITERATIONS,
    MAX_ROUTINE_DESCRIPTION_CHARS,
    MAX_TOOL_ROUNDS,
    MAX_ZONE_CHARS,
    ActionType,
    Definition,
    Routine,
    TriggerType,
    describe_trigger,
    timestamp,
)
from wasmrt.agent.routines._read import changed_definition, read_definition
from wasmrt.agent.routines._store import RoutineStore
from wasmrt.core.effects import Effect
from wasmrt.core.errors import WasmrtError
from wasmrt.core.labels import Label
from wasmrt.core.model import ToolOutput
from wasmrt.core.places import find_places
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.stores import store_place

_DEFAULT_HISTORY = 10
_NAME = {"type": "string", "minLength": 1, "description": "The routine's name, unique among the user's routines"}
_PROMPT = {"type": "string", "minLength": 1, "description": "What to do in each run"}
_SCHEDULE = {
    "type": "string", "maxLength": MAX_CRON_CHARS,
    "description": "Cron expression: minute hour day month weekday; 6 fields begin with seconds, 7 end with a year",
}  # fmt: skip
_ZONE = {"type": "string", "maxLength": MAX_ZONE_CHARS, "description": "IANA time zone of the schedule, default UTC"}
_AT = {"type": "string", "description": "For once: the time, such as 2026-12-24T18:00:00, in the time zone"}
_DESCRIPTION = {"type": "string", "maxLength": MAX_ROUTINE_DESCRIPTION_CHARS}
_ITERATIONS = {"type": "integer", "minimum": 1, "maximum": MAX_ITERATIONS, "description": "Turns of a full job"}
_CREATE: dict[str, dict[str, Any]] = {
    "name": _NAME,
    "trigger_type": {"type": "string", "description": f"What starts it: {', '.join(TriggerType)}"},
    "prompt": _PROMPT,
    "description": _DESCRIPTION,
    "schedule": _SCHEDULE,
    "at": _AT,
    "timezone": _ZONE,
    "event_pattern": {
        "type": "string", "maxLength": MAX_EVENT_PATTERN_CHARS,
        "description": "For event: a regular expression (RE2) that is searched in each message",
    },
    "event_channel": {
        "type": "string", "maxLength": MAX_EVENT_CHANNEL_CHARS,
        "description": "For event: only messages of this channel",
    },
    "event_source": {"type": "string", "description": "For system_event: the source, such as github"},
    "event_type": {"type": "string", "description": "For system_event: the type, such as issue.opened"},
    "event_filters": {
        "type": "object", "maxProperties": MAX_EVENT_FILTERS,
        "description": "For system_event: values that the event must have: texts, numbers or booleans",
    },
    "notify_channel": {"type": "string", "description": "Where results are sent"},
    "notify_user": {"type": "string", "description": "Who gets the results, by default the user"},
    "context_paths": {
        "type": "array", "maxItems": MAX_CONTEXT_PATHS,
        "items": {"type": "string", "maxLength": MAX_CONTEXT_PATH_CHARS},
        "description": "Files of the workspace that each run reads",
    },
    "action_type": {
        "type": "string", "description": "lightweight (one answer, the default) or full_job (a job with tools)",
    },
    "use_tools": {"type": "boolean", "default": False, "description": "Let a lightweight run call read-only tools"},
    "max_tool_rounds": {
        "type": "integer", "minimum": 1, "maximum": MAX_TOOL_ROUNDS, "default": DEFAULT_TOOL_ROUNDS,
    },
    "max_iterations": _ITERATIONS,
    "cooldown_secs": {
        "type": "integer", "minimum": 0, "default": DEFAULT_COOLDOWN_SECONDS,
        "description": "Minimum number of seconds between two runs",
    },
}  # fmt: skip
_UPDATE: dict[str, dict[str, Any]] = {
    "name": _NAME,
    "enabled": {"type": "boolean"},
    "prompt": _PROMPT,
    "schedule": _SCHEDULE,
    "at": _AT,
    "timezone": _ZONE,
    "description": _DESCRIPTION,
    "max_iterations": _ITERATIONS,
}
_HISTORY: dict[str, dict[str, Any]] = {
    "name": _NAME,
    "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HISTORY, "default": _DEFAULT_HISTORY},
}


@dataclass(eq=False)
class RoutineTool(HostTool):
    """A tool that requires approval of some calls. `asks` returns the text that the approver sees, or None."""

    asks: Callable[[Params, str], str | None] = lambda params, user: None
    user: str = "local"

    def in_conversation(self, user: str, trace_id: str) -> Self:
        """Return the tool for the calls of a user."""
        bound = copy(self)
        bound.user = user
        return bound

    def requires_approval(self, params: Any) -> bool:
        """Return whether a call requires approval, that is, whether `asks` returns a text for the approver."""
        return self._find_question(params) is not None

    def preview(self, params: Any, context: ToolContext) -> str | None:
        """Return what the approver of a call sees, or None if the call requires no approval."""
        return self._find_question(params)

    def _find_question(self, params: Any) -> str | None:
        try:
            return self.asks(params, self.user)
        except (WasmrtError, KeyError, TypeError):  # the call fails with this error
            return None

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        """Run the tool."""
        context = context or ToolContext()
        shown = self.asks(params, context.user)
        if shown is not None:
            self._check_shown(Plan(shown, lambda _: None), params, context)
        return super().execute(params, context)


def routine_tools(
    store: RoutineStore, tools: Callable[[], list[str]], *, detector: LeakDetector | None = None
) -> tuple[HostTool, ...]:
    """Return the tools for a store. Each call reaches only its user's routines.

    `tools` returns the names of the tools that runs may call, for the approver.
    """
    calls = _RoutineCalls(store, tools, detector or LeakDetector())
    write, read = [Effect.WRITE_MEMORY], [Effect.READ_MEMORY]
    return (
        RoutineTool(
            "routine_create",
            "Create a routine: a prompt that runs on a schedule (cron), at one time (once), on messages (event), on "
            "events of other systems (system_event), on an HTTP request (webhook) or on demand (manual). Use it if the "
            "user wants something to happen again or later.",
            _CREATE, calls.create, required=["name", "trigger_type", "prompt"], effects=write, asks=calls.ask_create,
            command=lambda _: "wasmrt run routine_create @FILE",
        ),
        HostTool(
            "routine_list", "List the user's routines with their next times and states.", {}, calls.list, effects=read
        ),
        RoutineTool(
            "routine_update", "Change a routine's prompt, schedule or description, or enable or disable it.",
            _UPDATE, calls.update, required=["name"], effects=write, asks=calls.ask_update,
            command=lambda _: "wasmrt run routine_update @FILE",
        ),
        HostTool(
            "routine_delete", "Delete a routine and its history.",
            {"name": _NAME}, calls.delete, required=["name"], effects=write,
        ),
        HostTool(
            "routine_history", "Show the latest runs of a routine, newest first.",
            _HISTORY, calls.history, required=["name"], effects=read,
        ),
    )  # fmt: skip


class _RoutineCalls:
    """The functions of the tools, thread-safe."""

    def __init__(self, store: RoutineStore, tools: Callable[[], list[str]], detector: LeakDetector) -> None:
        self._store, self._tools, self._detector = store, tools, detector

    def ask_create(self, params: Params, user: str) -> str | None:
        found = read_definition(params)
        return self._describe(found, "Create") if found.needs_approval else None

    def ask_update(self, params: Params, user: str) -> str | None:
        routine = self._store.get(user, params["name"])
        found = changed_definition(routine.definition, params)
        # SECURITY: without this, a model could replace the prompt that the user approved.
        wakes = params.get("enabled") is True and not routine.enabled
        return self._describe(found, "Change") if found.needs_approval and (wakes or _differ(found, routine)) else None

    def create(self, params: Params, context: ToolContext) -> dict[str, Any]:
        found = read_definition(params)
        _refuse_secrets(self._detector, found)
        made = self._store.create(context.user, found, approved=context.shown is not None, labels=context.seen)
        return {
            "id": made.id, "name": made.name, "trigger_type": str(found.trigger_type),
            "next_fire_at": timestamp(made.next_ms), "status": "created",
        }  # fmt: skip

    def list(self, params: Params, context: ToolContext) -> ToolOutput:
        found = [each.as_dict() for each in self._store.routines(context.user)]
        return ToolOutput({"count": len(found), "routines": found})

    def update(self, params: Params, context: ToolContext) -> dict[str, Any]:
        routine = self._store.get(context.user, params["name"])
        found = changed_definition(routine.definition, params)
        _refuse_secrets(self._detector, found)
        same, enabled = not _differ(found, routine), params.get("enabled")
        labels = routine.labels if same else context.seen
        if not same and context.seen is not None:
            labels = context.seen | {Label(each) for each in routine.labels or (Label.UNTRUSTED,)}
        changed = self._store.update(
            routine, found, enabled=routine.enabled if enabled is None else enabled,
            approved=context.shown is not None or (same and routine.approved), labels=labels,
        )  # fmt: skip
        return {
            "name": changed.name, "enabled": changed.enabled, "trigger_type": str(found.trigger_type),
            "next_fire_at": timestamp(changed.next_ms) if changed.enabled else None, "status": "updated",
        }  # fmt: skip

    def delete(self, params: Params, context: ToolContext) -> dict[str, Any]:
        self._store.delete(context.user, params["name"])
        return {"name": params["name"], "deleted": True}

    def history(self, params: Params, context: ToolContext) -> ToolOutput:
        """Return runs. Their summaries may repeat text of events, webhooks and files."""
        name = params["name"]
        runs = self._store.history(context.user, name, params.get("limit", _DEFAULT_HISTORY))
        labels = (Label.PRIVATE, Label.UNTRUSTED) if any(each.summary for each in runs) else None
        return ToolOutput({"name": name, "runs": [each.as_dict() for each in runs]}, labels=labels)

    def _describe(self, found: Definition, verb: str) -> str:
        """Return what an approver sees: trigger, prompt, tools and recipient."""
        if found.action_type is ActionType.FULL_JOB:
            how = f"a job of at most {found.max_iterations} turns"
        else:
            how = f"one answer with at most {found.max_tool_rounds} rounds of tools"
        lines = [
            f"{verb} the routine {found.name!r}, which runs without a user present:",
            f"  when: {describe_trigger(found)}",
            f"  action: {how}; at least {found.cooldown_secs} seconds between runs",
            f"  files: {', '.join(found.context_paths) or 'none'}",
            f"  tools: {', '.join(self._tools()) or 'none'}" if found.may_use_tools else "  tools: none",
            f"  results: {_describe_recipient(found)}",
            "  prompt:",
            *(f"    {line}" for line in found.prompt.splitlines()),
        ]
        return "\n".join(lines)


def _describe_recipient(found: Definition) -> str:
    channel = f" on {found.notify_channel}" if found.notify_channel else ""
    return f"to {found.notify_user or 'the user'}{channel}"


def _differ(found: Definition, routine: Routine) -> bool:
    """Return whether a definition differs in more than the description, which no run reads."""
    return replace(found, description="") != replace(routine.definition, description="")


def _refuse_secrets(detector: LeakDetector, found: Definition) -> None:
    """Refuse a secret. SECURITY: definitions are stored in a file and sent to the model in every run."""
    refuse_secrets(detector, "\n".join(map(str, asdict(found).values())))


def add_routines(
    registry: ToolRegistry, runner: AgentRunner | None = None, *, store: RoutineStore | None = None, **settings: Any
) -> RoutineEngine:
    """Register the tools of routines in a registry, and return the engine that runs them. The registry closes it.

    `settings` are further arguments of `RoutineEngine`. Call `serve` of the engine in a thread to start routines.

    Raises:
        ConfigurationError: the approver of the registry is neither a queue nor a denial, or there is no runner.
        InvalidNameError: the registry already has these tools.

    Example:
        >>> from wasmrt import ToolRegistry
        >>> from wasmrt.agent.routines import add_routines
        >>> class Shout:
        ...     def run(self, task, job):
        ...         return task.title.upper()
        >>> with ToolRegistry() as registry:
        ...     engine = add_routines(registry, Shout())
        ...     params = {"name": "hello", "trigger_type": "manual", "prompt": "Greet."}
        ...     _ = registry.execute("routine_create", params)
        ...     engine.wait(engine.run("local", "hello"))
        ...     registry.execute("routine_history", {"name": "hello"}).result["runs"][0]["result_summary"]
        'HELLO'
    """
    store = store or RoutineStore(store_place(find_places().routines))
    engine = RoutineEngine(store, registry, runner, **settings)
    registry.on_close(engine.close)
    register_routine_tools(registry, store)
    return engine


def register_routine_tools(registry: ToolRegistry, store: RoutineStore) -> None:
    """Register the tools of routines in a registry whose routines another process runs."""
    for tool in routine_tools(store, lambda: registry.for_subagent().tool_names(), detector=detector_of(registry)):
        registry.register(tool, builtin=True, group="routines")
