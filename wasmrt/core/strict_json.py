"""JSON as RFC 8259 has it, within bounds: for texts of guests, models and strangers.

Python's own reader takes more than JSON (NaN, numbers that become infinite) and recurses into whatever nests; its
writer writes NaN. Here size, nesting and the number of lists and objects are counted before a text is taken apart.

The C parts of both keep the interpreter from every other thread until they end, for a tenth of a second and more over
numbers by the million. What is large goes through functions of Python, between which other threads have their turn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum, auto
from itertools import count
from math import isinf
from typing import Any

_MAX_EXPONENT = 1000
"""Of a number in JSON text; doubles end at 308."""
_MAX_NUMBER_CHARS = 400
_LARGE_CHARS = 256 * 1024
"""Of a text; the C reader takes 20 ns for each of them where they are numbers."""
_MANY_VALUES = 20_000
"""The C writer takes up to 0.4 us for each."""
_MAX_LEVELS = 1000
"""Of a value that is written: as deep as Python's own calls go."""
_RUN_VALUES = 4096
"""Taken at once, and then is looked whether to go on."""
_HOLDERS = (dict, list, tuple)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_SPACE = " \t\n\r"
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


class JsonFault(Enum):
    """Reasons to refuse a text or a value."""

    SIZE = auto()
    ENCODING = auto()
    PARTS = auto()
    DEPTH = auto()
    SYNTAX = auto()


class JsonError(ValueError):
    """A text or a value is no JSON, or is over a bound; the message goes on after `it is`, and may quote the text."""

    def __init__(self, message: str, fault: JsonFault = JsonFault.SYNTAX) -> None:
        super().__init__(message)
        self.fault = fault


def read_json(
    text: str | bytes | bytearray,
    *,
    max_bytes: int,
    max_depth: int,
    max_parts: int | None = None,
    exact: bool = False,
    distinct: bool = False,
    check: Callable[[], object] | None = None,
) -> Any:
    """Parse JSON text, within bounds; bytes are UTF-8.

    `max_depth` bounds how deep lists and objects nest, `max_parts` how many there are. With `exact`, what two readers
    may read differently is refused too: a name that an object has twice, and a number whose digits no double holds.
    `distinct` refuses the first of these, and whole numbers of hundreds of digits. `check` is called now and then while
    a large text without either is taken apart, and may raise.

    Raises:
        JsonError: it is not JSON, or over a bound.
    """
    check_size(text, max_bytes=max_bytes)
    if not isinstance(text, str):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise JsonError("not UTF-8", JsonFault.ENCODING) from error
    check_nesting(text, max_depth=max_depth, max_parts=max_parts)
    return parse_json(text, exact=exact, distinct=distinct, check=check)


def parse_json(
    text: str, *, exact: bool = False, distinct: bool = False, check: Callable[[], object] | None = None
) -> Any:
    """Parse a text that is within bounds already; `exact`, `distinct` and `check` as for `read_json`.

    Raises:
        JsonError: it is not JSON.
    """
    decoder = _exact if exact else _distinct_names if distinct else _decoder
    if decoder is _decoder and len(text) > _LARGE_CHARS:
        decoder = _large_decoder(check or _never)
    try:
        stripped = text.strip(_SPACE)
        value, end = decoder.raw_decode(stripped)
        return value if end == len(stripped) else decoder.decode(text)  # which says in its words what is too much
    except JsonError:
        raise
    except RecursionError as error:
        raise JsonError("nested too deep", JsonFault.DEPTH) from error
    except ValueError as error:
        said = "a number of too many digits" if "int_max_str_digits" in str(error) else error
        raise JsonError(f"not JSON: {said}") from error


def write_json(value: Any, *, check: Callable[[], object] | None = None) -> str:
    """Return the shortest JSON text of a value; `check` is called now and then where it is large, and may raise.

    Raises:
        JsonError: something in it is not JSON, or it nests too deep or holds itself.
    """
    try:
        return written_by(_encoder, value, check=check)
    except RecursionError as error:
        raise JsonError("nested too deep, or in itself", JsonFault.DEPTH) from error
    except (TypeError, ValueError) as error:
        raise JsonError(f"not JSON: {error}") from error


def written_by(encoder: json.JSONEncoder, value: Any, *, check: Callable[[], object] | None = None) -> str:
    """Return what `encoder` makes of a value, piece by piece where it is large; raises what it and `check` raise."""
    if not _holds_many(value):  # nearly every one: at once
        return encoder.encode(value)
    return "".join(_pieces(encoder, value, check or _never, frozenset()))


def _pieces(
    encoder: json.JSONEncoder, value: Any, check: Callable[[], object], around: frozenset[int]
) -> Iterator[str]:
    """Yield the text of a value, each piece of few values; `around` are the ids of what it is in.

    Python's own `iterencode` leaves cycles behind, and the values with them, where it does not come to its end.
    """
    if not _holds_many(value):
        yield encoder.encode(value)
        return
    if id(value) in around:
        raise ValueError("it holds itself")
    around |= {id(value)}
    between = ""
    if isinstance(value, dict):
        yield "{"
        for place, (name, held) in enumerate(sorted(value.items()) if encoder.sort_keys else value.items()):
            if not place % _RUN_VALUES:
                check()
            yield between + encoder.encode({name: 0})[1:-2]
            yield from _pieces(encoder, held, check, around)
            between = encoder.item_separator
        yield "}"
        return
    yield "["
    for start in range(0, len(value), _RUN_VALUES):
        check()
        run = value[start : start + _RUN_VALUES]
        if not _holds_many(run):
            yield between + encoder.encode(run)[1:-1]
        else:
            for place, held in enumerate(run):
                yield between if not place else encoder.item_separator
                yield from _pieces(encoder, held, check, around)
        between = encoder.item_separator
    yield "]"


def _holds_many(value: Any) -> bool:
    """Tell whether there are many values in a value, those of its lists and objects included.

    Raises:
        RecursionError: it nests deeper than an encoder could go.
    """
    left, level = _MANY_VALUES, [value] if isinstance(value, _HOLDERS) else []
    for _ in range(_MAX_LEVELS):
        if not level:
            return False
        left -= sum(map(len, level))
        if left < 0:
            return True
        level = [
            each
            for held in level
            for each in (held.values() if isinstance(held, dict) else held)
            if type(each) not in _PLAIN and isinstance(each, _HOLDERS)
        ]
    raise RecursionError


def check_text(value: Any, *, check: Callable[[], object] | None = None) -> None:
    """Refuse a value with half a surrogate pair in a text of it: JSON can spell one, and nothing can pass it on.

    `check` as for `write_json`.

    Raises:
        JsonError: it has one.
    """
    try:
        write_json(value, check=check).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("no text: it holds half a surrogate pair", JsonFault.ENCODING) from error


def check_size(text: str | bytes | bytearray, *, max_bytes: int) -> None:
    """Refuse a text of more than `max_bytes` in UTF-8.

    Raises:
        JsonError: it has more.
    """
    size = len(text)
    if isinstance(text, str) and size <= max_bytes < 4 * size:  # a character has up to four bytes
        size = utf8_size(text)
    if size > max_bytes:
        raise JsonError(f"over {max_bytes:,} bytes", JsonFault.SIZE)


def utf8_size(text: str) -> int:
    """Return the bytes of a text in UTF-8, half surrogate pairs included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_nesting(text: str, *, max_depth: int, max_parts: int | None = None) -> None:
    """Refuse JSON text with lists and objects nested deeper than `max_depth`, or more of them than `max_parts`.

    It takes time linear in the text, and recurses into nothing.

    Raises:
        JsonError: it is refused.
    """
    opened = text.count("[") + text.count("{")
    if opened <= max_depth:
        return
    if max_parts is not None and opened > max_parts:
        raise JsonError(f"of over {max_parts:,} lists and objects", JsonFault.PARTS)
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # What is left is brackets and the quotes around strings; a bracket in a string stands behind an odd one.
    marks = data.translate(_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    for _ in range(max_depth):  # each round takes the innermost pairs away, which is one level
        size, marks = len(marks), marks.replace(b"[]", b"")
        if len(marks) == size:
            break
    # What was never closed is gone into by a reader all the same.
    if b"[]" in marks or marks.count(b"[") > max_depth:
        raise JsonError(f"nested over {max_depth} deep", JsonFault.DEPTH)


def _refuse_constant(name: str) -> None:
    raise JsonError(f"not JSON: {name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise JsonError(f"not JSON: {text[:20]} is over what a reader can hold")
    return number


def _never() -> None:
    pass


def _large_decoder(check: Callable[[], object]) -> json.JSONDecoder:
    numbers = count(1)

    def integer(text: str) -> int:
        if not next(numbers) % _RUN_VALUES:
            check()
        return int(text)

    def fraction(text: str) -> float:
        if not next(numbers) % _RUN_VALUES:
            check()
        return _finite(text)

    return json.JSONDecoder(parse_constant=_refuse_constant, parse_float=fraction, parse_int=integer)


def _exponent(text: str) -> int:
    return int(text.lower().partition("e")[2] or 0)


def _exact_float(text: str) -> float:
    number = float(text)
    # Exponents beyond a double are beyond a Decimal too, and end in an error of its own.
    if len(text) > _MAX_NUMBER_CHARS or abs(_exponent(text)) > _MAX_EXPONENT or Decimal(text) != Decimal(repr(number)):
        raise JsonError("a number that a double does not hold")
    return number


def _exact_integer(text: str) -> int:
    if len(text) > _MAX_NUMBER_CHARS:
        raise JsonError("a number of too many digits")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise JsonError("an object that has a name twice")
    return fields


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_exact = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_exact_float, parse_int=_exact_integer, object_pairs_hook=_distinct
)
_distinct_names = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_finite, parse_int=_exact_integer, object_pairs_hook=_distinct
)
# No plain value that holds itself gets here, for it has levels without end; whatever else does ends as too deep.
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
