"""Text from a guest that reaches the caller is bounded, single-line if required, and without control characters."""

from __future__ import annotations

import pytest
from wasmrt.testing.attacks import Body

from tests.sandbox.escape.conftest import Make, ended
from wasmrt import ResourceLimits
from wasmrt.core.errors import GuestError, InvalidParametersError
from wasmrt.core.limits import MAX_ERROR_TEXT_BYTES, MAX_LOG_ENTRIES, MAX_LOG_ENTRY_BYTES, MAX_PARAMS_BYTES


def _fails_with(text: bytes) -> Body:
    return Body(text=text, execute=f"(call $fail (i32.const 1024) (i32.const {len(text)}))")


def test_a_guests_error_text_cannot_control_a_terminal(make: Make) -> None:
    error = ended(make(_fails_with("\x1b]0;t\x07\x1b[31mred\u202e\u0085\r\n\x00 end".encode())))
    assert isinstance(error, GuestError)
    assert error.message.isprintable()
    assert error.message.endswith("end")


def test_a_long_error_text_is_truncated(make: Make) -> None:
    error = ended(
        make(Body(execute="(memory.fill (i32.const 0x8000) (i32.const 97) (i32.const 60000)) "
                          "(call $fail (i32.const 0x8000) (i32.const 60000))"))
    )  # fmt: skip
    assert len(error.message.encode()) <= MAX_ERROR_TEXT_BYTES + 4


def test_a_secret_in_an_error_text_is_withheld(make: Make) -> None:
    token = "ghp_" + "x4Jq8ZrT1mWv6Ks0Yb3Nd7Lf2Pc9Ha5Ge8Uo"
    error = ended(make(_fails_with(f"login failed with {token}".encode())))
    assert token not in error.message
    assert token not in repr(error.as_dict())


def test_a_thousand_log_lines_are_kept_and_the_rest_counted(make: Make) -> None:
    body = Body(
        imports=("log",),
        execute="""(loop $again (call $log (i32.const 2) (i32.const 512) (i32.const 11))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $i) (i32.const 1500)))) (call $ok)""",
    )
    output = make(body, ResourceLimits()).execute({})
    assert len(output.logs) == MAX_LOG_ENTRIES
    assert output.usage.log_entries_dropped == 500


@pytest.mark.parametrize("shift", [0, 1])
def test_a_long_log_line_is_truncated_between_characters(make: Make, shift: int) -> None:
    text = b"x" * shift + "ä".encode() * 5000
    body = Body(
        text=text,
        imports=("log",),
        execute=f"(call $log (i32.const 2) (i32.const 1024) (i32.const {len(text)})) (call $ok)",
    )
    (entry,) = make(body).execute({}).logs
    assert len(entry.message.encode()) <= MAX_LOG_ENTRY_BYTES
    assert entry.message.lstrip("x").lstrip("ä") == "... (truncated)"


@pytest.mark.parametrize(
    "params",
    [
        pytest.param('{"a":' * 10_000 + "1" + "}" * 10_000, id="text-ten-thousand-deep"),
        pytest.param("[" * 1_000_000, id="a-million-brackets"),
        pytest.param('{"a": NaN}', id="not-a-number"),
        pytest.param('{"a": "\ud800"}', id="half-a-character"),
        pytest.param(b'{"a": "\xff"}', id="not-utf-8"),
        pytest.param({"a": "x" * (MAX_PARAMS_BYTES + 1)}, id="too-large"),
        pytest.param({"a": object()}, id="not-json"),
        pytest.param({"a": float("inf")}, id="infinite"),
        pytest.param("{} {}", id="two-values"),
        pytest.param("", id="nothing"),
    ],
)
def test_params_that_are_not_valid_json_do_not_reach_the_guest(make: Make, params: object) -> None:
    assert isinstance(ended(make(Body()), params), InvalidParametersError)


def test_params_nested_ten_thousand_deep_as_objects_are_refused(make: Make) -> None:
    params: dict[str, object] = {}
    for _ in range(10_000):
        params = {"a": params}
    assert isinstance(ended(make(Body()), params), InvalidParametersError)


def test_params_that_contain_themselves_are_refused(make: Make) -> None:
    params: dict[str, object] = {}
    params["self"] = params
    assert isinstance(ended(make(Body()), params), InvalidParametersError)
