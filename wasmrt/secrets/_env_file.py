"""Reading a .env file, for `wasmrt secret import`."""

from __future__ import annotations

import re

from wasmrt.errors import SecretError
from wasmrt.limits import MAX_ENV_FILE_BYTES
from wasmrt.secrets._types import Secret, checked_name

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_-]*)\s*=\s*(.*)\Z")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def parse_env_file(text: str) -> tuple[tuple[str, Secret], ...]:
    """Return the assignments of a .env file as `(lower-case name, secret)`.

    Understood: comments, `export`, single and double quotes, the usual escapes. Nothing is expanded.

    Raises:
        SecretError: a line is none of these, a name is set twice, or the file is too long. The message has
            the line's number and never its text.
    """
    if len(text.encode(errors="replace")) > MAX_ENV_FILE_BYTES:
        raise SecretError(f"a .env file may have {MAX_ENV_FILE_BYTES} bytes", code="env-file")
    found: dict[str, Secret] = {}
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        value = None if match is None else _value(match[2])
        if match is None or value is None:
            raise SecretError(f"line {number} is not NAME=value", code="env-file", hint="write one variable a line")
        name = checked_name(match[1])
        if name in found:
            raise SecretError(f"line {number} sets {name} again", code="env-file")
        if value:
            found[name] = Secret(value)
    return tuple(found.items())


def _value(text: str) -> str | None:
    """Return the value without quotes and comment, or None where a quote is not closed."""
    if text[:1] == "'":
        match = re.match(r"'([^']*)'\s*(?:#.*)?\Z", text)
        return None if match is None else match[1]
    if text[:1] == '"':
        match = re.match(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?\Z', text)
        return None if match is None else re.sub(r"\\(.)", _unescape, match[1])
    return re.split(r"\s+#", text, maxsplit=1)[0].strip()


def _unescape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1], match[0])
