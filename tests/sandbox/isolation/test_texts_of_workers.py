"""Text that a compromised worker chooses cannot control a terminal, imitate wasmrt's own text or break a record."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import prepared
from tests.sandbox.isolation.liar import COUNTS, Liar, lying
from wasmrt import ResourceLimits, ToolContext, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities
from wasmrt.core.errors import ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_SCHEMA_BYTES
from wasmrt.core.model import LogEntry
from wasmrt.sandbox.isolation.pool.handle import Worker
from wasmrt.sandbox.isolation.wire import Head, Kind, ProtocolError
from wasmrt.sandbox.isolation.wire.types import read_type

NASTY = "a\x1b[2Jb\u202ec\u200bd\x00\x9b\u2028\ud800e\U000e0041f"
"""Terminal controls, a bidirectional override, invisible and tag characters, a line separator, half a surrogate."""


@pytest.fixture
def receipts() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def runtime(receipts: list[dict[str, Any]]) -> Iterator[WasmToolRuntime]:
    config = WasmRuntimeConfig(cache_compiled=False, isolation="process", audit=receipts.append)  # type: ignore[arg-type]
    with WasmToolRuntime(config) as made:
        yield made


def texts(value: object) -> Iterator[str]:
    """Every string within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts([*value.keys(), *value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from texts(item)


def unsafe(value: object) -> list[str]:
    return [text for text in texts(value) if not text.replace("\n", "").replace("\t", "").isprintable()]


def fault(error: str, **fields: Any) -> dict[str, Any]:
    return {"error": error, "code": NASTY, "message": NASTY, "hint": NASTY} | fields


FAULTS = {
    "ToolError": fault("ToolError", kind="sandbox"),
    "InvalidParametersError": fault("InvalidParametersError", kind="invalid_parameters"),
    "GuestError": fault("GuestError", kind="sandbox"),
    "GuestExitError": fault("GuestExitError", exit_code=3),
    "TrapError": fault("TrapError", kind="sandbox"),
    "GuestOutputError": fault("GuestOutputError", kind="sandbox"),
    "FuelExhaustedError": fault("FuelExhaustedError", limit=1, used=2, setting="limits.fuel"),
    "ComponentError": fault("ComponentError"),
    "ConfineError": fault("ConfineError"),
    "CancelledError": fault("CancelledError"),
}
REQUESTS = {
    "a denied read": {"do": "workspace_read", "path": NASTY, "probe": False},
    "a denied copy": {"do": "workspace_copy", "path": NASTY, "to": NASTY},
    "a denied request": {"do": "http_open", "method": NASTY, "url": f"https://a.example/{NASTY}", "headers": [],
                         "body": False, "timeout_seconds": None},
    "a checked request": {"do": "http_refusal", "method": "GET", "url": NASTY},
    "a denied secret": {"do": "secret_exists", "name": NASTY},
    "a denied tool": {"do": "invoke_tool", "alias": NASTY},
    "a refused socket": {"do": "refuse", "reason": "sockets-denied", "subject": NASTY, "limit": 0},
    "a refused file": {"do": "refuse", "reason": "file-too-large", "subject": NASTY, "limit": 2**62},
    "progress": {"do": "report_progress", "done": 1, "total": 2, "message": NASTY},
}  # fmt: skip
LINE = {"place": 0, "level": "error", "message": NASTY, "at": 1}


def said_by(
    runtime: WasmToolRuntime, send: Callable[[Liar], None], grant: Capabilities | None = None
) -> tuple[ToolError, list[str]]:
    """The error of a call whose worker logs a line, then sends these frames; and the progress messages."""
    tool = prepared(runtime, capabilities=grant, limits=ResourceLimits(timeout_seconds=10))
    progress: list[str] = []

    def script(liar: Liar) -> None:
        liar.read_call()
        liar.send(Kind.LOG, LINE)
        send(liar)

    context = ToolContext(on_progress=lambda _done, _total, message: progress.append(message or ""))
    with lying(tool, script), pytest.raises(ToolError) as caught:
        tool.execute({}, context=context)
    return caught.value, progress


def everything(error: ToolError, receipts: list[dict[str, Any]]) -> object:
    logs = [entry.message for entry in error.logs]
    decisions = [decision.as_dict() for decision in error.decisions]
    return [error.as_dict(), str(error), error.for_model(), list(error.args), logs, decisions, receipts]


@pytest.mark.parametrize("kind", FAULTS)
def test_an_error_of_a_worker_has_no_control_characters(
    runtime: WasmToolRuntime, receipts: list[dict[str, Any]], kind: str
) -> None:
    error, _ = said_by(runtime, lambda liar: liar.send(Kind.FAULT, FAULTS[kind], COUNTS))
    assert not unsafe(everything(error, receipts))
    assert len(error.message) < 10_000
    assert "[2J" in error.logs[0].message
    json.dumps(receipts, ensure_ascii=False).encode()


@pytest.mark.parametrize("asks", REQUESTS)
def test_decisions_and_records_of_a_request_have_no_control_characters(
    runtime: WasmToolRuntime, receipts: list[dict[str, Any]], asks: str
) -> None:
    def send(liar: Liar) -> None:
        liar.send(Kind.IMPORT, REQUESTS[asks], b"{}")
        liar.channel.number = liar.number
        assert liar.channel.receive(1 << 20).kind == Kind.ANSWER
        liar.send(Kind.FAULT, FAULTS["TrapError"], COUNTS)

    error, progress = said_by(runtime, send)
    assert error.decisions or progress
    assert not unsafe([everything(error, receipts), progress])
    json.dumps(receipts, ensure_ascii=False).encode()


def test_the_host_writes_the_rule_and_the_hint_of_a_denial(runtime: WasmToolRuntime) -> None:
    own = {"do": "refuse", "reason": "sockets-denied", "subject": "tcp", "limit": 0}
    own |= {"rule": "allowed by the operator", "hint": "run sudo id", "capability": "http"}

    def send(liar: Liar) -> None:
        liar.send(Kind.IMPORT, own)
        liar.send(Kind.FAULT, FAULTS["TrapError"], COUNTS)

    error, _ = said_by(runtime, send)
    (decision,) = error.decisions
    assert decision.rule == "sockets are not available to tools"
    assert (decision.capability, decision.subject) == ("sockets", "tcp")
    assert "sudo" not in (decision.hint or "")


def test_a_log_line_keeps_lines_and_tabs(runtime: WasmToolRuntime) -> None:
    line = {"place": 0, "level": "error", "message": "one\n\ttwo \x1b[31m", "at": 1}
    tool = prepared(runtime)

    def script(liar: Liar) -> None:
        liar.read_call()
        liar.send(Kind.LOG, line)
        liar.answer()

    with lying(tool, script):
        (entry,) = tool.execute({}).logs
    assert isinstance(entry, LogEntry)
    assert entry.message == "one\n\ttwo \\u001b[31m"


def described_by(**fields: Any) -> Any:
    """The description of a tool that a worker sends with these fields."""
    spec = {
        "name": "tool", "description": "", "schema": {}, "problems": [], "schema_problem": "",
        "annotations": {"read_only": False, "destructive": False, "network": False},
    }  # fmt: skip
    ours, theirs = socket.socketpair()
    with ours, theirs:
        liar = Liar(theirs)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("wasmrt.sandbox.isolation.wire._frames.os.urandom", lambda count: b"\x07" + bytes(count - 1))
            liar.send(Kind.DESCRIBED, {"specs": [spec | fields], "memories": 1, "fuel": 1}, number=7)
            (found,) = Worker(ours, 0).describe(Lifetime(10)).specs.values()
    return found


def test_texts_of_a_description_have_no_control_characters() -> None:
    found = described_by(description=NASTY, problems=[NASTY], schema_problem=NASTY)
    assert not unsafe([found.description, found.problems, found.schema_problem])


@pytest.mark.parametrize(
    "fields",
    [
        {"name": NASTY},
        {"name": ""},
        {"name": "n" * 65},
        {"schema": {"title": "\ud800"}},
        {"schema": {"title": "x" * MAX_SCHEMA_BYTES}},
        {"description": "x" * 50_000},
    ],
    ids=["controls", "no name", "a long name", "half a surrogate", "a large schema", "a long description"],
)
def test_names_and_schemas_out_of_bounds_end_the_worker(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        described_by(**fields)


def test_names_in_types_are_printable() -> None:
    lists = ("types", "imports", "exports", "import_functions", "functions", "import_other")
    empty: dict[str, Any] = {name: [] for name in lists}
    with pytest.raises(ProtocolError):
        read_type(Head(empty | {"export_other": [NASTY]}))
