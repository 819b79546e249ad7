"""A strict reader of .env files, for `wasmrt secret import`."""

from __future__ import annotations

import re
from io import StringIO

from wasmrt.core.errors import SecretError
from wasmrt.core.limits import MAX_ENV_FILE_BYTES
from wasmrt.egress.secrets._types import Secret, checked_name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def parse_env_file(text: str) -> tuple[tuple[str, Secret], ...]:
    """Return the assignments of a .env file as `(lower-case name, secret)`; empty values are left out.

    The syntax is that of python-dotenv: comments, `export`, quotes, escapes, values of several lines in quotes.
    Nothing is expanded.

    Raises:
        SecretError: a line is none of these, a name is set twice, or the file is too long. The message has
            the line's number and never its text.
    """
    from dotenv.parser import parse_stream  # needed by one command

    if len(text.encode(errors="replace")) > MAX_ENV_FILE_BYTES:
        raise SecretError(f"a .env file may have {MAX_ENV_FILE_BYTES} bytes", code="env-file")
    found: dict[str, Secret] = {}
    for binding in parse_stream(StringIO(text.removeprefix("\ufeff"))):
        if binding.key is None and not binding.error:
            continue  # a comment, or nothing
        source = binding.original.string
        number = binding.original.line + source[: len(source) - len(source.lstrip())].count("\n")
        if binding.error or binding.value is None or not _NAME.fullmatch(binding.key or ""):
            raise SecretError(f"line {number} is not NAME=value", code="env-file", hint="write one variable a line")
        name = checked_name(binding.key or "")
        if name in found:
            raise SecretError(f"line {number} sets {name} again", code="env-file")
        if binding.value:
            found[name] = Secret(binding.value)
    return tuple(found.items())
