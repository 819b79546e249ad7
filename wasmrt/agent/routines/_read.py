"""Read and check the definition of a routine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from wasmrt.agent.jobs import check_task
from wasmrt.agent.routines._model import (
    MAX_CONTEXT_PATH_CHARS,
    MAX_CONTEXT_PATHS,
    MAX_COOLDOWN_SECONDS,
    MAX_EVENT_CHANNEL_CHARS,
    MAX_EVENT_FILTERS,
    MAX_EVENT_NAME_CHARS,
    MAX_EVENT_PATTERN_BYTES,
    MAX_EVENT_PATTERN_CHARS,
    MAX_ITERATIONS,
    MAX_NOTIFY_CHARS,
    MAX_ROUTINE_DESCRIPTION_CHARS,
    MAX_ROUTINE_NAME_BYTES,
    MAX_ROUTINE_PROMPT_BYTES,
    MAX_TOOL_ROUNDS,
    SCHEDULED,
    ActionType,
    Definition,
    TriggerType,
)
from wasmrt.agent.routines._schedule import Schedule, read_moment
from wasmrt.agent.safety import Sanitizer, ThreatLevel, Validator
from wasmrt.core.errors import InvalidParametersError
from wasmrt.egress.leaks import ExpressionError, compile_text_pattern


def read_definition(params: Mapping[str, Any]) -> Definition:
    """Return the definition in the params of `routine_create`.

    Raises:
        InvalidParametersError: a value is missing, unknown or too large.
    """
    given = {key: value for key, value in params.items() if value is not None}
    return check_definition(
        Definition(
            **given
            | {
                "trigger_type": _read_choice(TriggerType, "trigger_type", given.get("trigger_type")),
                "action_type": _read_choice(
                    ActionType, "action_type", given.get("action_type", ActionType.LIGHTWEIGHT)
                ),
                "context_paths": tuple(given.get("context_paths", ())),
            }
        )
    )


def changed_definition(found: Definition, params: Mapping[str, Any]) -> Definition:
    """Return a definition with the changes in the params of `routine_update`.

    Raises:
        InvalidParametersError: a value is invalid, or the routine has no schedule.
    """
    keys = ("prompt", "schedule", "at", "description", "timezone", "max_iterations")
    changes = {key: params[key] for key in keys if params.get(key) is not None}
    if {"schedule", "timezone"} & changes.keys() and found.trigger_type not in SCHEDULED:
        raise InvalidParametersError("Cannot update schedule or timezone on a non-cron routine.")
    return check_definition(replace(found, **changes))


def check_definition(found: Definition) -> Definition:
    """Return a definition if it is valid.

    Raises:
        InvalidParametersError: a value is missing or too large, or does not fit the trigger.
    """
    _check_text("name", found.name, MAX_ROUTINE_NAME_BYTES)
    if not found.name.isprintable() or found.name != found.name.strip():
        raise InvalidParametersError(
            "a name must contain only printable characters, and no space at its beginning or end"
        )
    _check_text("prompt", found.prompt, MAX_ROUTINE_PROMPT_BYTES)
    if (reason := find_hidden_text(found.prompt)) is not None:
        raise InvalidParametersError(f"the prompt {reason}; write it as plain text", code="prompt-refused")
    for key, text, limit in (
        ("description", found.description, MAX_ROUTINE_DESCRIPTION_CHARS),
        ("event_channel", found.event_channel, MAX_EVENT_CHANNEL_CHARS),
        ("event_source", found.event_source, MAX_EVENT_NAME_CHARS),
        ("event_type", found.event_type, MAX_EVENT_NAME_CHARS),
        ("notify_channel", found.notify_channel, MAX_NOTIFY_CHARS),
        ("notify_user", found.notify_user, MAX_NOTIFY_CHARS),
    ):
        if len(text) > limit:
            raise InvalidParametersError(f"{key} has {len(text)} characters; expected at most {limit}")
        if key != "description" and not text.isprintable():
            raise InvalidParametersError(f"expected printable characters in {key}, got {text!r:.100}")
    for key, number, low, high in (
        ("cooldown_secs", found.cooldown_secs, 0, MAX_COOLDOWN_SECONDS),
        ("max_tool_rounds", found.max_tool_rounds, 1, MAX_TOOL_ROUNDS),
        ("max_iterations", found.max_iterations, 1, MAX_ITERATIONS),
    ):
        if not low <= number <= high:
            raise InvalidParametersError(f"expected {key} from {low} to {high}, got {number}")
    _check_paths(found.context_paths)
    _check_trigger(found)
    check_task(found.as_task())  # every routine can run as a job
    return found


def find_hidden_text(prompt: str) -> str | None:
    """Return the reason to refuse a prompt with control tokens of models or invisible text; None for other prompts.

    SECURITY: a routine runs again and again without a user who reads its prompt.
    """
    flags = (*Validator().validate(prompt).flags, *Sanitizer().sanitize(prompt).flags)
    found = sorted({str(flag.threat) for flag in flags if flag.level in (ThreatLevel.HIGH, ThreatLevel.CRITICAL)})
    return f"contains {', '.join(found)}" if found else None


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Compile an event pattern for `search`, in linear time.

    Raises:
        InvalidParametersError: the pattern is invalid or too complex.
    """
    try:
        if len(pattern) <= MAX_EVENT_PATTERN_CHARS:
            return compile_text_pattern(pattern, memory_bytes=MAX_EVENT_PATTERN_BYTES)
        reason = f"expected at most {MAX_EVENT_PATTERN_CHARS} characters, got {len(pattern)}"
    except ExpressionError as error:
        reason = str(error)
    raise InvalidParametersError(f"invalid or too complex regex: {reason}")


def _check_trigger(found: Definition) -> None:
    kind = found.trigger_type
    if kind is TriggerType.CRON:
        if not found.schedule.strip():
            raise InvalidParametersError("cron trigger requires 'schedule'")
        Schedule(found.schedule, found.timezone).check(datetime.now(UTC))
    if kind is TriggerType.EVENT:
        if not found.event_pattern:
            raise InvalidParametersError("event trigger requires 'event_pattern'")
        compile_pattern(found.event_pattern)
    if kind is TriggerType.ONCE:
        if not found.at:
            raise InvalidParametersError("once trigger requires 'at'")
        read_moment(found.at, found.timezone)
    if kind is TriggerType.SYSTEM_EVENT:
        for key, value in (("event_source", found.event_source), ("event_type", found.event_type)):
            if not value.strip():
                raise InvalidParametersError(f"system_event trigger requires '{key}'")
        _check_filters(found.event_filters)
    for key, given, owner in (
        ("schedule", found.schedule, TriggerType.CRON),
        ("at", found.at, TriggerType.ONCE),
        ("event_source", found.event_source, TriggerType.SYSTEM_EVENT),
        ("event_type", found.event_type, TriggerType.SYSTEM_EVENT),
        ("event_filters", found.event_filters, TriggerType.SYSTEM_EVENT),
        ("event_pattern", found.event_pattern, TriggerType.EVENT),
        ("event_channel", found.event_channel, TriggerType.EVENT),
    ):
        if given and kind is not owner:
            raise InvalidParametersError(f"{key} requires trigger_type {owner}, got {kind}; leave out {key}")


def _check_filters(filters: Mapping[str, Any]) -> None:
    if len(filters) > MAX_EVENT_FILTERS:
        raise InvalidParametersError(f"expected at most {MAX_EVENT_FILTERS} event_filters, got {len(filters)}")
    for key, value in filters.items():
        valid = isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))
        if not 0 < len(key) <= MAX_EVENT_NAME_CHARS or not valid or len(str(value)) > MAX_EVENT_NAME_CHARS:
            raise InvalidParametersError(
                "event_filters: expected numbers, booleans, or strings of at most "
                f"{MAX_EVENT_NAME_CHARS} characters; {key!r:.60} has a different value"
            )


def _check_paths(paths: tuple[str, ...]) -> None:
    if len(paths) > MAX_CONTEXT_PATHS:
        raise InvalidParametersError(f"expected at most {MAX_CONTEXT_PATHS} context_paths, got {len(paths)}")
    for path in paths:
        if not isinstance(path, str) or not 0 < len(path) <= MAX_CONTEXT_PATH_CHARS:  # read_file decides on the rest
            raise InvalidParametersError(f"context_paths: expected paths in the workspace, got {path!r:.100}")


def _check_text(key: str, text: str, limit: int) -> None:
    size = len(text.encode(errors="surrogatepass"))
    if not text.strip() or size > limit:
        raise InvalidParametersError(f"expected {key} with 1 to {limit} bytes, got {size}")


def _read_choice(kind: type[TriggerType] | type[ActionType], key: str, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise InvalidParametersError(f"unknown {key}: {value!s:.80}; expected {', '.join(kind)}") from None
