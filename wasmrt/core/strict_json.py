"""JSON according to RFC 8259, within bounds: for text of guests, models and third parties.

Python's reader accepts more than JSON (NaN, numbers that overflow to infinity) and recurses without a bound; its writer
writes NaN. Here size, nesting and the number of lists and objects are checked before the text is parsed.

The C parts of both hold the GIL until they finish, for 0.1 s and more with millions of numbers. Large input therefore
goes through Python callbacks, between which other threads can run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import Enum, auto
from math import isinf
from sys import getsizeof
from typing import Any

from wasmrt.core.large_json import LARGE_CHARS, StepReader, TooMuchMemoryError, counting_decoder, needs_counting_decoder

_MAX_EXPONENT = 1000
"""Maximum exponent of a number in JSON text. A double's exponent ends at 308."""
_MAX_NUMBER_CHARS = 400
_MANY_VALUES = 20_000
"""The C writer takes up to 0.4 us per value."""
_MANY_NUMBERS = 400_000
"""More numbers than this are counted while they are read: each takes 32 bytes of memory."""
_MAX_WIDE_CHARS = 2 * 1024 * 1024
"""Maximum length of a text with a character beyond U+FFFF, because Python then stores four bytes per character."""
_WIDE_ESCAPE = re.compile(r"\\u[dD][89abAB]")
_PIECE_CHARS = 256 * 1024
_MAX_LEVELS = 1000
"""Maximum nesting of a value to write: Python's recursion limit."""
_RUN_VALUES = 4096
"""Values between two calls of `check`."""
_HOLDERS = (dict, list, tuple)
_PLAIN = frozenset({str, int, float, bool, type(None)})
_SPACE = " \t\n\r"
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


class JsonFault(Enum):
    """Reasons to reject a text or a value."""

    SIZE = auto()
    ENCODING = auto()
    PARTS = auto()
    DEPTH = auto()
    SYNTAX = auto()


class JsonError(ValueError):
    """A text or value is not JSON or exceeds a bound. The message follows the words `it is`, and may quote the text."""

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
    """Parse JSON text within bounds; bytes are decoded as UTF-8.

    `max_depth` limits the nesting of lists and objects, `max_parts` their number. `exact` also rejects what two readers
    could read differently: a duplicate name in an object, and a number that a double cannot hold exactly. `distinct`
    rejects duplicate names. Both, and every large text, reject integers of more than 400 digits. While a large text is
    parsed without `exact` and `distinct`, `check` is called periodically, and may raise.

    Raises:
        JsonError: the text is not JSON or exceeds a bound.
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
    """Parse text that is already within bounds; see `read_json` for `exact`, `distinct` and `check`.

    Raises:
        JsonError: the text is not JSON.
    """
    decoder = _exact if exact else _distinct_names if distinct else _decoder
    try:
        if len(text) > LARGE_CHARS:
            _check_width(text)
            if needs_counting_decoder(text) or (decoder is not _decoder and text.count(",") > _MANY_NUMBERS):
                return StepReader(text, _large if decoder is _decoder else decoder, check or _never).read()
            if decoder is _decoder:
                decoder = counting_decoder(
                    check or _never, _read_finite, _read_exact_integer, parse_constant=_refuse_constant
                )
        stripped = text.strip(_SPACE)
        value, end = decoder.raw_decode(stripped)
        if end != len(stripped):
            raise json.JSONDecodeError("Extra data", stripped, end)
        return value
    except JsonError:
        raise
    except RecursionError as error:
        raise JsonError("nested too deep", JsonFault.DEPTH) from error
    except TooMuchMemoryError as error:
        raise JsonError("too large: over 14 MiB in memory", JsonFault.PARTS) from error
    except ValueError as error:
        detail = "a number has too many digits" if "int_max_str_digits" in str(error) else error
        raise JsonError(f"not JSON: {detail}") from error


def write_json(value: Any, *, check: Callable[[], object] | None = None) -> str:
    """Return the shortest JSON text of a value. If the value is large, `check` is called periodically, and may raise.

    Raises:
        JsonError: a part of the value is not JSON, or it is nested too deep or contains itself.
    """
    try:
        return encode_json(_encoder, value, check=check)
    except RecursionError as error:
        raise JsonError("nested too deep, or contained in itself", JsonFault.DEPTH) from error
    except (TypeError, ValueError) as error:
        raise JsonError(f"not JSON: {error}") from error


def encode_json(encoder: json.JSONEncoder, value: Any, *, check: Callable[[], object] | None = None) -> str:
    """Return the output of `encoder`, piece by piece if the value is large; raises the errors of both."""
    if not _holds_many(value):  # almost always
        return encoder.encode(value)
    return "".join(_iter_pieces(encoder, value, check or _never, frozenset()))


def _iter_pieces(
    encoder: json.JSONEncoder, value: Any, check: Callable[[], object], around: frozenset[int]
) -> Iterator[str]:
    """Yield the text of a value in small pieces; `around` has the ids of the values that contain it.

    Python's own `iterencode` is not used: if it does not finish, it leaves reference cycles that keep the values alive.
    """
    if not _holds_many(value):
        yield encoder.encode(value)
        return
    if id(value) in around:
        raise ValueError("it contains itself")
    around |= {id(value)}
    between = ""
    if isinstance(value, dict):
        yield "{"
        for place, (name, held) in enumerate(sorted(value.items()) if encoder.sort_keys else value.items()):
            if not place % _RUN_VALUES:
                check()
            yield between + encoder.encode({name: 0})[1:-2]
            yield from _iter_pieces(encoder, held, check, around)
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
                yield from _iter_pieces(encoder, held, check, around)
        between = encoder.item_separator
    yield "]"


def _holds_many(value: Any) -> bool:
    """Return whether a value contains many values, including those in its lists and objects.

    Raises:
        RecursionError: the value is nested deeper than an encoder supports.
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
    """Reject a value with a lone surrogate in a string: JSON can escape one, but UTF-8 cannot encode it.

    See `write_json` for `check`.

    Raises:
        JsonError: a string has a lone surrogate.
    """
    try:
        write_json(value, check=check).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError("not valid Unicode: a string contains half a surrogate pair", JsonFault.ENCODING) from error


def check_size(text: str | bytes | bytearray, *, max_bytes: int) -> None:
    """Reject text of more than `max_bytes` in UTF-8.

    Raises:
        JsonError: the text is larger.
    """
    size = len(text)
    if isinstance(text, str) and size <= max_bytes < 4 * size:  # a character has up to four bytes
        size = utf8_size(text)
    if size > max_bytes:
        raise JsonError(f"over {max_bytes:,} bytes", JsonFault.SIZE)


def utf8_size(text: str) -> int:
    """Return the size of a text in UTF-8 bytes, lone surrogates included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_nesting(text: str, *, max_depth: int, max_parts: int | None = None) -> None:
    """Reject JSON text with lists and objects nested deeper than `max_depth`, or more of them than `max_parts`.

    Takes linear time and does not recurse.

    Raises:
        JsonError: the text is rejected.
    """
    opened = text.count("[") + text.count("{")
    if opened <= max_depth:
        return
    if max_parts is not None and opened > max_parts:
        raise JsonError(f"too large: over {max_parts:,} lists and objects", JsonFault.PARTS)
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Only brackets and string quotes are left. A bracket after an odd number of quotes is inside a string.
    marks = data.translate(_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    for _ in range(max_depth):  # each round removes the innermost pairs, which is one level
        size, marks = len(marks), marks.replace(b"[]", b"")
        if len(marks) == size:
            break
    # A reader also recurses into brackets that are never closed.
    if b"[]" in marks or marks.count(b"[") > max_depth:
        raise JsonError(f"nested over {max_depth} deep", JsonFault.DEPTH)


def _check_width(text: str) -> None:
    if len(text) > _MAX_WIDE_CHARS and _is_wide(text):
        message = f"too large: over {_MAX_WIDE_CHARS:,} characters, some of them beyond U+FFFF"
        raise JsonError(message, JsonFault.SIZE)


def _is_wide(text: str) -> bool:
    """Return whether a text has a character beyond U+FFFF, or an escape of one; in pieces, so that others can run."""
    if getsizeof(text) > 3 * len(text):  # Python stores four bytes for each character
        return True
    starts = range(0, len(text), _PIECE_CHARS)
    return any(_WIDE_ESCAPE.search(text, start, start + _PIECE_CHARS + len(r"\ud8")) for start in starts)


def _refuse_constant(name: str) -> None:
    raise JsonError(f"not JSON: {name} is not a number")


def _read_finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise JsonError(f"not JSON: {text[:20]} exceeds the range of a double")
    return number


def _never() -> None:
    pass


def _read_exponent(text: str) -> int:
    return int(text.lower().partition("e")[2] or 0)


def _read_exact_float(text: str) -> float:
    number = float(text)
    # Check the exponent first: Decimal raises a different error for extreme exponents.
    if (
        len(text) > _MAX_NUMBER_CHARS
        or abs(_read_exponent(text)) > _MAX_EXPONENT
        or Decimal(text) != Decimal(repr(number))
    ):
        raise JsonError("invalid: a double cannot represent one of the numbers exactly")
    return number


def _read_exact_integer(text: str) -> int:
    if len(text) > _MAX_NUMBER_CHARS:
        raise JsonError("invalid: a number has too many digits")
    return int(text)


def _read_distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise JsonError("invalid: an object has a duplicate name")
    return fields


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_finite)
# SECURITY: Python needs 0.25 ms to write an integer of 4,000 digits, and the C writer writes a whole list at once.
_large = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_read_finite, parse_int=_read_exact_integer)
_exact = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_read_exact_float,
    parse_int=_read_exact_integer,
    object_pairs_hook=_read_distinct,
)
_distinct_names = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_read_finite,
    parse_int=_read_exact_integer,
    object_pairs_hook=_read_distinct,
)
# `_holds_many` detects plain values that contain themselves; any other is reported as nested too deep.
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
