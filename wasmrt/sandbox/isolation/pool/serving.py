"""Answer the requests of a guest in a worker: each request is read strictly, then decided by the call's services."""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.core.limits import MAX_LOG_ENTRY_BYTES, MAX_OPEN_ANSWERS
from wasmrt.core.model import LogEntry, LogLevel
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES, GuestCall
from wasmrt.sandbox.guest.replies import HostFailure, HttpHead
from wasmrt.sandbox.guest.requests import HttpClose, HttpOpen, HttpRead, HttpReadAll, Request
from wasmrt.sandbox.isolation.wire import Frame, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.requests import CALL_ENDED, read_request, write_failure, write_reply

_LAST_MS = 253_402_300_799_999
"""The end of the year 9999, the last year of Python's dates."""
_MAX_OPEN = 4 * MAX_OPEN_ANSWERS


class Server:
    """Answers the requests of one guest with the services of its call."""

    def __init__(self, call: GuestCall, send: Callable[..., None]) -> None:
        self._call = call
        self._send = send
        self._open: set[int] = set()
        """Handles of the responses that the guest has open."""

    def answer(self, frame: Frame) -> None:
        """Handle one request and send its reply.

        Raises:
            ProtocolError: the frame violates the protocol.
            ClosedError: the worker has ended.
        """
        request = read_request(frame)
        self._check_handle(request)
        call = self._call
        try:
            call.enter_host()
            reply = call.services.handle(request)
            call.leave_host()
            head, tail = write_reply(reply)
        except HostFailure as failure:
            head, tail = write_failure(failure)
        except ProtocolError:
            raise
        except BaseException as error:  # this error ends the call; the worker is only told that the call has ended
            call.fail(error)
            head, tail = CALL_ENDED, b""
        else:
            if isinstance(reply, HttpHead):
                self._open.add(reply.handle)
        self._send(Kind.ANSWER, head, tail)

    def _check_handle(self, request: Request[object]) -> None:
        if isinstance(request, HttpOpen):
            if len(self._open) >= _MAX_OPEN:
                raise ProtocolError("the worker holds too many responses open")
        elif isinstance(request, (HttpRead, HttpReadAll, HttpClose)):
            if request.handle not in self._open:
                raise ProtocolError("the worker referred to a response that it does not have")
            if isinstance(request, HttpClose):
                self._open.remove(request.handle)


def read_log(frame: Frame) -> tuple[int, LogEntry]:
    """Read a log line from a worker's frame, and its position among the call's lines.

    Raises:
        ProtocolError: the frame is malformed.
    """
    head = frame.fields()
    try:
        level = LogLevel(head.text("level", 16))
    except ValueError as error:
        raise ProtocolError("the worker logged at an unknown level") from error
    message = head.text("message", MAX_LOG_ENTRY_BYTES + LOG_OVERLAP_BYTES)
    return head.whole("place"), LogEntry(level, message, head.whole("at", _LAST_MS))
