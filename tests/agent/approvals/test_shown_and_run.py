"""The approver sees the parameters with which the tool runs, whatever the model wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wasmrt import ApprovalRequest, CallbackApprover, ToolRegistry, tool
from wasmrt.agent.approvals import request_lines, show_params
from wasmrt.core.errors import ToolError


class Desk:
    """A registry with one tool. `ran` has its arguments, and `asked` the requests; all are approved."""

    def __init__(self) -> None:
        self.ran: list[dict[str, Any]] = []
        self.asked: list[ApprovalRequest] = []

        @tool(effects=["external-write"])
        def pay(
            to: Any, amount: int = 1, price: float = 0.0, urgent: bool = False, tags: list[str] | None = None
        ) -> str:
            """Pay."""
            given = {"to": to, "amount": amount, "price": price, "urgent": urgent, "tags": tags}
            self.ran.append({name: value for name, value in given.items() if name in self.asked[-1].params})
            return "paid"

        self.registry = ToolRegistry(approver=CallbackApprover(self._approve))
        self.registry.register(pay)

    def _approve(self, request: ApprovalRequest) -> bool:
        self.asked.append(request)
        return True


@pytest.fixture
def desk() -> Desk:
    return Desk()


def typed(value: Any) -> Any:
    """Return a value with its types, since `1 == 1.0 == True`. Whole floats count as integers, as in JSON Schema."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    return (bool, value) if isinstance(value, bool) else repr(int(value) if value == 100.0 else value)


WRITTEN = {
    "the same name twice": '{"to": "bob", "to": "eve"}',
    "the same name, once escaped": '{"to": "bob", "\\u0074o": "eve"}',
    "the same name twice inside": '{"to": {"name": "bob", "name": "eve"}}',
    "an integer that a double cannot hold": '{"to": 9007199254740993}',
    "a very long integer": '{"to": 123456789012345678901234567890}',
    "more digits than a double": '{"to": 1.00000000000000000001}',
    "a rounded fraction": '{"to": 0.1, "price": 0.30000000000000004}',
    "an underflow": '{"to": 1e-400}',
    "the smallest number": '{"to": 5e-324}',
    "minus zero": '{"to": -0.0}',
    "an exponent": '{"to": "bob", "amount": 1E2}',
    "a number in a string": '{"to": "bob", "amount": " 7 ", "price": "1.10"}',
    "null for a number": '{"to": "bob", "amount": null}',
    "a boolean in a string": '{"to": "bob", "urgent": "true"}',
    "a list in a string": '{"to": "bob", "tags": "[\\"a\\"]"}',
    "JSON in a string": '{"to": "{\\"to\\": \\"eve\\"}"}',
    "the arguments in a string": '"{\\"to\\": \\"eve\\"}"',
    "a NUL": '{"to": "bob\\u0000eve"}',
    "line breaks": '{"to": "bob\\n  approved by: ann\\r\\u2028x"}',
    "an escape sequence": '{"to": "bob\\u001b[2Jeve"}',
    "names that differ only invisibly": '{"to": {"a": 1, "a\\u200b": 2, "\\ufeffa": 3}}',
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_the_shown_params_are_those_that_run(desk: Desk, text: str) -> None:
    desk.registry.execute("pay", text)
    (request,), (ran,) = desk.asked, desk.ran
    shown = show_params(request, whole=True)
    assert not shown.cut and all(line.isprintable() for line in shown.lines)
    assert typed(json.loads("\n".join(shown.lines))) == typed(ran) == typed(request.params)


REFUSED = {
    "a number beyond a double": '{"to": 1e400}',
    "not a number": '{"to": NaN}',
    "infinity": '{"to": -Infinity}',
    "half a character": '{"to": "\\ud800"}',
    "half a character in a name": '{"to": {"\\udc00": 1}}',
    "a name in other case": '{"to": "bob", "TO": "eve"}',
    "a name with an invisible character": '{"to": "bob", "to\\u200b": "eve"}',
    "a second text": '{"to": "bob"}{"to": "eve"}',
    "a byte order mark": '\ufeff{"to": "eve"}',
    "a comment": '{"to": "bob" /* eve */}',
    "single quotes": "{'to': 'eve'}",
    "a trailing comma": '{"to": "bob",}',
    "other digits": '{"to": "bob", "amount": "\u0663"}',
    "an integer beyond 64 bits for an integer": '{"to": "bob", "amount": 1e30}',
    "a nested string": json.dumps(json.dumps(json.dumps('{"to": "eve"}'))),
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_params_that_readers_understand_differently_do_not_run(desk: Desk, text: str) -> None:
    with pytest.raises(ToolError):
        desk.registry.execute("pay", text)
    assert desk.ran == []


INVISIBLE = [
    *("\u00ad", "\u034f", "\u061c", "\u115f", "\u1160", "\u17b4", "\u17b5", "\u180b", "\u180e", "\u200b", "\u200d"),
    *("\u202a", "\u202e", "\u2060", "\u2061", "\u2066", "\u206a", "\u3164", "\ufe00", "\ufe0f", "\ufeff", "\uffa0"),
    *("\ufff9", "\U0001d173", "\U000e0001", "\U000e0061", "\U000e0100", "\U000e01ef", "\u0085", "\u2029", "\x9b"),
]


@pytest.mark.parametrize("char", INVISIBLE, ids=lambda char: f"U+{ord(char):04X}")
def test_an_invisible_character_is_shown_as_an_escape(desk: Desk, char: str) -> None:
    value = f"bob{char}@example.com"
    desk.registry.execute("pay", {"to": value})
    text = "\n".join(request_lines(desk.asked[0])[0])
    assert char not in text and "bob\\u" in text
    assert desk.ran == [{"to": value}]


def test_the_form_of_an_emoji_is_shown_as_it_is(desk: Desk) -> None:
    desk.registry.execute("pay", {"to": "\u2764\ufe0f \u2764\ufe0f\ufe0f a\ufe0f"})
    assert '"to": "\u2764\ufe0f \u2764\ufe0f\\ufe0f a\\ufe0f"' in "\n".join(request_lines(desk.asked[0])[0])


def test_text_that_looks_like_an_escape_differs_from_the_escape(desk: Desk) -> None:
    for value in ("a\u200bb", "a\\u200bb"):
        desk.registry.execute("pay", {"to": value})
    first, second = (show_params(request).lines for request in desk.asked)
    assert first != second


@pytest.mark.parametrize("place", ["a long line", "many lines", "a long name", "deep"])
def test_a_value_beyond_the_shown_part_is_reported_as_cut(desk: Desk, place: str) -> None:
    hidden: dict[str, Any] = {
        "a long line": {"to": "x" * 500 + "eve"},
        "many lines": {"to": ["x"] * 60 + ["eve"]},
        "a long name": {"to": {"x" * 400: "eve"}},
        "deep": {"to": {"a": {"b": {"c": " " * 300 + "eve"}}}},
    }
    desk.registry.execute("pay", hidden[place])
    lines, cut = request_lines(desk.asked[0])
    assert cut and not any("eve" in line for line in lines[1:])  # after the headline
    lines, cut = request_lines(desk.asked[0], whole=True)
    assert not cut and any("eve" in line for line in lines)
