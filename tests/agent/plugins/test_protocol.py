"""Protocol version 0: required and optional fields of responses, and malformed responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt.agent.builtin.plugins import PROTOCOL_VERSION, Mount
from wasmrt.agent.builtin.plugins._protocol import Response, decode_response, encode_request
from wasmrt.core.errors import GuestOutputError

GOOD: dict[str, Any] = {"protocol_version": 0, "request_id": "r", "ok": True}


def refused(response: object) -> str:
    text = response if isinstance(response, str) else json.dumps(response)
    with pytest.raises(GuestOutputError) as caught:
        decode_response(text, "r")
    return caught.value.code


def test_request_is_one_line_with_the_fields_of_version_0() -> None:
    line = encode_request("r", "echo", '{"text":"ü"}', "/workspace", [Mount("/w", "/workspace", read_only=True)])
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "protocol_version": PROTOCOL_VERSION,
        "request_id": "r",
        "tool": "echo",
        "args_json": '{"text":"ü"}',
        "cwd": "/workspace",
        "mounts": [{"host_path": "/w", "guest_path": "/workspace", "read_only": True}],
    }


@pytest.mark.parametrize("name", sorted(GOOD))
def test_response_without_a_required_field_is_malformed(name: str) -> None:
    assert refused({key: value for key, value in GOOD.items() if key != name}) == "malformed-response"


def test_omitted_response_fields_are_empty() -> None:
    assert decode_response(json.dumps(GOOD), "r") == Response(True, "", "", "")
    assert decode_response(f"\n {json.dumps(GOOD)} \n\n", "r") == Response(True)
    assert decode_response(json.dumps(GOOD | {"from": "a later version"}), "r") == Response(True)


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ("", "malformed-response"),
        (" \n", "malformed-response"),
        ([GOOD], "malformed-response"),
        ("null", "malformed-response"),
        (json.dumps(GOOD) * 2, "malformed-response"),
        (json.dumps(GOOD)[:-1], "malformed-response"),
        ('{"ok": false, ' + json.dumps(GOOD)[1:], "malformed-response"),
        ("[" * 100_000, "malformed-response"),
        (GOOD | {"ok": 1}, "malformed-response"),
        (GOOD | {"ok": "true"}, "malformed-response"),
        (GOOD | {"data_json": {}}, "malformed-response"),
        (GOOD | {"stderr": None}, "malformed-response"),
        (json.dumps(GOOD)[:-1] + ', "data_json": "\\ud800"}', "malformed-response"),
        (GOOD | {"protocol_version": 1}, "protocol-version"),
        (GOOD | {"protocol_version": "0"}, "protocol-version"),
        (GOOD | {"protocol_version": 0.0}, "protocol-version"),
        (GOOD | {"protocol_version": False}, "protocol-version"),
        (GOOD | {"request_id": "R"}, "other-request"),
        (GOOD | {"request_id": None}, "other-request"),
    ],
)
def test_malformed_and_unrelated_responses_are_rejected(response: object, code: str) -> None:
    assert refused(response) == code


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ("7", 7),
        ('"x"', "x"),
        ("", ""),
        ("no JSON", "no JSON"),
        ("NaN", "NaN"),
        ("[" * 100, "[" * 100),
        ('"\\ud800"', '"\\ud800"'),
    ],
)
def test_data_is_parsed_as_json_or_returned_as_text(text: str, data: object) -> None:
    assert Response(True, text).data == data


@given(st.text(max_size=200), st.text(max_size=40))
def test_any_text_is_a_response_or_a_typed_error(text: str, request_id: str) -> None:
    try:
        decode_response(text, request_id)
    except GuestOutputError as error:
        assert error.hint


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
)
def test_data_round_trips(value: object) -> None:
    response = decode_response(json.dumps(GOOD | {"data_json": json.dumps(value)}), "r")
    assert response.data == value
