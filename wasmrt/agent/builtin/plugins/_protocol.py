"""Protocol version 0: one JSON object on a plugin's standard input, one on its standard output.

Source: zigclaw. A response without `request_id`, `ok` or `protocol_version` is malformed; the other fields are empty
where they are left out. What a plugin answers is hostile input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from wasmrt.core.errors import GuestOutputError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PLUGIN_OUTPUT_BYTES
from wasmrt.core.strict_json import JsonError, check_text, read_json, write_json
from wasmrt.sandbox.component import printable_line

PROTOCOL_VERSION = 0
_TEXTS = ("data_json", "stdout", "stderr")


class Mount(NamedTuple):
    """A folder that a plugin is given."""

    host_path: str
    """For a WASI plugin the guest's: it learns no path of this machine."""
    guest_path: str
    read_only: bool


class Response(NamedTuple):
    """A response that fits the request."""

    ok: bool
    data_json: str = ""
    stdout: str = ""
    stderr: str = ""

    @property
    def data(self) -> Any:
        """The data: parsed where it is JSON, else as text."""
        try:
            value = read_json(
                self.data_json, max_bytes=MAX_PLUGIN_OUTPUT_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS
            )
            check_text(value)
        except JsonError:
            return self.data_json
        return value


def encode_request(request_id: str, tool: str, args_json: str, cwd: str, mounts: Sequence[Mount]) -> bytes:
    """Return the request as one line of JSON."""
    request = {
        "protocol_version": PROTOCOL_VERSION,
        "request_id": request_id,
        "tool": tool,
        "args_json": args_json,
        "cwd": cwd,
        "mounts": [mount._asdict() for mount in mounts],
    }
    return write_json(request).encode("utf-8", "replace") + b"\n"


def decode_response(text: str, request_id: str) -> Response:
    """Read everything that a plugin wrote to its standard output.

    Raises:
        GuestOutputError: it is not one response, or not to this request.
    """
    if not text.strip():
        _malformed("the plugin answered nothing")
    try:
        read = read_json(
            text, max_bytes=MAX_PLUGIN_OUTPUT_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, exact=True
        )
        check_text(read)
    except JsonError as error:
        raise GuestOutputError(
            f"the plugin's response is {printable_line(str(error), 200)}",
            code="malformed-response", hint="have it write one JSON object, and nothing else",
        ) from error  # fmt: skip
    if not isinstance(read, dict):
        _malformed("the plugin's response is no JSON object")
    missing = [name for name in ("protocol_version", "request_id", "ok") if name not in read]
    if missing:
        _malformed(f"the plugin's response has no {' and no '.join(missing)}")
    version = read["protocol_version"]
    if type(version) is not int or version != PROTOCOL_VERSION:  # False is 0 elsewhere
        raise GuestOutputError(
            "the plugin's response is of another protocol version",
            code="protocol-version", hint=f"version {PROTOCOL_VERSION} is known here",
        )  # fmt: skip
    if read["request_id"] != request_id:
        # SECURITY: an answer to something else is no answer to this.
        raise GuestOutputError(
            "the plugin answered to another request",
            code="other-request", hint="have it return the request_id that it was given",
        )  # fmt: skip
    if not isinstance(read["ok"], bool):
        _malformed("the plugin's response has an ok that is neither true nor false")
    texts = {name: read.get(name, "") for name in _TEXTS}
    wrong = next((name for name, value in texts.items() if not isinstance(value, str)), None)
    if wrong is not None:
        _malformed(f"the plugin's response has a {wrong} that is no text")
    return Response(read["ok"], **texts)


def _malformed(sentence: str) -> NoReturn:
    raise GuestOutputError(
        sentence, code="malformed-response", hint="have it write one response with protocol_version, request_id and ok"
    )
