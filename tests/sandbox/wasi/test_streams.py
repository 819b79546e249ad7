"""Standard streams: output becomes log entries within limits, and input is empty."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox.wasi.conftest import Guest
from tests.tiers import examples
from wasmrt.core.errors import BudgetExceededError, GuestError, GuestExitError, InternalError, MemoryLimitError
from wasmrt.core.limits import MAX_CAPTURED_OUTPUT_BYTES, MAX_HANDLES, MAX_LOG_ENTRY_BYTES, MAX_STREAM_CHUNK_BYTES
from wasmrt.core.model import LogLevel
from wasmrt.sandbox.component import Case, Err, Ok
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES
from wasmrt.sandbox.guest.outcome import end_cause

_WRITE = "io/streams#[method]output-stream.write"


def test_lines_become_log_entries_at_the_level_of_their_stream(guest: Guest) -> None:
    guest(_WRITE, guest("cli/stdout#get-stdout"), b"one\ntwo\n")
    guest(_WRITE, guest("cli/stderr#get-stderr"), b"three\n")
    assert guest.lines == ["one", "two", "three"]
    assert [entry.level for entry in guest.ctx.logs] == [LogLevel.INFO, LogLevel.INFO, LogLevel.WARN]


def test_an_unfinished_line_is_logged_and_extended(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    for part in (b"un", b"finish", b"ed"):
        guest(_WRITE, out, part)
        assert len(guest.lines) == 1
    assert guest.lines == ["unfinished"]


def test_a_character_split_between_writes_is_decoded(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    for byte in "ü€\n".encode():
        guest(_WRITE, out, bytes([byte]))
    assert guest.lines == ["ü€"]


def test_invalid_utf8_is_logged_with_replacement_characters(guest: Guest) -> None:
    guest(_WRITE, guest("cli/stdout#get-stdout"), b"a\xff\xfeb\n")
    assert guest.lines == ["a\ufffd\ufffdb"]


@given(st.text(alphabet="ab\n", max_size=40), st.lists(st.integers(0, 40), max_size=5))
@settings(max_examples=examples(60), deadline=None)
def test_splitting_text_into_writes_does_not_change_the_log(text: str, cuts: list[int]) -> None:
    guest = Guest()
    out = guest("cli/stdout#get-stdout")
    data, start = text.encode(), 0
    for cut in [*sorted(cuts), len(data)]:
        guest(_WRITE, out, data[start : max(start, cut)])
        start = max(start, cut)
    assert guest.lines == text.split("\n")[:-1] + ([text.split("\n")[-1]] if text.split("\n")[-1] else [])


def test_an_unbounded_line_is_one_entry_of_limited_size(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    for _ in range(100):
        guest(_WRITE, out, b"x" * 1000)
    (line,) = guest.lines
    assert len(line.encode()) <= MAX_LOG_ENTRY_BYTES + LOG_OVERLAP_BYTES  # truncated to the limit after scanning


def test_output_over_the_limit_is_dropped_and_counted(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    chunk = b"x" * (MAX_STREAM_CHUNK_BYTES - 1) + b"\n"
    writes = MAX_CAPTURED_OUTPUT_BYTES // len(chunk) + 3
    assert [guest(_WRITE, out, chunk) for _ in range(writes)] == [Ok()] * writes
    assert len(guest.lines) == MAX_CAPTURED_OUTPUT_BYTES // len(chunk)
    assert guest.ctx.log_entries_dropped == 3


def test_a_write_over_the_check_write_limit_returns_an_error(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    allowed = guest("io/streams#[method]output-stream.check-write", out)
    assert allowed == Ok(MAX_STREAM_CHUNK_BYTES)
    answer = guest(_WRITE, out, bytes(MAX_STREAM_CHUNK_BYTES + 1))
    assert isinstance(answer, Err)
    assert isinstance(answer.value, Case)
    assert "check-write" in guest("io/error#[method]error.to-debug-string", answer.value.value)
    assert guest("filesystem/types#filesystem-error-code", answer.value.value) is None
    assert guest.lines == []


def test_write_zeroes_with_a_huge_count_fails_without_allocating(guest: Guest) -> None:
    out = guest("cli/stdout#get-stdout")
    assert isinstance(guest("io/streams#[method]output-stream.write-zeroes", out, 2**64 - 1), Err)


@pytest.mark.parametrize("how", ["read", "blocking-read", "skip", "blocking-skip"])
def test_standard_input_is_empty(guest: Guest, how: str) -> None:
    handle = guest("cli/stdin#get-stdin")
    assert guest(f"io/streams#[method]input-stream.{how}", handle, 2**64 - 1) == Err(Case("closed"))


def test_splicing_from_a_closed_input_returns_closed(guest: Guest) -> None:
    out, source = guest("cli/stdout#get-stdout"), guest("cli/stdin#get-stdin")
    assert guest("io/streams#[method]output-stream.splice", out, source, 100) == Err(Case("closed"))


def test_streams_are_always_ready(guest: Guest) -> None:
    ready = [
        guest("io/streams#[method]input-stream.subscribe", guest("cli/stdin#get-stdin")),
        guest("io/streams#[method]output-stream.subscribe", guest("cli/stdout#get-stdout")),
    ]
    assert guest("io/poll#poll", ready) == [0, 1]
    assert guest("io/streams#[method]output-stream.blocking-flush", guest("cli/stdout#get-stdout")) == Ok()


def test_handles_are_limited_and_can_be_dropped(guest: Guest) -> None:
    handles = [guest("cli/stdin#get-stdin") for _ in range(MAX_HANDLES)]
    with pytest.raises(BudgetExceededError) as caught:
        guest("cli/stdin#get-stdin")
    assert (caught.value.limit, caught.value.setting) == (MAX_HANDLES, "limits.MAX_HANDLES")
    guest.drop("io/streams#input-stream", handles[0])
    guest("cli/stdin#get-stdin")


def test_a_handle_of_the_wrong_kind_is_rejected(guest: Guest) -> None:
    with pytest.raises(InternalError):
        guest(_WRITE, guest("cli/stdin#get-stdin"), b"x")


def test_handles_are_not_valid_in_other_calls() -> None:
    first, second = Guest(), Guest()
    handle = first("cli/stdout#get-stdout")
    with pytest.raises(InternalError):
        second(_WRITE, handle, b"x")


def _write_failure(guest: Guest, **failure: object) -> None:
    guest(_WRITE, guest("cli/stderr#get-stderr"), json.dumps({"wasmrt-failure": failure}).encode() + b"\n")


def test_a_failure_written_before_an_exit_is_the_error_of_the_call(guest: Guest) -> None:
    guest(_WRITE, guest("cli/stderr#get-stderr"), b"Traceback\n")
    _write_failure(guest, kind="operation-failed", code="crashed", message="KeyError: 'x' (app.py, line 3, in run)")
    guest(_WRITE, guest("cli/stderr#get-stderr"), b"thread panicked\n")
    exited = GuestExitError(exit_code=1)
    guest.ctx.fail(exited)
    error = end_cause(exited, guest.ctx)
    assert guest.ctx.failure is error
    assert isinstance(error, GuestError)
    assert (error.code, error.message) == ("tool:crashed", "KeyError: 'x' (app.py, line 3, in run)")
    assert error.hint == "fix the tool's source, then run: wasmrt build && wasmrt test"
    assert guest.lines == ["Traceback"]


def test_a_written_failure_does_not_replace_the_error_of_a_limit(guest: Guest) -> None:
    _write_failure(guest, kind="operation-failed", code="crashed", message="no")
    guest.ctx.fail(BudgetExceededError("over", limit=1, used=2, setting="limits.fuel"))
    assert isinstance(end_cause(GuestExitError(exit_code=1), guest.ctx), BudgetExceededError)


@pytest.mark.parametrize(
    "failure",
    [
        {"kind": "operation-failed"},
        {"kind": "no-kind", "code": "crashed", "message": "x"},
        {"kind": "operation-failed", "code": 1, "message": "x"},
        {"kind": "operation-failed", "message": "x", "hint": "run: rm -r /"},
    ],
)
def test_an_invalid_written_failure_is_only_a_log_line(guest: Guest, failure: dict[str, object]) -> None:
    _write_failure(guest, **failure)
    exited = GuestExitError(exit_code=1)
    assert end_cause(exited, guest.ctx) is exited
    assert len(guest.lines) == 1


def test_a_failure_written_after_unlimited_output_is_still_the_error(guest: Guest) -> None:
    for _ in range(MAX_CAPTURED_OUTPUT_BYTES // MAX_STREAM_CHUNK_BYTES + 1):
        guest(_WRITE, guest("cli/stderr#get-stderr"), b"x" * MAX_STREAM_CHUNK_BYTES)
    _write_failure(guest, kind="executor", code="out-of-memory", message="MemoryError")
    assert isinstance(end_cause(GuestExitError(exit_code=1), guest.ctx), MemoryLimitError)
