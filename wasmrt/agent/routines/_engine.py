"""RoutineEngine: start routines when they are due, on an event, on a webhook or on demand, and record the results."""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, NamedTuple

from wasmrt.agent.approvals import DenyApprover, QueueApprover
from wasmrt.agent.flows import Label
from wasmrt.agent.jobs import (
    AgentRunner,
    JobResult,
    Jobs,
    JobState,
    JobTask,
    create_project,
    read_result,
)
from wasmrt.agent.registry import ToolView, Trace, detector_of
from wasmrt.agent.routines._context import RoutineContext
from wasmrt.agent.routines._model import (
    JOB_SECONDS,
    MAX_EVENT_CHANNEL_CHARS,
    MAX_EVENT_CHARS,
    MAX_EVENT_NAME_CHARS,
    MAX_RUNS_AT_ONCE,
    OK,
    RUN_SECONDS,
    SCHEDULED,
    ActionType,
    FireRefusedError,
    Routine,
    Run,
    RunState,
    TriggerType,
)
from wasmrt.agent.routines._read import compile_pattern, find_hidden_text
from wasmrt.agent.routines._store import RoutineStore, Trigger
from wasmrt.agent.safety import wrap_tool_output
from wasmrt.core.errors import ConfigurationError, InvalidParametersError, LimitError, ToolError, WasmrtError
from wasmrt.core.leases import LeaseKeeper
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import KIB
from wasmrt.core.strict_json import JsonError, write_json

TICK_SECONDS = 15.0
_SLOT_SECONDS = 0.5
"""The time between two attempts to start a job while all slots of jobs are taken."""
_RETRIES = 2
_RETRY_SECONDS = 1.0
_MAX_CONTEXT_CHARS = 64 * KIB  # for each document
_log = logging.getLogger("wasmrt.routines")


class _Active(NamedTuple):
    future: Future[None]
    lifetime: Lifetime


class RoutineEngine:
    """Runs the routines of a store, either with the embedding program's runner or as jobs.

    Call `tick` regularly, or `serve` in a separate thread. `event` starts the routines of a channel's messages, and
    `system_event` those of structured events. `notify` is called with each run that needs attention or has failed.
    It has to send the text to `notify_user` and `notify_channel` of the routine's definition.

    SECURITY: no user is present while a routine runs. A call that requires approval waits in the queue, or is denied.

    Raises:
        ConfigurationError: the approver of the tools is neither a `QueueApprover` nor a `DenyApprover`.
    """

    def __init__(
        self, store: RoutineStore, tools: ToolView, runner: AgentRunner | None = None, *, jobs: Jobs | None = None,
        notify: Callable[[Routine, Run, RunState, str], None] | None = None,
    ) -> None:  # fmt: skip
        approver = tools.approvals.approver
        if not isinstance(approver, (QueueApprover, DenyApprover)):
            raise ConfigurationError(
                f"expected a QueueApprover or a DenyApprover for routines, got {type(approver).__name__}",
                hint="pass a registry of load_registry(runtime, approver=QueueApprover(store))",
            )
        if runner is None and (jobs is None or not jobs.modes):
            hint = "pass a runner, or jobs with a runner"
            raise ConfigurationError("expected a runner of routines, got none", code="no-runner", hint=hint)
        self.store = store
        self._tools, self._runner, self._jobs, self._notify = tools, runner, jobs, notify
        self._redact = detector_of(tools).redact
        self._pool = ThreadPoolExecutor(MAX_RUNS_AT_ONCE, thread_name_prefix="routine")
        self._active: dict[str, _Active] = {}
        self._lock = threading.Lock()
        self._keeper = LeaseKeeper(store.leases, self._lifetimes)

    # -- triggers --------------------------------------------------------------------------------------------------

    def tick(self) -> list[Run]:
        """Start every routine whose time has come, once each, and return the runs."""
        self.store.recover()
        return self._fire_all(
            (routine, Trigger(kind, f"{kind} {routine.next_ms}", routine.definition.schedule or routine.definition.at))
            for routine in self.store.due()
            if (kind := routine.definition.trigger_type) in SCHEDULED
        )

    def event(self, channel: str, text: str, *, user: str = "local", event_id: str = "") -> list[Run]:
        """Start the user's routines whose pattern matches a message of a channel, and return the runs.

        Messages with the same `event_id` start a routine once. The text counts as untrusted.

        Raises:
            InvalidParametersError: the channel or the text is too long.
        """
        if len(channel) > MAX_EVENT_CHANNEL_CHARS or len(text) > MAX_EVENT_CHARS:
            raise InvalidParametersError(
                f"expected at most {MAX_EVENT_CHANNEL_CHARS} characters of a channel and {MAX_EVENT_CHARS} of a text, "
                f"got {len(channel)} and {len(text)}; shorten the text"
            )
        trigger = Trigger(TriggerType.EVENT, f"event {channel} {event_id or secrets.token_hex(16)}", channel)
        matching = (
            (routine, trigger)
            for routine in self.store.routines(user, TriggerType.EVENT)
            if routine.definition.event_channel in ("", channel)
            and compile_pattern(routine.definition.event_pattern).search(text) is not None
        )
        return self._fire_all(matching, text)

    def system_event(
        self, source: str, event_type: str, payload: Mapping[str, Any], *, user: str = "local", event_id: str = ""
    ) -> list[Run]:
        """Start the user's routines for a structured event, such as `issue.opened` of `github`; return the runs.

        The filters of a routine are compared with values of `payload`. The payload counts as untrusted.

        Raises:
            InvalidParametersError: the payload is not JSON data, or too long.
        """
        try:
            text = write_json(dict(payload))
        except (JsonError, TypeError, ValueError) as error:
            raise InvalidParametersError(f"payload: expected JSON data: {error}") from None
        if len(text) > MAX_EVENT_CHARS or max(len(source), len(event_type)) > MAX_EVENT_NAME_CHARS:
            raise InvalidParametersError(
                f"expected a payload of at most {MAX_EVENT_CHARS} characters, and a source and an event type of at "
                f"most {MAX_EVENT_NAME_CHARS} characters each; shorten the longer ones"
            )
        slot = f"system_event {source!r} {event_type!r} {event_id or secrets.token_hex(16)}"
        trigger = Trigger(TriggerType.SYSTEM_EVENT, slot, f"{source}: {event_type}")
        matching = (
            (routine, trigger)
            for routine in self.store.routines(user, TriggerType.SYSTEM_EVENT)
            if routine.definition.event_source.casefold() == source.casefold()
            and routine.definition.event_type == event_type
            and all(_is_same(payload.get(key), value) for key, value in routine.definition.event_filters.items())
        )
        return self._fire_all(matching, text)

    def run(self, user: str, name: str) -> Run:
        """Start a routine by hand, regardless of its cooldown.

        Raises:
            ToolError: the user has no such routine, or it cannot be started now.
        """
        run = self.fire(self.store.get(user, name), Trigger(TriggerType.MANUAL, f"manual {secrets.token_hex(16)}"))
        assert run is not None
        return run

    def fire(self, routine: Routine, trigger: Trigger, text: str = "") -> Run | None:
        """Claim a slot of a routine and start its run, or return None if the slot was used before.

        Raises:
            FireRefusedError: the routine cannot be started now.
        """
        run = self.store.claim(routine, trigger)
        if run is not None:
            lifetime = Lifetime(JOB_SECONDS if routine.definition.action_type is ActionType.FULL_JOB else RUN_SECONDS)
            with self._lock:
                try:
                    future = self._pool.submit(self._perform, routine, run, text, lifetime)
                except RuntimeError:  # the engine was closed
                    self.store.finish(run, RunState.FAILED, "the engine was closed")
                    raise FireRefusedError(
                        "the engine of the routines is closed", hint="create a new RoutineEngine"
                    ) from None
                self._active = {key: each for key, each in self._active.items() if not each.future.done()}
                self._active[run.id] = _Active(future, lifetime)
            self._keeper.wake()
        return run

    def _fire_all(self, due: Iterable[tuple[Routine, Trigger]], text: str = "") -> list[Run]:
        """Start routines, and return the runs."""
        started = []
        for routine, trigger in due:
            try:
                run = self.fire(routine, trigger, text)
            except ToolError as refused:  # a scheduled routine stays due, unless it was deleted
                _log.info("%s", refused)
                continue
            started += [] if run is None else [run]
        return started

    def wait(self, run: Run) -> None:
        """Wait until a run that this engine started has ended."""
        active = self._active.get(run.id)
        if active is not None:
            active.future.result()

    def serve(self, stop: threading.Event) -> None:
        """Start due routines every 15 seconds until `stop` is set, then end all runs."""
        try:
            while not stop.is_set():
                try:
                    self.tick()
                except WasmrtError as error:
                    _log.warning("cannot start routines: %s", error)
                stop.wait(TICK_SECONDS)
        finally:
            self.close()

    def close(self) -> None:
        """Cancel all runs and wait for their end."""
        with self._lock:
            self._pool.shutdown(wait=False)  # before the list is read, so that no run starts later
            active = list(self._active.values())
        for each in active:
            each.lifetime.cancel()
        self._pool.shutdown()
        self._keeper.close()

    def _lifetimes(self) -> dict[str, Lifetime]:
        """Return the lifetimes of the runs whose leases are renewed."""
        active = list(self._active.items())
        return {key: each.lifetime for key, each in active if not (each.future.done() or each.lifetime.is_over)}

    # -- runs ------------------------------------------------------------------------------------------------------

    def _perform(self, routine: Routine, run: Run, text: str, lifetime: Lifetime) -> None:
        """Run a routine, and record its result. Errors become failed runs."""
        tokens: int | None = None
        try:
            with closing(self._tools.trace(f"routine-{run.id}", user=routine.user)) as trace:
                result, tokens = self._run(routine, run, text, lifetime, trace)
            state, summary = _judge(result)
        except WasmrtError as error:
            state, summary = RunState.FAILED, f"{error.code}: {error.message}"
        except BaseException as error:  # the embedding program's runner failed, or exits
            _log.warning("a runner failed", exc_info=True)
            state, summary = RunState.FAILED, f"the runner failed: {type(error).__name__}"
        summary = self._redact(summary)  # SECURITY: the history is stored and shown to models
        self.store.finish(run, state, summary, tokens=tokens)
        if self._notify is not None and state is not RunState.OK:
            self._notify(routine, run, state, summary)

    def _run(
        self, routine: Routine, run: Run, text: str, lifetime: Lifetime, trace: Trace
    ) -> tuple[JobResult, int | None]:
        found = routine.definition
        # SECURITY: the store's file may have been restored or edited, so the prompt is checked before each run.
        if (reason := find_hidden_text(found.prompt)) is not None:
            raise InvalidParametersError(f"the prompt {reason}", code="prompt-refused")
        _label_prompt(routine, trace)
        context = [*self._read_documents(routine, trace)]
        if routine.last_summary:
            trace.add_content(routine.last_summary, [Label.PRIVATE, Label.UNTRUSTED], source="previous run")
            context.append(f"Result of the previous run:\n{routine.last_summary}")
        if text:
            # SECURITY: anyone who can write to the channel or the sender of the webhook may have written this text.
            trace.add_content(text, [Label.UNTRUSTED], source=run.trigger_type)
            context.append(wrap_tool_output(f"{run.trigger_type} message", text, redact=self._redact).text)
        task = found.as_task("\n\n".join(context))
        if found.action_type is ActionType.FULL_JOB or self._runner is None:
            return self._run_job(task, routine, lifetime, trace), None
        view = self._tools.for_subagent() if found.use_tools else self._tools.only(())
        job = RoutineContext(
            run, view, trace=trace.name, lifetime=lifetime, turns=task.max_iterations,
            check=lambda: self.store.check_lease(run),
        )  # fmt: skip
        return self._call_runner(task, job), job.tokens or None

    def _run_job(self, task: JobTask, routine: Routine, lifetime: Lifetime, trace: Trace) -> JobResult:
        """Run a full job to its end, once a slot of the jobs is free. If the run is cancelled, so is the job."""
        jobs = self._jobs
        if jobs is None or not jobs.modes:
            hint = "pass jobs, or use action_type lightweight"
            raise ConfigurationError(
                "this process has no runner for jobs, which a full_job needs", code="no-jobs", hint=hint
            )
        task = task._replace(project_dir=str(create_project(routine.user, f"routine-{routine.id}")))
        while True:
            try:
                job = jobs.create(task, user=routine.user, mode=jobs.modes[0], labels=trace.labels)
                break
            except LimitError:  # more routines than jobs may run at a time
                lifetime.wait(_SLOT_SECONDS)
        try:
            job = jobs.wait(job.id, user=routine.user, seconds=math.inf, lifetime=lifetime)
        except ToolError:
            with suppress(ToolError):  # the job has ended meanwhile
                jobs.cancel(job.id, user=routine.user, reason="the routine's run has ended")
            raise
        return JobResult(job.output, success=job.state not in (JobState.FAILED, JobState.CANCELLED))

    def _call_runner(self, task: JobTask, job: RoutineContext) -> JobResult:
        """Call the runner. If it fails with a retryable error and no tool was called, call it again, at most twice."""
        assert self._runner is not None
        for attempt in range(_RETRIES + 1):
            try:
                found = read_result(self._runner.run(task, job), job.lifetime)
                job.lifetime.check()
                return found
            except WasmrtError as error:
                if not error.retryable or attempt == _RETRIES or job.cancelled or job.calls:
                    raise
                job.lifetime.wait(_RETRY_SECONDS * 2**attempt)
        raise AssertionError

    def _read_documents(self, routine: Routine, trace: Trace) -> list[str]:
        """Return the texts of the routine's documents. A tool call reads them, so that the trace gets their labels."""
        view, documents = self._tools.read_only(), []
        for path in routine.definition.context_paths:
            result = view.execute("read_file", {"path": path}, user=routine.user, trace=trace.name).result
            content = result["content"] if isinstance(result, dict) and "content" in result else str(result)
            documents.append(
                wrap_tool_output("read_file", f"{path}\n{content[:_MAX_CONTEXT_CHARS]}", redact=self._redact).text
            )
        return documents


def _label_prompt(routine: Routine, trace: Trace) -> None:
    """Add the prompt to the trace.

    SECURITY: only a prompt that a user approved counts as the user's text. Any other prompt has the labels of the
    conversation that wrote it, and is untrusted if these labels are unknown.
    """
    if routine.approved:
        trace.add_user_message(routine.definition.prompt)
        return
    labels = {Label.UNTRUSTED} if routine.labels is None else {*map(Label, routine.labels)} - {Label.TRUSTED}
    labels = labels or {Label.TRUSTED}
    trace.add_content(routine.definition.prompt, labels, source="routine")


def _judge(result: JobResult) -> tuple[RunState, str]:
    text = result.output.strip()
    if not result.success:
        return RunState.FAILED, text or "the run failed"
    if not text:
        return RunState.FAILED, "EmptyResponse: the model returned no text"
    return (RunState.OK, OK) if text == OK else (RunState.ATTENTION, text)


def _is_same(found: object, expected: object) -> bool:
    """Return whether a value of an event equals the value of its filter. In JSON, true is not 1."""
    return found == expected and isinstance(found, bool) == isinstance(expected, bool)
