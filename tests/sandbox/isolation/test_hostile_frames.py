"""Frames of a worker are untrusted input: every invalid frame is a typed error without harm to the host."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import CancelledError, DeadlineExceededError, ToolError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_LOG_ENTRIES, ResourceLimits
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.clock import SystemClock
from wasmrt.sandbox.guest.replies import DirectoryEntry
from wasmrt.sandbox.guest.requests import (
    NAMES,
    Request,
    WorkspaceMakeDirectory,
    WorkspaceRemove,
    WorkspaceRename,
    WorkspaceSize,
    WorkspaceStat,
    WorkspaceWrite,
)
from wasmrt.sandbox.guest.services import HostServices, NoServices
from wasmrt.sandbox.isolation.pool.handle import Worker
from wasmrt.sandbox.isolation.wire import Channel, ClosedError, Frame, Head, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.calls import pack_counts
from wasmrt.sandbox.isolation.wire.types import read_type

LIMITS = ResourceLimits(output_bytes=1000, timeout_seconds=20.0)
COUNTS = struct.pack("<4Q", 1, 0, 0, 0)
HEAD_FIELDS = (
    "do", "method", "url", "headers", "body", "timeout_seconds", "handle", "path", "probe", "name", "alias", "done",
    "total", "message", "reason", "rule", "hint", "capability", "subject", "error", "code", "limit", "used", "setting",
    "kind", "new", "directory", "to",
)  # fmt: skip
REFUSES = {"do": "refuse", "reason": "allowed", "subject": "", "limit": 0}
LOG = json.dumps({"place": 0, "level": "info", "message": "m", "at": 1}).encode()


NUMBER = 7


@pytest.fixture(autouse=True)
def _known_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number every call alike, so that a worker's frames can be written before the call."""
    monkeypatch.setattr(Channel, "begin", lambda channel: setattr(channel, "number", NUMBER))


def frame(kind: int, head: bytes = b"{}", tail: bytes = b"") -> bytes:
    return start(4 + len(head) + len(tail), kind, len(head)) + head + tail


def start(size: int, kind: int, head: int) -> bytes:
    return struct.pack("<IBQI", size, kind, 0 if kind == Kind.BYE else NUMBER, head)


def logged(place: int) -> bytes:
    return frame(Kind.LOG, json.dumps({"place": place, "level": "info", "message": "m", "at": 1}).encode())


class WritableServices(NoServices):
    """A host that allows every write, and records what it receives."""

    has_workspace = True
    max_write_bytes = 64

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def handle(self, request: Request[Any]) -> Any:
        match request:
            case WorkspaceWrite(path, content, new):
                assert isinstance(path, str) and isinstance(content, bytes) and isinstance(new, bool)
                self.written.append(content)
            case WorkspaceRemove(path, directory):
                assert isinstance(path, str) and isinstance(directory, bool)
            case WorkspaceRename(path, to):
                assert isinstance(path, str) and isinstance(to, str)
            case WorkspaceStat(path):
                assert isinstance(path, str)
                return DirectoryEntry(path, False, 0)
            case WorkspaceSize(path) | WorkspaceMakeDirectory(path):
                assert isinstance(path, str)
            case _:
                return super().handle(request)
        return None


def a_call(services: HostServices | None = None) -> GuestCall:
    return GuestCall(Lifetime(LIMITS.timeout_seconds), LIMITS, services or NoServices(), SystemClock())


def answer_to(sent: bytes, call: GuestCall | None = None) -> str | BaseException:
    """The host's result for a worker that sends these bytes and exits."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = Worker(ours, 0)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        theirs.setblocking(False)
        theirs.send(sent)
        theirs.shutdown(socket.SHUT_WR)
        try:
            return worker.run(call or a_call(), "tool", "{}", None)
        except (ToolError, ClosedError, ProtocolError) as error:
            return error
        except WasmrtError as error:
            assert error.code == "worker-gone"
            return error


def test_a_result_is_read() -> None:
    call = a_call()
    assert answer_to(frame(Kind.LOG, LOG) + frame(Kind.RESULT, COUNTS, b"{}"), call) == "{}"
    assert (call.fuel_used, [entry.message for entry in call.logs]) == (1, ["m"])


def test_a_worker_that_logs_endlessly_is_killed_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    call = GuestCall(Lifetime(0.3), LIMITS, NoServices(), SystemClock())

    def flood() -> None:
        with contextlib.suppress(OSError):
            while True:
                theirs.sendall(frame(Kind.LOG, LOG) * 100)

    with ours, theirs:
        worker = Worker(ours, 0)
        thread = threading.Thread(target=flood)
        thread.start()
        with pytest.raises(DeadlineExceededError):
            worker.run(call, "tool", "{}", None)
        ours.close()
        thread.join(20)
    assert len(call.logs) == 1


@pytest.mark.parametrize(("size", "piece"), [(1000, 1), (70_000, 50)], ids=["one that fits the buffer", "a large one"])
def test_a_worker_that_sends_byte_by_byte_is_killed_at_the_deadline(size: int, piece: int) -> None:
    """The worker is never silent, so no wait of the host times out."""
    ours, theirs = socket.socketpair()
    call = GuestCall(Lifetime(0.3), LIMITS, NoServices(), SystemClock())
    over = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            sent = frame(Kind.RESULT, COUNTS, b" " * size)
            for at in range(0, len(sent), piece):
                theirs.send(sent[at : at + piece])
                over.wait(0.002)

    with ours, theirs:
        worker = Worker(ours, 0)
        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(DeadlineExceededError):
                worker.run(call, "tool", "{}", None)
        finally:
            over.set()
            theirs.shutdown(socket.SHUT_RDWR)
            thread.join(20)


def test_a_worker_that_reads_byte_by_byte_is_killed_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    call = GuestCall(Lifetime(0.3), LIMITS, NoServices(), SystemClock())
    over = threading.Event()
    taken = 0

    def sip() -> None:
        nonlocal taken
        while not over.is_set() and (piece := theirs.recv(500)):
            taken += len(piece)
            over.wait(0.002)

    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
        worker = Worker(ours, 0)
        thread = threading.Thread(target=sip)
        thread.start()
        try:
            with pytest.raises(DeadlineExceededError):
                worker.run(call, "tool", " " * 1_000_000, None)
        finally:
            over.set()
            ours.close()
            thread.join(20)
    assert taken < 1_000_000


def test_a_worker_that_exits_without_a_result_has_crashed() -> None:
    assert isinstance(answer_to(b""), ClosedError)
    assert isinstance(answer_to(frame(Kind.RESULT, COUNTS, b"{}")[:-1]), ClosedError)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(start(2**32 - 1, Kind.RESULT, 0), id="a length of 4 GiB"),
        pytest.param(start(4, Kind.RESULT, 5), id="a head longer than its frame"),
        pytest.param(start(0, Kind.RESULT, 0), id="no room for a head"),
        pytest.param(frame(Kind.CALL), id="a host's frame"),
        pytest.param(frame(0), id="no kind"),
        pytest.param(frame(255), id="an unknown kind"),
        pytest.param(frame(Kind.READY), id="a second greeting"),
        pytest.param(frame(Kind.RESULT, b"", b"{}"), id="no counts"),
        pytest.param(frame(Kind.RESULT, struct.pack("<4Q", 2**63, 0, 0, 0)), id="more fuel than there is"),
        pytest.param(frame(Kind.RESULT, struct.pack("<4Q", 0, 2**40, 0, 0)), id="more host calls than there can be"),
        pytest.param(frame(Kind.FAULT, b'{"error": "SystemExit", "code": "", "message": ""}', COUNTS), id="an exit"),
        pytest.param(frame(Kind.FAULT, b'{"ended": "by the host"}', COUNTS), id="a lie about the host"),
        pytest.param(frame(Kind.FAULT, b"[" * 100_000, COUNTS), id="a deep head"),
        pytest.param(frame(Kind.FAULT, b'{"a": NaN}', COUNTS), id="no JSON"),
        pytest.param(frame(Kind.IMPORT, b'{"do": "__class__"}'), id="an unknown import"),
        pytest.param(frame(Kind.IMPORT, b'{"do": "http_read", "handle": 7}'), id="a response it does not have"),
        pytest.param(frame(Kind.IMPORT, b'{"do": "secret_exists", "name": 7}'), id="a name that is none"),
        pytest.param(
            frame(Kind.IMPORT, json.dumps(REFUSES).encode()),
            id="a decision that is the host's",
        ),
        pytest.param(b"".join(map(logged, range(MAX_LOG_ENTRIES + 1))), id="more log lines than a call may have"),
        pytest.param(logged(1), id="a log line out of its turn"),
        pytest.param(frame(Kind.LOG, b'{"level": "root", "message": "", "at": 0}'), id="an unknown level"),
    ],
)  # fmt: skip
def test_an_invalid_frame_ends_the_worker(sent: bytes) -> None:
    assert isinstance(answer_to(sent), ProtocolError)


def test_a_worker_cannot_report_cancellation_or_timeout_of_other_calls() -> None:
    told = json.dumps({"error": "CancelledError", "code": "c", "message": "m", "hint": None}).encode()
    assert isinstance(answer_to(frame(Kind.FAULT, told, COUNTS)), CancelledError)
    late = {
        "error": "DeadlineExceededError",
        "code": "c",
        "message": "m",
        "limit": 1,
        "used": 2,
        "setting": "limits.fuel",
    }
    assert isinstance(answer_to(frame(Kind.FAULT, json.dumps(late).encode(), COUNTS)), DeadlineExceededError)


KINDS = st.sampled_from([*map(int, Kind), 0, 17, 99, 255])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from((*HEAD_FIELDS, "ended", "level", "at", "end"))
DOES = st.sampled_from(tuple(NAMES.values()))
HEADS = st.builds(
    lambda fields, do: json.dumps({"do": do} | fields).encode("utf-8", "surrogatepass"),
    st.dictionaries(FIELDS, VALUES, max_size=6),
    DOES,
)
FRAMES = st.builds(frame, KINDS, HEADS | st.binary(max_size=40) | st.just(COUNTS), st.binary(max_size=60))


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(FRAMES, max_size=6), st.binary(max_size=30))
def test_arbitrary_frames_do_not_harm_the_host(frames: list[bytes], rest: bytes) -> None:
    for services in (NoServices(), WritableServices()):
        ended = answer_to(b"".join(frames) + rest, a_call(services))
        assert isinstance(ended, (str, WasmrtError)), ended


WRITES = tuple(f"workspace_{act}" for act in ("stat", "size", "write", "copy", "make_directory", "remove", "rename"))
WRITE_HEADS = st.builds(
    lambda do, fields: json.dumps({"do": do} | fields).encode("utf-8", "surrogatepass"),
    st.sampled_from(WRITES),
    st.fixed_dictionaries({}, optional={"path": VALUES, "to": VALUES, "new": VALUES, "directory": VALUES}),
)


@settings(max_examples=examples(300), deadline=None)
@given(WRITE_HEADS, st.binary(max_size=60))
def test_frames_of_a_writing_worker_are_validated_field_by_field(head: bytes, tail: bytes) -> None:
    services = WritableServices()
    ended = answer_to(frame(Kind.IMPORT, head, tail) + frame(Kind.RESULT, COUNTS, b"{}"), a_call(services))
    assert ended == "{}" or isinstance(ended, WasmrtError)
    assert services.written in ([], [tail])


@pytest.mark.parametrize(
    "head",
    [
        {"do": "workspace_write", "new": False},
        {"do": "workspace_write", "path": 7, "new": False},
        {"do": "workspace_write", "path": "x", "new": 1},
        {"do": "workspace_remove", "path": "x"},
        {"do": "workspace_rename", "path": "x", "to": ["y"]},
        {"do": "workspace_size", "path": "x" * 10_000_000},
        {"do": "refuse", "reason": "write-budget", "subject": "", "limit": 0},
    ],
)
def test_an_invalid_write_frame_ends_the_worker(head: dict[str, Any]) -> None:
    services = WritableServices()
    answer = answer_to(frame(Kind.IMPORT, json.dumps(head).encode()), a_call(services))
    assert isinstance(answer, ProtocolError) and not services.written


def test_a_long_head_is_read_until_the_deadline_only() -> None:
    """A head of numbers is within the bounds of frames, and takes a second to read."""

    def late() -> None:
        raise DeadlineExceededError("late", limit=1, used=2, setting="limits.timeout_seconds")

    numbers = b'{"a":[' + b"0," * 500_000 + b"0]}"
    assert Frame(Kind.IMPORT, b'{"a":[0]}', memoryview(b""), late).fields()
    with pytest.raises(DeadlineExceededError):
        Frame(Kind.IMPORT, numbers, memoryview(b""), late).fields()


def test_an_oversized_frame_ends_the_worker_before_it_is_read() -> None:
    services = WritableServices()
    head = b'{"do": "workspace_write", "path": "x", "new": false}'
    claimed = start(4 + len(head) + 64 * 1024 * 1024, Kind.IMPORT, len(head)) + head
    assert isinstance(answer_to(claimed, a_call(services)), ProtocolError)
    assert not services.written


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_one_changed_byte_in_a_valid_exchange_is_harmless(data: st.DataObject) -> None:
    good = frame(Kind.LOG, LOG) + frame(Kind.IMPORT, b'{"do": "secret_exists", "name": "n"}')
    good += frame(Kind.RESULT, COUNTS, b'{"ok": true}')
    place = data.draw(st.integers(0, len(good) - 1))
    changed = good[:place] + bytes([data.draw(st.integers(0, 255))]) + good[place + 1 :]
    assert isinstance(answer_to(changed), (str, WasmrtError))


EMPTY: dict[str, Any] = {
    name: [] for name in ("imports", "exports", "import_functions", "functions", "import_other", "export_other")
}
TYPES = st.lists(
    st.sampled_from(
        ["primitive", "list", "record", "tuple", "variant", "option", "result", "enum", "flags", "resource"]
    ).flatmap(lambda name: st.tuples(st.just(name), VALUES, VALUES).map(list)),
    max_size=5,
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(TYPES, VALUES)
def test_invalid_types_are_refused(types: list[Any], other: Any) -> None:
    fields = {
        "types": types,
        "imports": other,
        "exports": [],
        "import_functions": [],
        "functions": [["f", [["a", 0]], 0, False]],
    }
    fields |= {"import_other": [], "export_other": []}
    try:
        read_type(Head(fields))
    except ProtocolError:
        return
    assert types


def test_exponentially_growing_types_are_refused() -> None:
    rows: list[Any] = [["primitive", "u8"]] + [["tuple", [n, n]] for n in range(60)]
    head = Head(EMPTY | {"types": rows, "functions": [["f", [["a", 60]], None, False]]})
    with pytest.raises(ProtocolError, match="too large"):
        read_type(head)


def test_usage_counts_come_from_the_guest() -> None:
    call = a_call()
    call.fuel_used = 7
    assert struct.unpack("<4Q", pack_counts(call)) == (7, 0, 0, 0)
