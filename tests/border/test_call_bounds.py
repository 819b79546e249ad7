"""What comes in and goes out of a call: params within bounds, the operator's rate, answers and logs as scanned."""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any

import pytest
import wasmtime

import wasmrt.call._state as call_state
from tests.border.conftest import Start, only_tool
from tests.border.relays import LIBC
from wasmrt import RateLimitConfig, ResourceLimits, ToolError
from wasmrt.errors import DeadlineExceededError, InvalidParametersError, RateLimitedError
from wasmrt.leaks import Action, LeakDetector
from wasmrt.limits import MAX_PARAMS_BYTES, MAX_USER_BYTES
from wasmrt.testing.attacks import Body, tool

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
def test_a_text_of_params_may_be_as_large_as_the_cap_and_no_larger(start: Start, kind: Any) -> None:
    echo = start().prepare("echo", ECHO, limits=ResourceLimits(output_bytes=2 * MAX_PARAMS_BYTES))
    most = '{"a":"' + "x" * (MAX_PARAMS_BYTES - 8) + '"}'
    assert len(echo.execute(kind(most)).result["a"]) == MAX_PARAMS_BYTES - 8
    with pytest.raises(InvalidParametersError, match="over 4,194,304 bytes"):
        echo.execute(kind(most + " "))


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_data_of_params_is_measured_in_bytes(start: Start, letter: str) -> None:
    echo = start().prepare("echo", ECHO, limits=ResourceLimits(output_bytes=2 * MAX_PARAMS_BYTES))
    count = (MAX_PARAMS_BYTES - 8) // len(letter.encode())
    assert len(echo.execute({"a": letter * count}).result["a"]) == count
    with pytest.raises(InvalidParametersError, match="over 4,194,304 bytes"):
        echo.execute({"a": letter * (count + 1)})


def test_the_longest_user_is_a_user(start: Start) -> None:
    echo = start().prepare("echo", ECHO)
    assert echo.execute({}, user="x" * MAX_USER_BYTES).result == {}
    with pytest.raises(InvalidParametersError):
        echo.execute({}, user="x" * (MAX_USER_BYTES + 1))


def test_a_models_text_for_a_number_reaches_the_guest_as_the_number(start: Start) -> None:
    add = only_tool(start(), ADDER)
    assert add.execute({"a": "40", "b": 2}).result == 42
    with pytest.raises(InvalidParametersError):
        add.execute({"a": "forty", "b": 2})


def test_the_operators_rate_counts_calls_of_one_user_and_tool(start: Start) -> None:
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


def test_a_finding_that_is_to_block_withholds_the_answer(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    strict = LeakDetector(overrides={"github-pat": Action.BLOCK})
    monkeypatch.setattr("wasmrt.runtime.LeakDetector", lambda **_: strict)
    with pytest.raises(ToolError) as caught:
        start().prepare("echo", ECHO).execute({"found": TOKEN})
    assert caught.value.code == "leak"
    assert "github-pat" in caught.value.message
    assert TOKEN not in json.dumps(caught.value.as_dict())


def test_a_finding_that_is_a_warning_changes_nothing(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    lenient = LeakDetector(overrides={"github-pat": Action.WARN})
    monkeypatch.setattr("wasmrt.runtime.LeakDetector", lambda **_: lenient)
    assert start().prepare("echo", ECHO).execute({"found": TOKEN}).result == {"found": TOKEN}


def test_a_log_that_could_not_be_scanned_in_time_is_withheld(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_state, "CLOSING_SECONDS", 0.0)
    logs_and_spins = Body(
        imports=("log",),
        text=TOKEN.encode(),
        execute=f"(call $log (i32.const 2) (i32.const 1024) (i32.const {len(TOKEN)})) (loop (br 0)) (unreachable)",
    )
    late = start().prepare(
        "late", bytes(wasmtime.wat2wasm(tool(logs_and_spins))), limits=ResourceLimits(timeout_seconds=0.1, fuel=2**60)
    )
    with pytest.raises(DeadlineExceededError) as caught:
        late.execute({})
    assert [entry.message for entry in caught.value.logs] == ["[withheld: it could not be scanned in time]"]


def test_params_that_a_deep_caller_cannot_read_are_too_deep_for_it(start: Start) -> None:
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
