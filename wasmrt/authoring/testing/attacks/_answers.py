"""Attacks with results: too large, not text, almost JSON, terminal escapes, or millions of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.authoring.testing.attacks._attack import Attack, attack
from wasmrt.authoring.testing.attacks._build import ANSWER_AT, TEXT_AT, Body
from wasmrt.core.errors import BudgetExceededError, GuestError, GuestOutputError, OutputLimitError, ToolError, TrapError
from wasmrt.sandbox.guest.engine import wat2wasm


def _answer(text: bytes, *, as_error: bool = False) -> Body:
    how = "$fail" if as_error else "$say"
    return Body(text=text, execute=f"(call {how} (i32.const {TEXT_AT}) (i32.const {len(text)}))")


def _answer_filled(byte: bytes, count: int, *, as_error: bool = False) -> Body:
    how = "$fail" if as_error else "$say"
    return Body(
        execute=f"""(drop (memory.grow (i32.const {count // 65536 + 1})))
        (memory.fill (i32.const 131072) (i32.const {byte[0]}) (i32.const {count}))
        (call {how} (i32.const 131072) (i32.const {count}))"""
    )


def _answer_repeated(text: bytes, size: int) -> Body:
    """Return a tool whose result is a JSON string that repeats `text`."""
    return Body(
        text=text,
        execute=f"""(drop (memory.grow (i32.const {size // 65536 + 2})))
        (local.set $i (i32.const 131073)) (i32.store8 (i32.const 131072) (i32.const 34))
        (loop $more (memory.copy (local.get $i) (i32.const {TEXT_AT}) (i32.const {len(text)}))
          (local.set $i (i32.add (local.get $i) (i32.const {len(text)})))
          (br_if $more (i32.lt_u (local.get $i) (i32.const {131072 + size - len(text)}))))
        (i32.store8 (local.get $i) (i32.const 34))
        (call $say (i32.const 131072) (i32.sub (local.get $i) (i32.const 131071)))""",
    )


ANSWERS = (
    attack("output-of-fifty-megabytes", "answers with 50 MB", _answer_filled(b"x", 50_000_000), OutputLimitError),
    attack("deep-output", "answers with a million open brackets", _answer_filled(b"[", 1_000_000), GuestOutputError),
    attack("error-of-fifty-megabytes", "fails with 50 MB", _answer_filled(b"x", 50_000_000, as_error=True),
           OutputLimitError),
    attack("long-number", "answers with a number of 100,000 digits", _answer_filled(b"7", 100_000), GuestOutputError),
    attack("invalid-utf-8", "answers with bytes that are not UTF-8", _answer(b'"\xff\xfe\xc0"'), TrapError),
    attack("nearly-json", "answers with a trailing comma", _answer(b'{"a": 1,}'), GuestOutputError),
    attack("two-values", "answers with two JSON values", _answer(b"{} {}"), GuestOutputError),
    attack("not-a-number", "answers with NaN", _answer(b'{"a": NaN}'), GuestOutputError),
    attack("no-output", "answers with an empty text", _answer(b""), GuestOutputError),
    attack("half-a-character", "answers with half a surrogate pair", _answer(b'"\\ud800"'), GuestOutputError),
    attack("terminal-escapes", "fails with a text that clears the screen and sets the title",
           _answer(b"\x1b[2J\x1b]0;owned\x07\x9b31m", as_error=True), GuestError, TrapError),
    attack("terminal-escapes-in-utf-8", "fails with escapes and with characters that turn the text around",
           _answer("\x1b[31mred\x1b[0m \u202egnp.exe\u202c\r\n\x00\u0085".encode(), as_error=True), GuestError),
    attack("token-across-the-cut", "fails with a text that is truncated in the middle of a token",
           _answer(b"word " * 818 + b"ghp_" + b"wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx" + b" more" * 99, as_error=True),
           GuestError),
    attack("name-for-a-terminal", "traps in a function whose name clears the screen",
           Body(execute=r'''(call $"\1b[2J\1b]0;owned\07\0aline") (call $ok)''',
                functions=r'''(func $"\1b[2J\1b]0;owned\07\0aline" unreachable)'''), TrapError),
    attack("secrets-by-the-thousand", "answers with 4 MB that look like passwords",
           _answer_repeated(b"password=" + b"aB3dE5gH7jK9" + b"mN1pQ3 ", 4_000_000), ToolError, harmless=True),
    attack("neither-output-nor-error", "answers with neither an output nor an error",
           Body(execute=f"""(i64.store (i32.const {ANSWER_AT}) (i64.const 0))
        (i64.store (i32.const {ANSWER_AT + 8}) (i64.const 0)) (i32.const {ANSWER_AT})"""), GuestError),
    attack("answer-outside-memory", "answers with an address outside its memory",
           Body(execute="(i32.const 0x7ffffff0)"), TrapError),
    attack("answer-unaligned", "answers with an odd address", Body(execute="(i32.const 65)"), TrapError),
    attack("answer-of-no-kind", "answers with an option that is neither some nor none",
           Body(execute=f"(i32.store (i32.const {ANSWER_AT}) (i32.const 9)) (i32.const {ANSWER_AT})"), TrapError),
    attack("text-outside-memory", "answers with a text that ends outside its memory",
           Body(execute="(call $say (i32.const 65536) (i32.const 0x7fffffff))"), TrapError),
)  # fmt: skip


_AT = 65536
_TEXTS = 1_000_000
_REALLOC = """(func (export "realloc") (param $from i32) (param $old i32) (param $align i32) (param $size i32)
      (result i32) (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))))
      (local.get $at))"""
_POINTERS = f"""(local $i i32) (local.set $i (i32.const {_AT}))
      (loop $more (i32.store (local.get $i) (i32.const 8)) (i32.store offset=4 (local.get $i) (i32.const 100))
        (local.set $i (i32.add (local.get $i) (i32.const 8)))
        (br_if $more (i32.lt_u (local.get $i) (i32.const {_AT + 8 * _TEXTS}))))"""


def _build_list_function(takes: str, gives: str, count: int, before: str = "") -> Callable[[], bytes]:
    """Return a builder of a component whose only export returns a list of `count` entries."""
    param, core_param = (f'(param "x" {takes})', "(param i32 i32)") if takes else ("", "")
    return lambda: wat2wasm(
        f"""(component
    (core module $m
      (memory (export "memory") 520)
      (global $top (mut i32) (i32.const {_AT}))
      {_REALLOC}
      (func (export "f") {core_param} (result i32) {before}
        (i32.store (i32.const 0) (i32.const {_AT})) (i32.store (i32.const 4) (i32.const {count})) (i32.const 0)))
    (core instance $i (instantiate $m))
    (func (export "f") {param} (result (list {gives}))
      (canon lift (core func $i "f") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"""
    )


def _make_value_attack(
    name: str, about: str, body: Callable[[], bytes], *, is_refused: bool = True, params: Any = None
) -> Attack:
    expects = (TrapError, BudgetExceededError, OutputLimitError) if is_refused else ()
    return Attack(name=name, about=about, body=body, expects=expects, params=params or {})


VALUES = (
    _make_value_attack("numbers-by-the-million", "answers with a list of four million numbers",
                  _build_list_function("", "f64", 4_000_000)),
    _make_value_attack("numbers-under-the-cap", "answers with as many numbers as the host reads",
                  _build_list_function("", "f64", 260_000), is_refused=False),
    _make_value_attack("tuples-by-the-million", "answers with a list of a million tuples",
                  _build_list_function("", "(tuple f64 f64 f64 f64)", 1_000_000)),
    _make_value_attack("texts-by-the-million", "answers with the same text a million times",
                  _build_list_function("", "string", _TEXTS, _POINTERS)),
    _make_value_attack("params-by-the-thousand", "is called with forty thousand texts",
                  _build_list_function("(list string)", "u8", 0), is_refused=False, params={"x": ["a" * 30] * 40_000}),
)  # fmt: skip
