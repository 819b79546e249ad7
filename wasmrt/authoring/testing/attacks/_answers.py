"""Attacks in what a tool answers: too large, not text, nearly JSON, made for a terminal."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.authoring.testing.attacks._build import ANSWER_AT, TEXT_AT, Body
from wasmrt.core.errors import GuestError, GuestOutputError, OutputLimitError, ToolError, TrapError, WasmrtError


def _says(text: bytes, *, as_error: bool = False) -> Body:
    how = "$fail" if as_error else "$say"
    return Body(text=text, execute=f"(call {how} (i32.const {TEXT_AT}) (i32.const {len(text)}))")


def _says_filled(byte: bytes, count: int, *, as_error: bool = False) -> Body:
    how = "$fail" if as_error else "$say"
    return Body(
        execute=f"""(drop (memory.grow (i32.const {count // 65536 + 1})))
        (memory.fill (i32.const 131072) (i32.const {byte[0]}) (i32.const {count}))
        (call {how} (i32.const 131072) (i32.const {count}))"""
    )


def _says_again(text: bytes, size: int) -> Body:
    """A JSON string of `text` over and over."""
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


def _answer(name: str, about: str, body: Body, *expects: type[WasmrtError]) -> Attack:
    return Attack(name=name, about=about, body=body, expects=expects)


ANSWERS = (
    _answer("output-of-fifty-megabytes", "answers with 50 MB", _says_filled(b"x", 50_000_000), OutputLimitError),
    _answer("deep-output", "answers with a million open brackets", _says_filled(b"[", 1_000_000), GuestOutputError),
    _answer(
        "error-of-fifty-megabytes",
        "fails with 50 MB",
        _says_filled(b"x", 50_000_000, as_error=True),
        OutputLimitError,
    ),
    _answer("long-number", "answers with a number of 100,000 digits", _says_filled(b"7", 100_000), GuestOutputError),
    _answer("invalid-utf-8", "answers with bytes that are not UTF-8", _says(b'"\xff\xfe\xc0"'), TrapError),
    _answer("nearly-json", "answers with a trailing comma", _says(b'{"a": 1,}'), GuestOutputError),
    _answer("two-values", "answers with two JSON values", _says(b"{} {}"), GuestOutputError),
    _answer("not-a-number", "answers with NaN", _says(b'{"a": NaN}'), GuestOutputError),
    _answer("no-output", "answers with an empty text", _says(b""), GuestOutputError),
    _answer("half-a-character", "answers with half a surrogate pair", _says(b'"\\ud800"'), GuestOutputError),
    _answer(
        "terminal-escapes",
        "fails with a text that clears the screen and sets the title",
        _says(b"\x1b[2J\x1b]0;owned\x07\x9b31m", as_error=True),
        GuestError, TrapError,
    ),
    _answer(
        "terminal-escapes-in-utf-8",
        "fails with escapes and with characters that turn the text around",
        _says("\x1b[31mred\x1b[0m \u202egnp.exe\u202c\r\n\x00\u0085".encode(), as_error=True),
        GuestError,
    ),
    _answer(
        "token-across-the-cut",
        "fails with a text whose cut goes through a token",
        _says(b"word " * 818 + b"ghp_" + b"wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx" + b" more" * 99, as_error=True),
        GuestError,
    ),
    _answer(
        "name-for-a-terminal",
        "breaks in a function whose name clears the screen",
        Body(
            execute=r'''(call $"\1b[2J\1b]0;owned\07\0aline") (call $ok)''',
            functions=r'''(func $"\1b[2J\1b]0;owned\07\0aline" unreachable)''',
        ),
        TrapError,
    ),
    Attack(
        name="secrets-by-the-thousand",
        about="answers with 4 MB of what looks like passwords",
        body=_says_again(b"password=" + b"aB3dE5gH7jK9" + b"mN1pQ3 ", 4_000_000),
        harmless=True,
        expects=(ToolError,),
    ),
    _answer(
        "neither-output-nor-error",
        "answers with nothing at all",
        Body(execute=f"""(i64.store (i32.const {ANSWER_AT}) (i64.const 0))
        (i64.store (i32.const {ANSWER_AT + 8}) (i64.const 0)) (i32.const {ANSWER_AT})"""),
        GuestError,
    ),
    _answer(
        "answer-outside-memory", "answers with an address outside its memory",
        Body(execute="(i32.const 0x7ffffff0)"), TrapError,
    ),
    _answer("answer-unaligned", "answers with an odd address", Body(execute="(i32.const 65)"), TrapError),
    _answer(
        "answer-of-no-kind", "answers with an option that is neither some nor none",
        Body(execute=f"(i32.store (i32.const {ANSWER_AT}) (i32.const 9)) (i32.const {ANSWER_AT})"), TrapError,
    ),
    _answer(
        "text-outside-memory", "answers with a text that ends outside its memory",
        Body(execute="(call $say (i32.const 65536) (i32.const 0x7fffffff))"), TrapError,
    ),
)  # fmt: skip
