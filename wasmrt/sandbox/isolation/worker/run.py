"""The run worker: the calls of one component and one user. It can only compute and send requests to the host."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, NoReturn

from wasmrt.core.errors import InvalidParametersError, MemoryLimitError, WasmrtError
from wasmrt.core.limits import ResourceLimits
from wasmrt.core.model import LogEntry, LogLevel
from wasmrt.core.strict_json import JsonError, parse_json, write_json
from wasmrt.sandbox.component import ToolSpec, worlds
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.component import LinkedComponent
from wasmrt.sandbox.guest.engine import Ticker
from wasmrt.sandbox.guest.requests import Request
from wasmrt.sandbox.guest.runner import Description
from wasmrt.sandbox.guest.services import Reply
from wasmrt.sandbox.isolation.wire import (
    DESCRIPTION_BOUNDS,
    NO_EXCHANGE,
    Channel,
    ClosedError,
    Head,
    Kind,
)
from wasmrt.sandbox.isolation.wire.calls import CallHead, pack_counts, write_error
from wasmrt.sandbox.isolation.wire.requests import HostEndedError, read_reply, write_request
from wasmrt.sandbox.isolation.worker.tasks import MAX_FRAME_BYTES, CallTask, CallTasks, LoneCall, WorkerLifetime
from wasmrt.sandbox.schema import Validator


class RemoteServices:
    """The `HostServices` of a call, over the worker's socket."""

    def __init__(
        self,
        task: CallTask | LoneCall,
        ticker: Ticker,
        has_workspace: bool,
        max_request_bytes: int,
        max_write_bytes: int,
    ) -> None:
        self._task = task
        self._ticker = ticker
        self.has_workspace = has_workspace
        self.max_request_bytes = max_request_bytes
        self.max_write_bytes = max_write_bytes

    def handle(self, request: Request[Reply]) -> Reply:
        """Send a request to the host and wait for its reply.

        Raises:
            HostFailure: the host refused the request, or failed to handle it.
            HostEndedError: the call has ended.
        """
        head, tail = write_request(request, self.max_request_bytes, self.max_write_bytes)
        self._task.send(Kind.IMPORT, head, tail)
        # The host sends the reply even after a cancellation.
        return request.read_reply(read_reply(self._ticker.paused(self._task.receive)))


IDLE_SECONDS = 60
"""A worker without calls for this time exits. It first tells the host, so that no call is lost."""


class _StreamingCall(GuestCall):
    """A call whose log lines are sent immediately, so that they survive a crash of the worker."""

    __slots__ = ("is_shared", "task")

    lifetime: WorkerLifetime
    task: CallTask | LoneCall

    def pause(self) -> None:
        """Let the worker's other calls run."""
        self.lifetime.pause()

    def log(self, level: LogLevel, message: str) -> None:
        """Store a log line within the limits, and send it with its position. Printed text extends the last line."""
        before = len(self.logs)
        super().log(level, message)
        if len(self.logs) > before:
            entry: LogEntry = self.logs[-1]
            head = {"place": before, "level": str(entry.level), "message": entry.message, "at": entry.timestamp_ms}
            self.task.send(Kind.LOG, head)


class RunWorker:
    """Answers the host's frames until it is idle for too long or its socket is closed."""

    def __init__(self, component: LinkedComponent, end: socket.socket, name: str, ticker: Ticker) -> None:
        self._component = component
        self._ticker = ticker
        self._channel = Channel(end).patient(IDLE_SECONDS)
        self._tasks, self._lone = CallTasks(self._channel), LoneCall(self._channel)
        self._name = name
        self._validators: dict[str, Validator] = {}

    def serve(self) -> None:
        """Serve the host's frames, and run the calls."""
        channel, tasks = self._channel, self._tasks
        channel.send(Kind.READY)
        while True:
            if not tasks.run_ready():
                continue
            channel.waiting = self._idle if tasks.is_empty else _refuse_wait
            frame = channel.receive(MAX_FRAME_BYTES, joins=True)
            if frame.kind == Kind.CALL:
                head = CallHead.unpack(frame.head)
                if head.is_shared:
                    tasks.start(channel.number, partial(self._call, head, frame.tail))
                else:
                    channel.waiting = _refuse_wait
                    self._call(head, frame.tail, self._lone)
            elif frame.kind == Kind.DESCRIBE:
                self._describe()
            elif frame.kind == Kind.ADOPT:
                self._adopt(frame.fields(DESCRIPTION_BOUNDS))
            elif frame.kind != Kind.CANCEL or not tasks.is_empty:  # otherwise the call has ended
                tasks.deliver(frame)

    def _idle(self, _events: int) -> NoReturn:
        self._channel.number = NO_EXCHANGE
        self._channel.send(Kind.BYE)
        raise ClosedError("idle for too long")

    def _describe(self) -> None:
        try:
            description = self._component.describe(self._name)
        except WasmrtError as error:
            self._channel.send(Kind.FAULT, write_error(error))
            return
        self._channel.send(Kind.DESCRIBED, describe_fields(description))

    def _adopt(self, head: Head) -> None:
        specs = {spec["name"]: ToolSpec(spec["name"], schema=spec["schema"]) for spec in head.items("specs", 1000)}
        self._component.adopt(Description(specs, head.whole("memories"), 0))

    def _call(self, head: CallHead, tail: bytes | memoryview, task: CallTask | LoneCall) -> None:
        split = head.params_bytes
        params, context = str(tail[:split], "utf-8"), str(tail[split:], "utf-8") if head.has_context else None
        lifetime = WorkerLifetime(head.seconds, task, self._ticker)
        services = RemoteServices(task, self._ticker, head.has_workspace, head.max_request_bytes, head.max_write_bytes)
        call = _StreamingCall(lifetime, self._component.limits, services, head.clock())
        call.task, call.lifetime, call.is_shared = task, lifetime, task.is_shared
        try:
            accepted = self._accept_tool(head.tool, params)
            text = self._component.run(call, head.tool, accepted, context, user="")
            size = len(text)
            call.charge_text(size if text.isascii() else len(text.encode("utf-8", "surrogatepass")))
        except HostEndedError:
            task.send(Kind.FAULT, {"ended": "by the host"}, pack_counts(call))
        except WasmrtError as error:
            task.send(Kind.FAULT, write_error(error), pack_counts(call))
        except MemoryError:
            task.send(Kind.FAULT, write_error(_make_memory_error(self._component.limits)), pack_counts(call))
        else:
            task.send(Kind.RESULT, pack_counts(call), text.encode("utf-8", "surrogatepass"))

    def _accept_tool(self, tool: str, text: str) -> str:
        validator = self._validators.get(tool)
        if validator is None:
            validator = self._validators[tool] = Validator(self._component.description.specs[tool].schema)
        try:
            params = parse_json(text)  # the host has checked the size of the params
        except JsonError as error:
            raise InvalidParametersError(f"params are {error}", hint="pass a JSON object") from error
        try:
            accepted = validator.accept(params)
        except InvalidParametersError:
            if worlds.schema_decides(self._component.world) or not isinstance(params, dict):
                raise
            return text  # this schema is only a description: the guest decides, or a package's schema has decided
        return text if accepted is params else write_json(accepted)


def describe_fields(description: Description) -> dict[str, Any]:
    """Return a description as the head of a frame."""
    return {
        "specs": [spec.as_dict() for spec in description.specs.values()],
        "memories": description.memories,
        "fuel": description.fuel,
    }


def _make_memory_error(limits: ResourceLimits) -> MemoryLimitError:
    return MemoryLimitError(
        "the guest's worker ran out of memory",
        limit=limits.memory_bytes, used=None, setting="limits.memory_bytes",
    )  # fmt: skip


def _refuse_wait(_events: int) -> None:
    return None  # the host enforces the deadline
