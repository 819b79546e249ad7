"""The host's services in a worker: each request is a frame to the host, answered by one frame."""

from __future__ import annotations

import select

from wasmrt.core.errors import CancelledError
from wasmrt.core.lifetime import Lifetime
from wasmrt.sandbox.guest.requests import Request
from wasmrt.sandbox.guest.services import Reply
from wasmrt.sandbox.isolation.wire import Channel, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.requests import read_reply, write_request

MAX_REPLY_BYTES = 2**31 - 1
"""The host is trusted, and the grant bounds its replies."""


class WorkerLifetime(Lifetime):
    """The time of a call. The host cancels it with a frame, the only one that it sends while a guest runs."""

    __slots__ = ("_poll",)

    def __init__(self, seconds: float, poll: select.poll) -> None:
        super().__init__(seconds)
        self._poll = poll

    def interruption(self) -> BaseException | None:
        """Return the error that ended the call, or None while it continues."""
        if self._ended_by is None and self._poll.poll(0):
            self._ended_by = CancelledError("the call was cancelled")
        return super().interruption()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`, or until the call ends.

        Raises:
            DeadlineExceededError, CancelledError: the call ended.
        """
        self.check()
        self._poll.poll(min(seconds, self.remaining()) * 1000)
        error = self.interruption()
        if error is not None:
            raise error


class RemoteServices:
    """The `HostServices` of a call, over the worker's socket."""

    def __init__(self, channel: Channel, has_workspace: bool, max_request_bytes: int, max_write_bytes: int) -> None:
        self._channel = channel
        self.has_workspace = has_workspace
        self.max_request_bytes = max_request_bytes
        self.max_write_bytes = max_write_bytes

    def handle(self, request: Request[Reply]) -> Reply:
        """Send a request to the host and wait for its reply.

        Raises:
            HostFailure: the host refuses, or failed.
            HostEndedError: the call has ended.
        """
        head, tail = write_request(request, self.max_request_bytes, self.max_write_bytes)
        self._channel.send(Kind.IMPORT, head, tail)
        answer = self._channel.receive(MAX_REPLY_BYTES)
        while answer.kind == Kind.CANCEL:  # the reply to the request follows
            answer = self._channel.receive(MAX_REPLY_BYTES)
        if answer.kind != Kind.ANSWER:
            raise ProtocolError("expected an answer of the host, got another kind of frame")
        return request.read_reply(read_reply(answer))
