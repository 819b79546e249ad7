"""One run of a job in this process: the context of its runner, and the record of its calls."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from wasmrt.agent.jobs._model import (
    EVENT_TYPES,
    MAX_EVENT_CHARS,
    MAX_EVENTS_PER_JOB,
    MAX_OUTPUT_CHARS,
    JobEvent,
    JobResult,
    JobState,
    Prompt,
)
from wasmrt.agent.jobs._runner import AgentRunner, Budget, ResumableRunner
from wasmrt.agent.jobs._store import JobStore, Owned, Spent
from wasmrt.agent.registry import Caller, ToolView, Trace, bind_view, detector_of
from wasmrt.catalog.bundled import CREATE_JOB
from wasmrt.core.errors import BudgetExceededError, CancelledError, ConfigurationError, ToolError, WasmrtError
from wasmrt.core.labels import Label
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import ToolOutput
from wasmrt.core.strict_json import JsonError, write_json


class Run:
    """A run that holds the lease of its job. It is the runner's `JobContext`, and observes the calls of the tools.

    Raises:
        ConfigurationError: `view` has the tools of another job.
    """

    _trace: Trace  # open while the runner runs

    def __init__(self, owned: Owned, store: JobStore, view: ToolView, seconds: float, max_tokens: int | None) -> None:
        self._job, self._spent, self.owner = owned
        self._store = store
        self._max_tokens = max_tokens
        self._redact = detector_of(view).redact
        self._lock = threading.Lock()
        self._calls = 0
        self._active = time.monotonic()
        self.lifetime = Lifetime(seconds)
        self.ended = threading.Event()
        """Set when the runner has returned."""
        caller = Caller(
            user=self.user, trace=self.trace_id, parent_id=self.job_id, chain=(CREATE_JOB,), lifetime=self.lifetime,
            observer=self,
        )  # fmt: skip
        self._tools = bind_view(view, caller)

    # -- what the runner uses --------------------------------------------------------------------------------------

    @property
    def job_id(self) -> str:
        """The ID of the job."""
        return self._job.id

    @property
    def mode(self) -> str:
        """The mode of the job, which selects its runner."""
        return self._job.mode

    @property
    def user(self) -> str:
        """The user of the job."""
        return self._job.user

    @property
    def trace_id(self) -> str:
        """The trace of the job's calls. A run that continues a job has a new one, so that no earlier run closes it."""
        number = f"-{self._job.repairs}" if self._job.repairs else ""
        return f"job-{self._job.id}{number}"

    @property
    def tools(self) -> ToolView:
        """The tools of the job."""
        return self._tools

    @property
    def cancelled(self) -> bool:
        """True if the job has ended."""
        return self.lifetime.is_over

    def inbox(self) -> Sequence[Prompt]:
        """Return the messages that arrived since the last call, in order."""
        self.lifetime.check()
        found = self._store.take_prompts(self._job.id, self.owner)
        for prompt in found:
            self._trace.add_content(prompt.content, _derive_text_labels(prompt.labels), source="job_prompt")
            self.emit("message", {"role": "user", "content": prompt.content})
        return found

    def emit(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Record an event."""
        if event_type not in EVENT_TYPES:
            expected = ", ".join(EVENT_TYPES)
            raise ConfigurationError(f"expected an event type, got {event_type!r:.40}", hint=f"pass one of {expected}")
        self.lifetime.check()
        self._active = time.monotonic()
        self._store.add_event(self._job.id, self.owner, event_type, self._clean_data(data))

    def events(self) -> Sequence[JobEvent]:
        """Return the events of this run and of earlier ones."""
        return self._store.events(self._job.id, MAX_EVENTS_PER_JOB)[1]

    def begin_iteration(self) -> None:
        """Count one turn of the model."""
        most = self._job.task.max_iterations
        self._spend(Spent(1, 0))
        if self._spent.iterations > most:
            raise BudgetExceededError(
                "Maximum iterations exceeded", limit=most, used=self._spent.iterations, setting="max_iterations",
                hint="create the job with more iterations, or split its task",
            )  # fmt: skip

    def add_tokens(self, count: int) -> None:
        """Count tokens that the model used."""
        if count < 0:
            raise ConfigurationError(f"expected a number of tokens, got {count!r:.40}")
        self._spend(Spent(0, count))
        used, most = self._spent.tokens, self._max_tokens
        if most is not None and used > most:
            raise BudgetExceededError(
                f"Token budget exceeded: used {used} of {most} allowed tokens", limit=most, used=used,
                setting="max_tokens", hint="split the task into several jobs",
            )  # fmt: skip

    def remaining(self) -> Budget:
        """Return the time, iterations and tokens that are left."""
        iterations = max(self._job.task.max_iterations - self._spent.iterations, 0)
        tokens = None if self._max_tokens is None else max(self._max_tokens - self._spent.tokens, 0)
        return Budget(self.lifetime.remaining(), iterations, tokens)

    # -- calls of the tools ----------------------------------------------------------------------------------------

    def begin_call(self, name: str, arguments: Any) -> None:
        """Record that a call begins.

        SECURITY: the event is written under the lease, so that a process that was paused makes no further call.

        Raises:
            CancelledError: the job has ended.
        """
        with self._lock:
            self._calls += 1
        self.emit("tool_use", {"tool_name": name, "input": arguments})

    def end_call(self, name: str, output: ToolOutput | None, failure: ToolError | None) -> None:
        """Record the output or the failure of a call."""
        with self._lock:
            self._calls -= 1
        text = failure.for_model() if failure is not None else None if output is None else output.result
        with suppress(ToolError):  # the job has ended; the call itself has its own receipt
            self.emit("tool_result", {"tool_name": name, "output": text})

    # -- the run ---------------------------------------------------------------------------------------------------

    def idle_seconds(self) -> float:
        """Return the time since the last event or iteration; 0 while a tool runs."""
        return 0.0 if self._calls > 0 else time.monotonic() - self._active

    def work(self, runner: AgentRunner) -> None:
        """Run the job to its end, and store its result."""
        try:
            result = self._run(runner)
        except BaseException as error:
            result = JobResult(self._describe(error), success=False)
        try:
            self._finish(result)
        except WasmrtError:
            pass  # the job was cancelled, another process continues it, or the store cannot be used
        finally:
            self.lifetime.cancel()  # calls that the runner left behind
            self.ended.set()

    def _run(self, runner: AgentRunner) -> JobResult:
        job = self._job
        self._trace = self._tools.trace(self.trace_id, user=job.user)
        try:
            self._trace.add_content("\n".join(job.task[:3]), _derive_text_labels(job.labels), source=CREATE_JOB)
            if job.state is JobState.PENDING:
                self._store.move(job.id, JobState.IN_PROGRESS, "started", owner=self.owner)
                returned = runner.run(job.task, self)
            else:
                assert isinstance(runner, ResumableRunner)  # no other runner continues a job
                # SECURITY: the labels of what earlier runs read are not stored.
                earlier = [dict(event.data) for event in self.events()]
                self._trace.add_content(earlier, [Label.PRIVATE, Label.UNTRUSTED], source="earlier run")
                returned = runner.resume(job.task, self)
            return read_result(returned, self.lifetime)
        finally:
            with suppress(WasmrtError):
                self._trace.close()

    def _finish(self, result: JobResult) -> None:
        state = JobState.COMPLETED if result.success else JobState.FAILED
        fallback = None if result.fallback is None else json.loads(self._clean_data(result.fallback))
        output = self._redact(result.output[:MAX_OUTPUT_CHARS])
        self._store.add_event(self._job.id, self.owner, "result", json.dumps({"status": str(state)}))
        reason = "the run ended" if result.success else output[:MAX_EVENT_CHARS]
        final = result._replace(output=output, fallback=fallback)
        self._store.move(self._job.id, state, reason, owner=self.owner, result=final)

    def _describe(self, error: BaseException) -> str:
        """Return the reason of a failure: the time limit if the run exceeded its deadline, else the error's text."""
        if self.lifetime.is_over and not self.lifetime.cancelled.is_set():
            return f"timed out after {self.lifetime.deadline - self.lifetime.started:.0f} s"
        return describe_error(error)

    def _spend(self, more: Spent) -> None:
        self.lifetime.check()
        with self._lock:
            self._active = time.monotonic()
            self._spent = Spent(self._spent.iterations + more.iterations, self._spent.tokens + more.tokens)
            self._store.spend(self._job.id, self.owner, self._spent)

    def _clean_data(self, data: Mapping[str, Any]) -> str:
        """Return JSON data as text of a bounded size and without secrets.

        SECURITY: events are stored in a file, and are read by later conversations.
        """
        try:
            text = write_json(dict(data))
            redacted = self._redact(text)
            if redacted != text:
                text = write_json({key: self._redact(_as_text(value)) for key, value in data.items()})
        except (JsonError, TypeError, ValueError) as error:
            raise ConfigurationError(f"expected JSON data in an event: {error}") from error
        if len(text) <= MAX_EVENT_CHARS:
            return text
        part = MAX_EVENT_CHARS // max(len(data), 1) // 8  # a character takes at most six in JSON text
        cut = {str(key)[:100]: _as_text(value)[:part] for key, value in list(json.loads(text).items())[:16]}
        return write_json(cut | {"truncated": True})


def describe_error(error: BaseException) -> str:
    """Return the text of an error that the embedding program's code raised."""
    return error.message if isinstance(error, WasmrtError) else f"{type(error).__name__}: {error}"


def _derive_text_labels(conversation: Iterable[str] | None) -> set[str]:
    """Return the labels of text that a conversation with these labels wrote. `untrusted` overrides `trusted`."""
    labels = set(conversation or ())
    return labels - {Label.TRUSTED} if Label.UNTRUSTED in labels else labels


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else write_json(value)


def read_result(returned: JobResult | str | Awaitable[JobResult | str], lifetime: Lifetime) -> JobResult:
    """Return the result of a runner's return value; a coroutine runs in an event loop until `lifetime` ends.

    Raises:
        ConfigurationError: the result is neither a `JobResult` nor a text.
        CancelledError, DeadlineExceededError: `lifetime` has ended.
    """
    if isinstance(returned, Awaitable):
        returned = asyncio.run(_await_result(returned, lifetime))
    if isinstance(returned, str):
        return JobResult(returned)
    if not isinstance(returned, JobResult) or not isinstance(returned.output, str):
        raise ConfigurationError(f"expected the runner to return a JobResult or a text, got {type(returned).__name__}")
    return returned


async def _await_result(result: Awaitable[JobResult | str], lifetime: Lifetime) -> JobResult | str:
    task, loop = asyncio.ensure_future(result), asyncio.get_running_loop()

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(task.cancel)

    try:
        with lifetime.cancelled.waking(cancel):
            async with asyncio.timeout(lifetime.remaining()):
                return await task
    except TimeoutError:
        lifetime.check()
        raise
    except asyncio.CancelledError:
        raise CancelledError("the job was cancelled") from None
