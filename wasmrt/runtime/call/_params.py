"""Params on their way in, and results on their way out: JSON within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from wasmrt.core.errors import InvalidParametersError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PARAMS_BYTES
from wasmrt.core.strict_json import JsonError, JsonFault, check_nesting, check_size, read_json, write_json


def read_params(params: Any, check: Callable[[], object] | None = None) -> Any:
    """Return `params` as JSON data: a mapping as it is, a text or bytes parsed; `check` may end what takes long.

    Raises:
        InvalidParametersError: a text that is not JSON (RFC 8259), or is over the size or depth cap.
    """
    if not isinstance(params, (str, bytes, bytearray)):
        return params
    try:
        return read_json(
            params, max_bytes=MAX_PARAMS_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, check=check
        )
    except JsonError as error:
        _refuse(error)


def write_params(params: Any, check: Callable[[], object] | None = None) -> str:
    """Return `params` as JSON text within the caps; `check` may end what takes long.

    Raises:
        InvalidParametersError: something in them is not JSON, or they are over a cap.
    """
    try:
        text = write_json(params, check=check)
        check_size(text, max_bytes=MAX_PARAMS_BYTES)
        check_nesting(text, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS)
    except JsonError as error:
        _refuse(error)
    return text


_HINTS = {
    JsonFault.SIZE: "pass large data by reference",
    JsonFault.PARTS: "pass large data by reference",
    JsonFault.DEPTH: "flatten them",
    JsonFault.ENCODING: "pass a JSON object as UTF-8 text",
    JsonFault.SYNTAX: "pass a JSON object",
}


def _refuse(error: JsonError) -> NoReturn:
    raise InvalidParametersError(f"params are {error}", hint=_HINTS[error.fault]) from error
