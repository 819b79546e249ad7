"""Params on their way in: JSON within bounds, and what the tool's own schema says of them."""

from __future__ import annotations

import json
from math import inf
from typing import Any

from wasmrt.errors import InvalidParametersError
from wasmrt.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES

_refuse = json.JSONEncoder().default
# `JSONEncoder.encode` makes this object again for every text. Cycles end as too deep rather than in a table of ids,
# which threads could not share.
_pieces = json.encoder.c_make_encoder(  # type: ignore[attr-defined]  # the stubs do not have it
    None, _refuse, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def _encode(value: Any) -> str:
    return "".join(_pieces(value, 0))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (inf, -inf):
        raise ValueError(f"{text[:20]} is over what a JSON reader can hold")
    return value


_decoder = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_scan_once = _decoder.scan_once  # type: ignore[attr-defined]  # the stubs do not have it
_decode = _decoder.decode


def decode(text: str) -> Any:
    """JSON text to data, without the NaN and Infinity that Python would take.

    Raises:
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        value, end = _scan_once(text, 0)
    except StopIteration:
        end = -1
    # White space around it is rare; what is wrong with a text, the decoder says in its own words.
    return value if end == len(text) else _decode(text)


_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))


def parsed(params: Any) -> Any:
    """`params` as JSON data: a mapping as it is, a text or bytes parsed.

    Raises:
        InvalidParametersError: a text that is not JSON (RFC 8259), or is over the size or depth cap.
    """
    if not isinstance(params, (str, bytes, bytearray)):
        return params
    size = len(params)
    if size > MAX_PARAMS_BYTES:
        raise _too_large(size)
    try:
        text = params if isinstance(params, str) else params.decode("utf-8")
        check_depth(text)
        return decode(text)
    except UnicodeDecodeError as error:
        raise InvalidParametersError("params are not UTF-8", hint="pass a JSON object as UTF-8 text") from error
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise InvalidParametersError(f"params are not JSON: {error}", hint="pass a JSON object") from error


def encoded(params: Any) -> str:
    """`params` as JSON text within the caps.

    Raises:
        InvalidParametersError: something in them is not JSON, or they are over a cap.
    """
    try:
        text = _encode(params)
    except RecursionError as error:
        raise _too_deep() from error
    except (TypeError, ValueError) as error:
        raise InvalidParametersError(f"params are not JSON: {error}", hint="pass a JSON object") from error
    if len(text) * 4 > MAX_PARAMS_BYTES:  # otherwise no text is over the cap
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > MAX_PARAMS_BYTES:
            raise _too_large(size)
    check_depth(text)
    return text


def check_unicode(value: Any) -> None:
    """Refuse half a surrogate pair in JSON data: that is JSON, but no text that anybody could pass on.

    Raises:
        ValueError: a text holds one.
    """
    _encode(value).encode()


def check_depth(text: str) -> None:
    """Refuse JSON text that is nested deeper than the cap, before anything recurses into it.

    Raises:
        InvalidParametersError: it is.
    """
    opened = text.count("[") + text.count("{")
    if opened <= MAX_JSON_DEPTH:
        return
    if opened > MAX_JSON_PARTS:
        # Counted before it is walked: the walk is ours, and nobody may make it long.
        raise InvalidParametersError(
            f"the JSON has over {MAX_JSON_PARTS:,} lists and objects", hint="pass large data by reference"
        )
    data = text.encode("utf-8", "surrogatepass")
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # What is left is brackets and the quotes around strings; a bracket in a string stands behind an odd one.
    marks = data.translate(_SQUARE, _NOT_STRUCTURE).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    for _ in range(MAX_JSON_DEPTH):  # each round takes the innermost pairs away, which is one level
        size, marks = len(marks), marks.replace(b"[]", b"")
        if len(marks) == size:
            break
    if (
        b"[]" in marks or marks.count(b"[") > MAX_JSON_DEPTH
    ):  # the latter: never closed, and a reader goes in all the same
        raise _too_deep()


def _too_deep() -> InvalidParametersError:
    return InvalidParametersError(f"params are nested over {MAX_JSON_DEPTH} deep", hint="flatten them")


def _too_large(size: int) -> InvalidParametersError:
    return InvalidParametersError(
        f"params are {size:,} bytes, over the cap of {MAX_PARAMS_BYTES:,}", hint="pass large data by reference"
    )
