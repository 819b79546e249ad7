"""Answers to what a guest in a worker asks: every field is looked at, then the call's own services decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from wasmrt.core.limits import (
    MAX_LOG_ENTRY_BYTES,
    MAX_OPEN_ANSWERS,
)
from wasmrt.core.model import Decision, LogEntry, LogLevel, Reason
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES, GuestCall
from wasmrt.sandbox.guest.services import GuestRequest, GuestResponse, HostFailure
from wasmrt.sandbox.isolation.wire import Channel, Frame, Head, Kind, ProtocolError

_MAX_HEADERS = 4096
"""Bounds what is looked at here; the gateway refuses far less, with the decision on record."""
_MAX_OPEN = 4 * MAX_OPEN_ANSWERS
_REFUSALS = {
    "sockets": Reason.SOCKETS_DENIED,
    "workspace": Reason.FILESYSTEM_DENIED,
    "workspace_write": Reason.FILE_TOO_LARGE,
    "http": Reason.REQUEST_TOO_LARGE,
}
"""Capabilities that the guest's side refuses by itself, with the one reason that each can have."""

_Answer = tuple[dict[str, Any], bytes]


class Server:
    """Serves the imports of one guest with the services of its call."""

    def __init__(self, call: GuestCall, channel: Channel) -> None:
        self._call = call
        self._services = call.services
        self._channel = channel
        self._responses: dict[int, GuestResponse] = {}
        self._handles = 0

    def answer(self, frame: Frame) -> None:
        """Serve one import and send the answer.

        Raises:
            ProtocolError: the frame breaks the rules.
            BaseException: what ended the call; the guest is told only that it is over.
        """
        head = frame.fields()
        do = _METHODS.get(head.text("do", 32))
        if do is None:
            raise ProtocolError("a worker asked for something that no host does")
        try:
            self._call.enter_host()
            fields, tail = do(self, head, frame)
            self._call.leave_host()
        except HostFailure as failure:
            fields, tail = _failure(failure), b""
        except ProtocolError:
            raise
        except BaseException as error:
            self._call.fail(error)
            self._channel.send(Kind.ANSWER, {"end": "over"})
            return
        self._channel.send(Kind.ANSWER, fields, tail)

    def _http_refusal(self, head: Head, _frame: Frame) -> _Answer:
        refused = self._services.http_refusal(head.text("method"), head.text("url"))
        return ({"end": "ok"} if refused is None else _failure(refused)), b""

    def _http_open(self, head: Head, frame: Frame) -> _Answer:
        if len(self._responses) >= _MAX_OPEN:
            raise ProtocolError("a worker holds too many responses open")
        pairs = head.items("headers", _MAX_HEADERS)
        if not all(
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair) for pair in pairs
        ):
            raise ProtocolError("a worker sent headers that are none")
        headers = tuple((name, value) for name, value in pairs)
        body = bytes(frame.tail) if head.flag("body") else None
        request = GuestRequest(head.text("method"), head.text("url"), headers, body, head.number_or_none("timeout"))
        response = self._services.http_open(request)
        self._handles += 1
        self._responses[self._handles] = response
        return {"end": "ok", "handle": self._handles, "status": response.status, "headers": response.headers}, b""

    def _http_read(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok"}, self._response(head).read()

    def _http_read_all(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok"}, self._response(head).read_all()

    def _http_close(self, head: Head, _frame: Frame) -> _Answer:
        self._response(head).close()
        del self._responses[head.whole("handle")]
        return {"end": "ok"}, b""

    def _response(self, head: Head) -> GuestResponse:
        response = self._responses.get(head.whole("handle"))
        if response is None:
            raise ProtocolError("a worker asked for a response that it does not have")
        return response

    def _workspace_read(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok"}, self._services.workspace_read(head.text("path"), looking=head.flag("looking"))

    def _workspace_list(self, head: Head, _frame: Frame) -> _Answer:
        entries = self._services.workspace_list(head.text("path"), looking=head.flag("looking"))
        return {"end": "ok"}, json.dumps([(e.name, e.is_directory, e.size_bytes) for e in entries]).encode()

    def _workspace_stat(self, head: Head, _frame: Frame) -> _Answer:
        entry = self._services.workspace_stat(head.text("path"))
        return {"end": "ok", "entry": (entry.name, entry.is_directory, entry.size_bytes)}, b""

    def _workspace_size(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok", "size": self._services.workspace_size(head.text("path"))}, b""

    def _workspace_write(self, head: Head, frame: Frame) -> _Answer:
        self._services.workspace_write(head.text("path"), bytes(frame.tail), new=head.flag("new"))
        return {"end": "ok"}, b""

    def _workspace_copy(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok", "size": self._services.workspace_copy(head.text("path"), head.text("to"))}, b""

    def _workspace_make_directory(self, head: Head, _frame: Frame) -> _Answer:
        self._services.workspace_make_directory(head.text("path"))
        return {"end": "ok"}, b""

    def _workspace_remove(self, head: Head, _frame: Frame) -> _Answer:
        self._services.workspace_remove(head.text("path"), directory=head.flag("directory"))
        return {"end": "ok"}, b""

    def _workspace_rename(self, head: Head, _frame: Frame) -> _Answer:
        self._services.workspace_rename(head.text("path"), head.text("to"))
        return {"end": "ok"}, b""

    def _secret_exists(self, head: Head, _frame: Frame) -> _Answer:
        return {"end": "ok", "exists": self._services.secret_exists(head.text("name"))}, b""

    def _invoke_tool(self, head: Head, frame: Frame) -> _Answer:
        return {"end": "ok"}, self._services.invoke_tool(head.text("alias"), frame.text()).encode(
            "utf-8", "surrogatepass"
        )

    def _report_progress(self, head: Head, _frame: Frame) -> _Answer:
        total = head.number_or_none("total")
        message = head.text_or_none("message", 6 * MAX_LOG_ENTRY_BYTES)
        self._services.report_progress(head.whole("done"), None if total is None else int(total), message)
        return {"end": "ok"}, b""

    def _refuse(self, head: Head, _frame: Frame) -> _Answer:
        capability = head.text("capability", 32)
        reason = _REFUSALS.get(capability)
        if reason is None or head.text("reason", 64) != str(reason):
            raise ProtocolError("a worker refused what it does not decide")
        hint = head.text_or_none("hint", 1000)
        self._services.refuse(
            Decision(False, reason, head.text("rule", 1000), hint, capability, head.text("subject", 1000))
        )
        return {"end": "ok"}, b""


_METHODS: dict[str, Callable[[Server, Head, Frame], _Answer]] = {
    "http_refusal": Server._http_refusal,
    "http_open": Server._http_open,
    "http_read": Server._http_read,
    "http_read_all": Server._http_read_all,
    "http_close": Server._http_close,
    "workspace_read": Server._workspace_read,
    "workspace_list": Server._workspace_list,
    "workspace_stat": Server._workspace_stat,
    "workspace_size": Server._workspace_size,
    "workspace_write": Server._workspace_write,
    "workspace_copy": Server._workspace_copy,
    "workspace_make_directory": Server._workspace_make_directory,
    "workspace_remove": Server._workspace_remove,
    "workspace_rename": Server._workspace_rename,
    "secret_exists": Server._secret_exists,
    "invoke_tool": Server._invoke_tool,
    "report_progress": Server._report_progress,
    "refuse": Server._refuse,
}


def read_log(frame: Frame) -> tuple[int, LogEntry]:
    """Read a log line that a worker passed on, and its place among the call's lines.

    Raises:
        ProtocolError: it is none.
    """
    head = frame.fields()
    try:
        level = LogLevel(head.text("level", 16))
    except ValueError as error:
        raise ProtocolError("a worker logged at an unknown level") from error
    message = head.text("message", MAX_LOG_ENTRY_BYTES + LOG_OVERLAP_BYTES)
    return head.whole("place"), LogEntry(level, message, head.whole("at"))


def _failure(failure: HostFailure) -> dict[str, Any]:
    return {"end": "failure"} | failure.as_dict()
