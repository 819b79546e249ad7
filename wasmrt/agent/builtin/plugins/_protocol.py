"""Protocol version 0: a plugin reads one JSON object, writes one JSON object, and exits with an exit code.

Source: zigclaw. A response without `request_id`, `ok` or `protocol_version` is malformed. Any other missing field
counts as empty. SECURITY: the output of a plugin is hostile input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from wasmrt.core.errors import GuestExitError, GuestOutputError, ToolError
from wasmrt.core.limits import MAX_JSON_DEPTH, MAX_JSON_PARTS, MAX_PLUGIN_OUTPUT_BYTES, PROGRAM_TAIL_CHARS
from wasmrt.core.model import NOTHING_USED, Decision, LogEntry, Usage
from wasmrt.core.strict_json import JsonError, check_text, read_json, write_json
from wasmrt.sandbox.component import last_lines, printable_line


class Printed(NamedTuple):
    """The output of a program. A failed program may still have written a response with the reason."""

    stdout: str
    stderr: str = ""
    failure: ToolError | None = None
    usage: Usage = NOTHING_USED
    logs: tuple[LogEntry, ...] = ()
    decisions: tuple[Decision, ...] = ()


def exit_failure(code: int, stderr: str) -> GuestExitError | None:
    """Return the error for an exit code, or None for 0. The stderr text has been redacted."""
    if code == 0:
        return None
    output = printable_line(last_lines(stderr, PROGRAM_TAIL_CHARS))
    message = f"the plugin ended with exit code {code}"
    return GuestExitError(f"{message}: {output}" if output else message, exit_code=code)


PROTOCOL_VERSION = 0
_TEXTS = ("data_json", "stdout", "stderr")


class Mount(NamedTuple):
    """A folder granted to a plugin."""

    host_path: str
    """For a WASI plugin, this is the guest path, because such a plugin receives no host paths."""
    guest_path: str
    read_only: bool


class Response(NamedTuple):
    """A valid response to a request."""

    ok: bool
    data_json: str = ""
    stdout: str = ""
    stderr: str = ""

    @property
    def data(self) -> Any:
        """The data: parsed if it is JSON, otherwise as text."""
        try:
            value = read_json(
                self.data_json, max_bytes=MAX_PLUGIN_OUTPUT_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS
            )
            if "\\u" in self.data_json:
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
    """Parse the standard output of a plugin.

    Raises:
        GuestOutputError: the output is not exactly one response to this request.
    """
    if not text.strip():
        _raise_malformed("the plugin's response is empty")
    try:
        read = read_json(
            text, max_bytes=MAX_PLUGIN_OUTPUT_BYTES, max_depth=MAX_JSON_DEPTH, max_parts=MAX_JSON_PARTS, exact=True
        )
        if "\\u" in text:
            check_text(read)
    except JsonError as error:
        raise GuestOutputError(
            f"the plugin's response is {printable_line(str(error), 200)}",
            code="malformed-response", hint="change the plugin to write exactly one JSON object",
        ) from error  # fmt: skip
    if not isinstance(read, dict):
        _raise_malformed("the plugin's response is not a JSON object")
    missing = [name for name in ("protocol_version", "request_id", "ok") if name not in read]
    if missing:
        _raise_malformed(f"the plugin's response lacks {' and '.join(missing)}")
    version = read["protocol_version"]
    if type(version) is not int or version != PROTOCOL_VERSION:  # False == 0
        raise GuestOutputError(
            "the plugin's response has an unsupported protocol version",
            code="protocol-version", hint=f"use version {PROTOCOL_VERSION}",
        )  # fmt: skip
    if read["request_id"] != request_id:
        # SECURITY: reject a response to a different request.
        raise GuestOutputError(
            "the plugin's response is for a different request",
            code="other-request", hint="change the plugin to return the request_id of the request",
        )  # fmt: skip
    if not isinstance(read["ok"], bool):
        _raise_malformed("the plugin's response: expected true or false for ok")
    texts = {name: read.get(name, "") for name in _TEXTS}
    wrong = next((name for name, value in texts.items() if not isinstance(value, str)), None)
    if wrong is not None:
        _raise_malformed(f"the plugin's response: expected a string for {wrong}")
    return Response(read["ok"], **texts)


def _raise_malformed(sentence: str) -> NoReturn:
    raise GuestOutputError(
        sentence, code="malformed-response", hint="write one response with protocol_version, request_id and ok"
    )
