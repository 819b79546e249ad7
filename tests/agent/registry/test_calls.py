"""Streamed tool calls are joined, bounded and parsed, and errors are reported."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wasmrt import ToolCall, ToolCallAccumulator, ToolRegistry
from wasmrt.core.errors import InvalidParametersError

ARGUMENTS = st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=4)


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(st.lists(ARGUMENTS, min_size=1, max_size=3), st.lists(st.integers(0, 200), max_size=10), st.randoms())
def test_interleaved_openai_pieces_are_assembled(calls: list[dict[str, Any]], places: list[int], random: Any) -> None:
    queues = [
        [{"index": n, "id": f"c{n}", "type": "function", "function": {"name": f"tool{n}", "arguments": ""}}]
        + [{"index": n, "function": {"arguments": piece}} for piece in cut(json.dumps(call), places)]
        for n, call in enumerate(calls)
    ]
    accumulator = ToolCallAccumulator()
    while any(queues):
        queue = random.choice([queue for queue in queues if queue])
        accumulator.add({"delta": {"tool_calls": [queue.pop(0)]}})
    assert [(call.id, call.name, json.loads(call.arguments)) for call in accumulator] == [
        (f"c{n}", f"tool{n}", call) for n, call in enumerate(calls)
    ]


def test_pieces_of_one_byte_are_assembled() -> None:
    accumulator = ToolCallAccumulator()
    accumulator.add({"index": 0, "id": "a", "function": {"name": "find"}})
    for letter in '{"q": "ö"}':
        accumulator.add({"index": 0, "function": {"arguments": letter}})
    assert accumulator.calls == (ToolCall("a", "find", '{"q": "ö"}'),)


def test_anthropic_events_are_joined_by_their_index() -> None:
    accumulator = ToolCallAccumulator()
    for event in [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me see"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "find"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "b", "name": "now"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"q"'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_stop"},
    ]:
        accumulator.add(event)
    assert accumulator.calls == (ToolCall("a", "find", '{"q": 1}'), ToolCall("b", "now", "{}"))


@pytest.mark.parametrize(
    "pieces",
    [
        [{"index": "0", "function": {"name": "a"}}],
        [{"index": -1, "function": {"name": "a"}}],
        [{"index": True, "function": {"name": "a"}}],
        [{"index": 0, "function": {"name": 7}}],
        [{"index": 0, "function": {"arguments": {"q": 1}}}],
        [{"index": 0, "function": {"arguments": "x" * 101}}],
        [{"index": 0, "function": {"arguments": "x" * 60}}, {"index": 0, "function": {"arguments": "y" * 60}}],
        [{"index": n, "function": {"name": "a"}} for n in range(4)],
        [{"tool_calls": ["text"]}],
        [{"type": "content_block_delta", "index": 5, "delta": {"type": "input_json_delta", "partial_json": "{"}}],
    ],
)
def test_malformed_pieces_and_oversized_calls_are_rejected(pieces: list[Any]) -> None:
    accumulator = ToolCallAccumulator(max_bytes=100, max_calls=3)
    with pytest.raises(InvalidParametersError) as caught:
        for piece in pieces:
            accumulator.add(piece)
    assert caught.value.hint


@pytest.mark.parametrize("arguments", ["", "  ", "{}", None, {}, '"{}"'])
def test_no_arguments_are_an_empty_object(registry: ToolRegistry, arguments: Any) -> None:
    said = registry.answer(ToolCall("1", "read_note", arguments))
    assert "missing required field name" in said.text


def test_arguments_encoded_twice_as_json_are_parsed_twice(registry: ToolRegistry) -> None:
    quoted = json.dumps(json.dumps({"name": "a"}))
    assert registry.execute("read_note", quoted).result == "a, 5 lines"
    assert "not a JSON object" in registry.answer(ToolCall("1", "read_note", json.dumps(quoted))).text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"name": "a",}', "line 1 column"),
        ('{"name": "a\nb"}', "line 1 column 12"),
        ('{"name": "a"', "line 1 column"),
        ("[1]", "not a JSON object"),
        ('{"name": NaN}', "NaN"),
        ("[" * 1000, "nested"),
    ],
)
def test_malformed_arguments_are_rejected_with_their_position(
    registry: ToolRegistry, arguments: str, said: str
) -> None:
    answer = registry.answer(ToolCall("1", "read_note", arguments))
    assert not answer.ok
    assert said in answer.text
    assert answer.text.startswith('<tool_output name="read_note"') or said in answer.text


def test_calls_are_accepted_in_the_formats_of_both_providers(registry: ToolRegistry) -> None:
    openai = {"id": "a", "type": "function", "function": {"name": "read_note", "arguments": '{"name": "x"}'}}
    anthropic = {"type": "tool_use", "id": "b", "name": "read_note", "input": {"name": "x"}}
    for call, style in ((openai, "openai"), (anthropic, "anthropic")):
        message = registry.answer(call).message(style)  # type: ignore[arg-type]
        assert "x, 5 lines" in message["content"]
    assert registry.answer(openai).message() == {
        "role": "tool", "tool_call_id": "a",
        "content": '<tool_output name="read_note" sanitized="true">\nx, 5 lines\n</tool_output>',
    }  # fmt: skip
    failed = registry.answer({"type": "tool_use", "id": "c", "name": "nothing", "input": {}}).message("anthropic")
    assert (failed["tool_use_id"], failed["is_error"]) == ("c", True)
