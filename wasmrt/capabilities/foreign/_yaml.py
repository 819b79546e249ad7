"""The part of YAML that policies are written in: nested maps and lists, scalars, flow lists of scalars, comments.

Anchors, tags, block texts and several documents are refused: a policy needs none, and readers differ on them.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from wasmrt.core.errors import CapabilityFileError
from wasmrt.core.limits import MAX_CAPABILITY_FILE_BYTES, MAX_CAPABILITY_FILE_DEPTH

_KEY = re.compile(r"""("[^"\\]*"|'[^']*'|[A-Za-z0-9_./-]+)\s*:(?:\s+(.*))?$""")
_REFUSED = ("&", "*", "!", "|", ">", "%", "@", "`", "{", "?")


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Any:
    """Return a document as JSON data; a scalar is a text, a number, true, false or None.

    Raises:
        CapabilityFileError: it is not of this part of YAML.
    """
    if len(text) > MAX_CAPABILITY_FILE_BYTES:
        raise _refused(0, "the file is too large")
    lines: list[_Line] = []
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = _without_comment(raw).rstrip()
        if not stripped.strip() or (stripped == "---" and not lines):
            continue
        if "\t" in stripped[: len(stripped) - len(stripped.lstrip())]:
            raise _refused(number, "a tab stands where spaces belong")
        lines.append(_Line(number, len(stripped) - len(stripped.lstrip()), stripped.strip()))
    if not lines:
        return None
    value, rest = _block(lines, lines[0].indent, 1)
    if rest:
        raise _refused(rest[0].number, "it is indented as nothing above")
    return value


def _without_comment(line: str) -> str:
    quote = ""
    for at, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (at == 0 or line[at - 1] in " [,"):
            quote = char
        elif char == "#" and (at == 0 or line[at - 1] == " "):
            return line[:at]
    return line


def _block(lines: list[_Line], indent: int, depth: int) -> tuple[Any, list[_Line]]:
    if depth > MAX_CAPABILITY_FILE_DEPTH:
        raise _refused(lines[0].number, "it nests too deep")
    return (_list if lines[0].text.startswith("- ") or lines[0].text == "-" else _map)(lines, indent, depth)


def _map(lines: list[_Line], indent: int, depth: int) -> tuple[dict[str, Any], list[_Line]]:
    found: dict[str, Any] = {}
    while lines and lines[0].indent == indent and not lines[0].text.startswith("- "):
        line, lines = lines[0], lines[1:]
        match = _KEY.match(line.text)
        if match is None:
            raise _refused(line.number, "it is no `key: value`")
        key = match[1].strip("\"'")
        if key in found:
            raise _refused(line.number, f"{key!r} stands twice")
        if match[2]:
            found[key] = _scalar(match[2], line.number)
        elif lines and (lines[0].indent > indent or (lines[0].indent == indent and lines[0].text.startswith("-"))):
            found[key], lines = _block(lines, lines[0].indent, depth + 1)
        else:
            found[key] = None
    return found, lines


def _list(lines: list[_Line], indent: int, depth: int) -> tuple[list[Any], list[_Line]]:
    found: list[Any] = []
    while lines and lines[0].indent == indent and (lines[0].text.startswith("- ") or lines[0].text == "-"):
        line, lines = lines[0], lines[1:]
        rest = line.text[1:].lstrip()
        if not rest:
            if not lines or lines[0].indent <= indent:
                raise _refused(line.number, "an entry is empty")
            value, lines = _block(lines, lines[0].indent, depth + 1)
        elif _KEY.match(rest) and rest[0] not in "\"'":
            inner = indent + len(line.text) - len(rest)
            value, lines = _block([_Line(line.number, inner, rest), *lines], inner, depth + 1)
        else:
            value = _scalar(rest, line.number)
        found.append(value)
    return found, lines


def _scalar(text: str, number: int) -> Any:
    if text.startswith("["):
        if not text.endswith("]") or "[" in text[1:] or "{" in text:
            raise _refused(number, "a list in one line holds plain values only")
        return [_scalar(part.strip(), number) for part in text[1:-1].split(",") if part.strip()]
    if text[0] in "\"'":
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise _refused(number, "a quoted text may hold neither its quote nor a backslash")
        return text[1:-1]
    if text.startswith(_REFUSED):
        raise _refused(number, f"{text[:20]!r} is YAML that no policy needs")
    if text in ("true", "false"):
        return text == "true"
    if text in ("null", "~"):
        return None
    return int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else text


def _refused(number: int, why: str) -> CapabilityFileError:
    place = f"line {number}" if number else "$"
    return CapabilityFileError(
        f"the policy cannot be read: {place}: {why}", problems=((place, why),), hint="write it in plain YAML"
    )
