"""The host's handle for a run worker: send a call, decide the requests of the guest, receive the result.

SECURITY: a worker is hostile as soon as it has run a guest. Its frames are bounded, read field by field, and never
decide anything. A worker that violates the protocol is ended, and its call fails.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from wasmrt.core.errors import InvalidParametersError, WasmrtError, WorkerCrashedError
from wasmrt.core.lifetime import QUICK_SECONDS, EndEvent, Lifetime
from wasmrt.core.limits import (
    MAX_DESCRIPTION_BYTES,
    MAX_LOG_ENTRIES,
    MAX_SCHEMA_BYTES,
    MAX_TOOLS_PER_COMPONENT,
    MIB,
)
from wasmrt.core.names import MAX_NAME_LENGTH
from wasmrt.core.strict_json import JsonError, check_size, check_text, write_json
from wasmrt.sandbox.component import ANY_OBJECT, ToolSpec, printable_line
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.runner import Description
from wasmrt.sandbox.isolation.pool.serving import Server, read_log
from wasmrt.sandbox.isolation.wire import (
    DESCRIPTION_BOUNDS,
    FRAME_BYTES,
    MAX_DESCRIPTION_HEAD,
    Channel,
    ClosedError,
    Frame,
    Head,
    Kind,
    ProtocolError,
)
from wasmrt.sandbox.isolation.wire.calls import CallHead, clock_fields, read_error, take_counts

GRACE_SECONDS = 0.05
"""Time after the deadline in which a worker can stop its guest and report the error. Nearly all workers do."""
_FRAME_ROOM = 2 * MIB
_CREDENTIALS = struct.Struct("3i")
_MAX_MEMORIES = 64
_READY_BYTES = FRAME_BYTES + len(b"{}")


class WorkerGoneError(WasmrtError):
    """A worker ended before it received this call."""

    code = "worker-gone"

    def __init__(self, message: str, *, idle: bool) -> None:
        super().__init__(message)
        self.idle = idle
        """True if the worker reported that it waited too long for a call."""


class CallChannel(Protocol):
    """The exchange of one call with its worker: a `Channel`, or a lane of a lease."""

    waiting: Callable[[int], None]
    between: Callable[[], None]

    def begin(self) -> None:
        """Start the exchange."""

    def send(self, kind: Kind, head: dict[str, Any] | bytes = ..., *tail: bytes | memoryview) -> None:
        """Send a frame."""

    def receive(self, most: int) -> Frame:
        """Wait for a frame of at most `most` bytes."""

    def await_ready(self, events: int, seconds: float, ended: EndEvent | None) -> None:
        """Wait until a frame may have arrived."""

    def cancel(self) -> None:
        """Ask the worker to end the call."""


class Worker:
    """A run worker and the host's end of its socket. Used by one thread or one `Lease` at a time."""

    def __init__(self, end: socket.socket, pid: int) -> None:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.channel = Channel(end).patient(QUICK_SECONDS)
        self.pid = pid
        self.calls = 0
        self._process = 0
        self._handle = -1

    def wait_until_ready(self, lifetime: Lifetime) -> None:
        """Wait until the worker has confined itself, and read its PID from the kernel.

        Raises:
            WorkerCrashedError, DeadlineExceededError: the worker did not start.
        """
        # SECURITY: signal only the PID reported by the kernel, never one sent by a process that runs untrusted code.
        end = self.channel.socket
        while True:
            try:
                data, ancillary, _, _ = end.recvmsg(
                    _READY_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size), socket.MSG_DONTWAIT
                )
                break
            except BlockingIOError:
                lifetime.await_ready(end.fileno(), select.POLLIN)
            except OSError as error:
                raise ClosedError("the worker has ended") from error
        if len(data) != _READY_BYTES or data[4] != Kind.READY:
            raise ClosedError("the worker did not start")
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                self._process = _CREDENTIALS.unpack(value[: _CREDENTIALS.size])[0]
                with suppress(OSError):  # some containers refuse it; the PID stays the worker's until it is waited for
                    self._handle = os.pidfd_open(self._process)

    def describe(self, lifetime: Lifetime) -> Description:
        """Start the component once and return its description.

        Raises:
            WasmrtError: the component cannot be started, or the worker crashed.
        """
        self.channel.limit(lifetime)
        self.channel.begin()
        self.channel.send(Kind.DESCRIBE)
        frame = self.channel.receive(MAX_DESCRIPTION_HEAD)
        if frame.kind == Kind.FAULT:
            raise read_error(frame.fields())
        if frame.kind != Kind.DESCRIBED:
            raise ProtocolError("expected a description from the worker, got another frame")
        return _read_description(frame.fields(DESCRIPTION_BOUNDS))

    def adopt(self, description: Description, lifetime: Lifetime) -> None:
        """Send a component's known description to a new worker.

        Raises:
            ClosedError: the worker has ended.
            DeadlineExceededError, CancelledError, RuntimeClosedError: the call ended before the worker read it.
        """
        self.channel.limit(lifetime)
        self.channel.send(Kind.ADOPT, {
            "specs": [{"name": spec.name, "schema": spec.schema} for spec in description.specs.values()],
            "memories": description.memories,
        })  # fmt: skip

    def run(self, call: GuestCall, tool: str, params: str, context: str | None, lane: CallChannel | None = None) -> str:
        """Run one call: in a lane if the worker is leased to tasks, otherwise alone.

        Raises:
            ToolError: the guest failed.
            WorkerGoneError: the worker exited before it received the call.
            ClosedError, ProtocolError: the worker crashed, or violated the protocol.
        """
        self.calls += 1
        channel, lifetime = lane or self.channel, call.lifetime
        watch = _Watch(channel, lifetime)
        channel.waiting, channel.between = watch.wait if lane is None else watch.wait_once, watch.check
        services = call.services
        encoded, more = _encode_utf8(params), b"" if context is None else _encode_utf8(context)
        request_bytes = services.max_request_bytes
        head = CallHead(
            lifetime.remaining(), request_bytes, services.max_write_bytes, len(encoded), context is not None,
            services.has_workspace, lane is not None, *clock_fields(call.clock), tool,
        ).pack()  # fmt: skip
        most = max(request_bytes, services.max_write_bytes, call.limits.output_bytes, 4 * MIB) + _FRAME_ROOM
        server: Server | None = None
        channel.begin()
        try:
            channel.send(Kind.CALL, head, encoded, more)
        except ClosedError as error:  # a worker starts a call only after reading all of it
            raise WorkerGoneError("the worker has already exited", idle=False) from error
        frame = channel.receive(most)
        if frame.kind == Kind.BYE:
            raise WorkerGoneError("the worker has already exited", idle=True)
        while True:
            if frame.kind == Kind.IMPORT:
                if server is None:
                    server = Server(call, channel.send)
                server.answer(frame)
            elif frame.kind == Kind.LOG:
                _keep_log(call, frame)
            elif frame.kind == Kind.RESULT:
                take_counts(call, frame.head)
                return frame.text()
            elif frame.kind == Kind.FAULT:
                raise _read_fault(call, frame)
            else:
                raise ProtocolError("expected a request, a log line or a result from the worker, got another frame")
            frame = channel.receive(most)

    def kill(self) -> None:
        """Kill the process and release its handle. Safe to call twice."""
        handle, self._handle = self._handle, -1
        process, self._process = self._process, 0
        with suppress(ProcessLookupError):
            if handle >= 0:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            elif process:
                os.kill(process, signal.SIGKILL)
        if handle >= 0:
            os.close(handle)
        self.channel.close()

    def __del__(self) -> None:
        # A signal handler may have prevented the owner from returning this worker to the pool.
        if hasattr(self, "_handle"):
            self.kill()


def _encode_utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidParametersError(
            "params are not valid Unicode: they contain an unpaired surrogate",
            hint="pass text that can be encoded as UTF-8",
        ) from error


class _Watch:
    """Ends the host's waits for a worker. When the call ends, the worker has `GRACE_SECONDS` to send its last frame."""

    __slots__ = ("_channel", "_lifetime", "_over")

    def __init__(self, channel: CallChannel, lifetime: Lifetime) -> None:
        self._channel = channel
        self._lifetime = lifetime
        self._over = 0.0

    def wait(self, events: int) -> None:
        """Wait for events of `poll` on the worker's socket, until the call ends or the grace period has passed."""
        self.wait_once(events)
        self.check()

    def wait_once(self, events: int) -> None:
        """Wait like `wait`, but do not check the call after the wait, so that the caller can look for a frame first."""
        self.check()
        lifetime = self._lifetime
        if self._over:
            self._channel.await_ready(events, self._over + GRACE_SECONDS - time.monotonic(), None)
        else:
            self._channel.await_ready(events, lifetime.remaining(), lifetime.cancelled)

    def check(self) -> None:
        """If the call has ended, cancel it in the worker; raise the call's error once `GRACE_SECONDS` have passed."""
        error = self._lifetime.interruption()
        if error is None:
            return
        now = time.monotonic()
        if not self._over:
            self._over = now
            self._channel.cancel()  # not needed after a deadline, and harmless
        elif now - self._over >= GRACE_SECONDS:
            raise error


def _keep_log(call: GuestCall, frame: Frame) -> None:
    call.enter_host()  # unbounded logging stops at the deadline and at the maximum number of host calls
    place, entry = read_log(frame)
    if place == len(call.logs) < MAX_LOG_ENTRIES:
        call.logs.append(entry)
    elif place == len(call.logs) - 1:
        call.logs[place] = entry
    else:
        raise ProtocolError("the worker sent a log line out of order")


def _read_fault(call: GuestCall, frame: Frame) -> BaseException:
    head = frame.fields()
    take_counts(call, bytes(frame.tail))
    if call.failure is not None:
        return call.failure  # the host ended the call
    if head.read_optional_text("ended", 32) is not None:
        raise ProtocolError("the worker reported that the host ended the call, which is false")
    # A cancelled worker does not know whether the caller cancelled or the runtime was closed.
    return call.lifetime.interruption() or read_error(head)


def _read_description(head: Head) -> Description:
    specs: dict[str, ToolSpec] = {}
    for item in head.items("specs", MAX_TOOLS_PER_COMPONENT):
        if not isinstance(item, dict):
            raise ProtocolError("the worker sent a malformed description of a tool")
        spec = _read_spec(Head(item))
        specs[spec.name] = spec
    return Description(specs, max(1, head.whole("memories", _MAX_MEMORIES)), head.whole("fuel"))


def _read_spec(head: Head) -> ToolSpec:
    notes = Head(head.mapping("annotations"))
    problems = head.items("problems", 16)
    if not all(isinstance(problem, str) for problem in problems):
        raise ProtocolError("the worker sent malformed problems")
    schema: dict[str, Any] = head.mapping("schema")
    try:
        check_text(schema)
        check_size(write_json(schema), max_bytes=MAX_SCHEMA_BYTES)
    except JsonError as error:
        raise ProtocolError(f"the schema of a tool is {error}") from error
    return ToolSpec(
        head.name("name", MAX_NAME_LENGTH),
        head.line("description", 4 * MAX_DESCRIPTION_BYTES),
        schema or dict(ANY_OBJECT),
        read_only=notes.flag("read_only"),
        destructive=notes.flag("destructive"),
        network=notes.flag("network"),
        problems=tuple(printable_line(problem, 1000) for problem in problems),
        schema_problem=printable_line(head.text("schema_problem", MAX_DESCRIPTION_BYTES), 1000),
    )


def make_crash_error(status: int) -> WorkerCrashedError:
    """Create the error of a call whose worker ended before the call did."""
    number = status & 0x7F
    if number:
        try:
            words = signal.strsignal(number) or f"signal {number}"
        except ValueError:
            words = f"signal {number}"
        return WorkerCrashedError(f"the tool's worker was killed by the system: {words.lower()}", signal=number)
    return WorkerCrashedError("the tool's worker ended during the call", signal=None)
