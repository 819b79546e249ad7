"""Limits of params and results of a call, the operator's rate limit, and scanned results and logs."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import pytest
import wasmtime
from wasmrt.testing.attacks import Body, tool

import wasmrt.runtime.call._answer as call_answer
import wasmrt.runtime.call._state as call_state
from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import LIBC
from tests.sandbox.border.worlds import agent_tool
from wasmrt import PreparedTool, RateLimitConfig, ResourceLimits, ToolError
from wasmrt.core.errors import DeadlineExceededError, GuestOutputError, InvalidParametersError, RateLimitedError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES, MAX_USER_BYTES, MIB
from wasmrt.egress.leaks import Action, LeakDetector
from wasmrt.runtime.call import Call

ECHO = bytes(wasmtime.wat2wasm(tool(Body(execute="(call $say (local.get $params) (local.get $length))"))))
ADDER = bytes(
    wasmtime.wat2wasm(f"""(component {LIBC}
  (core module $main (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
  (core instance $main (instantiate $main))
  (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $main "add"))))""")
)
TOKEN = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"


@pytest.mark.parametrize(
    "kind", [str, str.encode, lambda text: bytearray(text.encode())], ids=["str", "bytes", "array"]
)
def test_params_text_is_limited_exactly_at_the_limit(start: Start, kind: Any) -> None:
    echo = start().prepare("echo", ECHO, limits=ResourceLimits(output_bytes=2 * MAX_PARAMS_BYTES))
    most = '{"a":"' + "x" * (MAX_PARAMS_BYTES - 8) + '"}'
    assert len(echo.execute(kind(most)).result["a"]) == MAX_PARAMS_BYTES - 8
    with pytest.raises(InvalidParametersError, match=f"over {MAX_PARAMS_BYTES:,} bytes") as caught:
        echo.execute(kind(most + " "))
    assert caught.value.hint == "pass large data by reference"


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_data_of_params_is_measured_in_bytes(start: Start, letter: str) -> None:
    echo = start().prepare("echo", ECHO, limits=ResourceLimits(output_bytes=2 * MAX_PARAMS_BYTES))
    count = (MAX_PARAMS_BYTES - 8) // len(letter.encode())
    assert len(echo.execute({"a": letter * count}).result["a"]) == count
    with pytest.raises(InvalidParametersError, match=f"over {MAX_PARAMS_BYTES:,} bytes"):
        echo.execute({"a": letter * (count + 1)})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_params_depth_is_limited_exactly_at_the_limit(start: Start) -> None:
    echo = start().prepare("echo", ECHO)
    most = {"a": nested(MAX_JSON_DEPTH - 1)}
    assert echo.execute(most).result == echo.execute(json.dumps(most)).result == most
    more = {"a": nested(MAX_JSON_DEPTH)}
    for params in (more, json.dumps(more)):
        with pytest.raises(InvalidParametersError, match="nested") as caught:
            echo.execute(params)
        assert caught.value.hint == "flatten the data"
    many = "[" + ",".join(["[]"] * MAX_JSON_PARTS) + "]"
    for text, hint in (
        ("{", "pass a JSON object"),
        (many, "pass large data by reference"),
        (b'{"a": "\xff"}', "pass a JSON object as UTF-8 text"),
    ):
        with pytest.raises(InvalidParametersError) as caught:
            echo.execute(text)
        assert caught.value.hint == hint


def test_a_user_name_of_maximum_length_is_accepted(start: Start) -> None:
    echo = start().prepare("echo", ECHO)
    assert echo.execute({}, user="x").result == {}
    assert echo.execute({}, user="x" * MAX_USER_BYTES).result == {}
    with pytest.raises(InvalidParametersError):
        echo.execute({}, user="x" * (MAX_USER_BYTES + 1))


def test_a_number_sent_as_a_string_is_converted(start: Start) -> None:
    add = only_tool(start(), ADDER)
    assert add.execute({"a": "40", "b": 2}).result == 42
    with pytest.raises(InvalidParametersError):
        add.execute({"a": "forty", "b": 2})


def test_the_rate_limit_counts_calls_of_each_user_and_tool(start: Start) -> None:
    runtime = start(call_rate_limit=RateLimitConfig(requests_per_minute=2, requests_per_hour=2))
    echo, other = runtime.prepare("echo", ECHO), runtime.prepare("other", ECHO)
    for _ in range(2):
        echo.execute({}, user="ann")
    with pytest.raises(RateLimitedError) as caught:
        echo.execute({}, user="ann")
    assert caught.value.retry_after_seconds is not None
    assert caught.value.call_id
    assert echo.execute({}, user="bob").result == {}
    assert other.execute({}, user="ann").result == {}


def test_a_blocking_finding_withholds_the_result(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = LeakDetector(overrides={"github-pat": Action.BLOCK})
    monkeypatch.setattr("wasmrt.runtime.parts.LeakDetector", lambda **_: strict)
    with pytest.raises(ToolError) as caught:
        start().prepare("echo", ECHO).execute({"found": TOKEN})
    assert caught.value.code == "leak"
    assert "github-pat" in caught.value.message
    assert TOKEN not in json.dumps(caught.value.as_dict())


def test_a_warning_does_not_change_the_result(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient = LeakDetector(overrides={"github-pat": Action.WARN})
    monkeypatch.setattr("wasmrt.runtime.parts.LeakDetector", lambda **_: lenient)
    text = f'{{ "found" :  "{TOKEN}" }}'
    output = start().prepare("says", agent_tool("", text)).execute({})
    assert (output.result, output.raw, output.logs) == ({"found": TOKEN}, text, ())


def test_redaction_keeps_non_ascii_letters(start: Start) -> None:
    output = start().prepare("echo", ECHO).execute({"grüße": [TOKEN, "ü", None, 2.5]})
    assert output.result == {"grüße": ["[REDACTED:github-pat]", "ü", None, 2.5]}
    assert output.raw == '{"grüße": ["[REDACTED:github-pat]", "ü", null, 2.5]}'


@pytest.mark.parametrize(
    ("text", "is_answer"),
    [
        ("[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH, True),
        ("[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1), False),
        ("[" + ",".join(["[]"] * (MAX_JSON_PARTS - 1)) + "]", True),
        ("[" + ",".join(["[]"] * MAX_JSON_PARTS) + "]", False),
        (r'"\u00e9"', True),
        (r'"\ud83d\ude00"', True),
        (r'"\ud83d"', False),
        (r'["a", {"b\ude00": 1}]', False),
    ],
    ids=["deep", "deeper", "many", "more", "escaped", "pair", "half a pair", "half a name"],
)
def test_results_must_be_portable_json(start: Start, text: str, is_answer: bool) -> None:
    says = start().prepare("says", agent_tool("", text), limits=ResourceLimits(memory_bytes=64 * MIB))
    if is_answer:
        assert says.execute({}).result == json.loads(text)
        return
    with pytest.raises(GuestOutputError):
        says.execute({})


def test_logs_of_a_late_call_are_scanned_and_returned(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 60.0)
    with pytest.raises(DeadlineExceededError) as caught:
        logging_then_late(start).execute({})
    assert [entry.message for entry in caught.value.logs] == ["[REDACTED:github-pat]"]


def logging_then_late(start: Start, lines: int = 1) -> PreparedTool:
    """A tool that logs a token several times, and then runs past its deadline."""
    log = f"(call $log (i32.const 2) (i32.const 1024) (i32.const {len(TOKEN)}))"
    body = Body(imports=("log",), text=TOKEN.encode(), execute=f"{log * lines} (loop (br 0)) (unreachable)")
    limits = ResourceLimits(timeout_seconds=0.1, fuel=2**60)
    return start().prepare("late", bytes(wasmtime.wat2wasm(tool(body))), limits=limits)


def test_a_log_that_cannot_be_scanned_in_time_is_withheld(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 0.0)
    with pytest.raises(DeadlineExceededError) as caught:
        logging_then_late(start).execute({})
    assert [entry.message for entry in caught.value.logs] == ["[withheld: it could not be scanned in time]"]


def test_no_log_is_scanned_after_the_first_late_one(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 0.0)
    begun = []
    scanned = call_answer._redact_text

    def counted(call: Call, text: str, keep: int) -> str:
        begun.append(text)
        return scanned(call, text, keep)

    monkeypatch.setattr(call_answer, "_redact_text", counted)
    with pytest.raises(DeadlineExceededError) as caught:
        logging_then_late(start, lines=5).execute({})
    assert [entry.message for entry in caught.value.logs] == ["[withheld: it could not be scanned in time]"] * 5
    assert begun.count(TOKEN) == 1


def test_deep_params_are_refused_for_a_caller_deep_in_its_stack(start: Start) -> None:
    echo = start().prepare("echo", ECHO)
    text = '{"a":' + "[" * 60 + "]" * 60 + "}"
    assert echo.execute(text).result
    before, depth = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(depth + 50)
    try:
        with pytest.raises(InvalidParametersError, match="nested"):
            echo.execute(text)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize("isolation", ["in-process", "process"])
def test_params_that_differ_from_a_descriptive_schema_are_passed_unchanged(start: Start, isolation: str) -> None:
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    told: list[int] = []
    agent = only_tool(
        start(isolation=isolation, audit=lambda record: told.append(record["usage"]["params_bytes"])),
        agent_tool("@0.4.1", "{}", schema=schema),
    )
    assert agent.schema["required"] == ["n"]
    for params in ({"n": "many"}, {}):
        assert agent.execute(params).result == {}
    assert told == [len('{"n":"many"}'), len("{}")]
    with pytest.raises(InvalidParametersError, match="object"):
        agent.execute([1])
