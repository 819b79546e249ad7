"""Attacks with values by the million: what a function of plain types gives and takes, turned into text by the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.core.errors import BudgetExceededError, OutputLimitError, TrapError
from wasmrt.sandbox.guest.engine import wat2wasm

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


def _function(takes: str, gives: str, count: int, before: str = "") -> Callable[[], bytes]:
    """A component whose one function gives a list of `count` entries at one place of its memory."""
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


def _values(name: str, about: str, body: Callable[[], bytes], *, is_refused: bool = True, params: Any = None) -> Attack:
    expects = (TrapError, BudgetExceededError, OutputLimitError) if is_refused else ()
    return Attack(name=name, about=about, body=body, expects=expects, params=params or {})


VALUES = (
    _values("numbers-by-the-million", "answers with a list of four million numbers", _function("", "f64", 4_000_000)),
    _values("numbers-under-the-cap", "answers with as many numbers as are read at all",
            _function("", "f64", 260_000), is_refused=False),
    _values("tuples-by-the-million", "answers with a list of a million tuples",
            _function("", "(tuple f64 f64 f64 f64)", 1_000_000)),
    _values("texts-by-the-million", "answers with a million times the same text",
            _function("", "string", _TEXTS, _POINTERS)),
    _values("params-by-the-thousand", "is called with forty thousand texts",
            _function("(list string)", "u8", 0), is_refused=False, params={"x": ["a" * 30] * 40_000}),
)  # fmt: skip
