"""All text of a guest that leaves a call is scanned, made printable and truncated, in this order."""

from __future__ import annotations

import traceback

import pytest
import wasmtime
from wasmrt.testing.attacks import Body, tool

from tests.egress.leaks.examples import example_of
from tests.sandbox.border.conftest import Start, a_call
from tests.sandbox.border.worlds import Failure, agent_tool
from wasmrt import ToolError
from wasmrt.core.errors import GuestError
from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.leaks import LeakDetector
from wasmrt.runtime.call._answer import clean_line
from wasmrt.runtime.call._call import _get_code
from wasmrt.sandbox.guest.call import LOG_OVERLAP_BYTES

TOKEN = example_of(next(rule for rule in LeakDetector().rules if rule.id == "gitlab-pat")).strip()


def failure(start: Start, said: Failure, **config: object) -> GuestError:
    with pytest.raises(GuestError) as caught:
        start(**config).prepare("tool", agent_tool("@0.4.1", said)).execute({})
    return caught.value


@pytest.mark.parametrize("at", [0, 10, len(TOKEN) - 1])
def test_errors_are_truncated_after_scanning(start: Start, at: int) -> None:
    text = "x " * ((MAX_ERROR_TEXT_BYTES - at) // 2) + TOKEN + " and more" * 99
    error = failure(start, Failure("client", "gone", text))
    for part in (TOKEN, TOKEN[:-1], TOKEN[:12]):
        assert part not in str(error) and part not in error.message
    assert len(error.message.encode()) <= MAX_ERROR_TEXT_BYTES + 16


def test_unscanned_text_is_not_shown_after_escaping() -> None:
    call = a_call()
    for gap in range(3, len(TOKEN)):
        text = "a" + " " * (MAX_ERROR_TEXT_BYTES + 16 * 1024 - gap - 1) + TOKEN
        assert TOKEN[:gap] not in clean_line(call, text)


def test_scanned_text_is_shown_up_to_its_limit() -> None:
    gap = " " * (MAX_ERROR_TEXT_BYTES + LOG_OVERLAP_BYTES - len("aend"))
    assert clean_line(a_call(), f"a{gap}end") == "a end"
    assert clean_line(a_call(), f"a{gap}ends") == "a"


@pytest.mark.parametrize("code", ["ok", "deadline-exceeded", "leak", TOKEN, TOKEN.lower(), "A" * 64, "a\x1b[2J", "a b"])
def test_guest_codes_cannot_imitate_host_codes_or_contain_tokens(start: Start, code: str) -> None:
    records: list[dict[str, object]] = []
    error = failure(start, Failure("client", code, "no"), audit=records.append)
    assert error.code.startswith("tool:") or error.code in ("client", "guest-error")
    assert records[-1]["outcome"] == error.code
    assert TOKEN not in repr(records)


@pytest.mark.parametrize(
    "code",
    ["ok", "leak", "deadline-exceeded", TOKEN, f"tool:{TOKEN}", f"tool:{TOKEN.lower()}", "a\x1b[2J", "x" * 300, ""],
)
def test_codes_from_a_worker_are_checked_again(code: str) -> None:
    assert _get_code(a_call(), GuestError("no", code=code)) == "guest-error"


@pytest.mark.parametrize("code", ["tool:gone", "client", "guest-exit"])
def test_valid_guest_codes_are_kept(code: str) -> None:
    assert _get_code(a_call(), GuestError("no", code=code)) == code


def test_subjects_and_hints_of_decisions_are_scanned_before_truncation() -> None:
    call = a_call()
    said = call.decide(Decision(False, Reason.NOT_GRANTED, f"rule {TOKEN}", f"add {TOKEN}", "http", "y " * 95 + TOKEN))
    assert TOKEN[:10] not in repr(said) and TOKEN[:10] not in repr(call.decisions)
    assert said.subject.endswith("...") and len(said.subject) < 210
    odd = call.decide(Decision(False, Reason.NOT_GRANTED, "no", None, "workspace", "a\x1b[31m\nb"))
    assert odd.subject.isprintable()


def test_tracebacks_contain_no_terminal_control_sequences(start: Start) -> None:
    """The engine's backtrace names functions, and a component names them as it likes."""
    named = r'''$"\1b[2J\1b]0;owned\07\0afake line"'''
    body = Body(execute=f"(call {named}) (call $ok)", functions=f"(func {named} unreachable)")
    with pytest.raises(ToolError) as caught:
        start(isolation="in-process").prepare("tool", bytes(wasmtime.wat2wasm(tool(body)))).execute({})
    shown = "".join(traceback.format_exception(caught.value))
    assert "fake line" in shown  # it is quoted
    assert not {"\x1b", "\x07"} & set(shown) and "\nfake line" not in shown
