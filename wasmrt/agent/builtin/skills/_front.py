"""The YAML front matter of a SKILL.md: strings, lists and mappings, without any other type."""

from __future__ import annotations

import json
import re
from typing import Any

from wasmrt.core.strict_yaml import YamlProblem, read_yaml

MAX_FRONT_BYTES = 16 * 1024
MAX_FRONT_LINES = 512
_MAX_DEPTH = 8
_FENCE = "---"


def split_front(text: str) -> tuple[str, str] | None:
    """Return the front matter and the text below it, or None if there is no complete front matter."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None
    for number, line in enumerate(lines[1 : MAX_FRONT_LINES + 2], 1):
        if line.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return None


def read_front(text: str) -> tuple[dict[str, Any] | None, list[YamlProblem], list[tuple[str, str]]]:
    """Return the values of a front matter without its fences, all problems with their lines in the SKILL.md, and notes.

    The values are None if the front matter is over a bound or is not valid YAML.
    """
    if text.count("\n") >= MAX_FRONT_LINES:
        return None, [YamlProblem(1, f"the front matter has more than {MAX_FRONT_LINES} lines")], []
    values, problems = _read(text)
    notes: list[tuple[str, str]] = []
    if values is None and problems:
        quoted, keys = _quote_plain_values(text)
        if keys:
            values, problems = _read(quoted)
            notes = [(key, "is not valid YAML and was read as text; write it in quotes") for key in keys]
    problems = [YamlProblem(line + 1, problem) for line, problem in problems]  # the fence is line 1
    if isinstance(values, dict):
        return values, problems, notes
    if not values and not problems:
        return {}, [], notes
    return None, problems or [YamlProblem(2, "the front matter must be a mapping: `key: value`")], notes


def _read(text: str) -> tuple[Any, list[YamlProblem]]:
    return read_yaml(text, max_bytes=MAX_FRONT_BYTES, max_depth=_MAX_DEPTH)


_ENTRY = re.compile(r"(?m)^(?=[A-Za-z][A-Za-z0-9_-]*:)")
_PLAIN_VALUE = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):[ \t]+(?![\"'|>{&!\s]|\[[^\]]*\Z)(.+(?:\n(?:[ \t].*)?)*)")


def _quote_plain_values(text: str) -> tuple[str, list[str]]:
    """Quote each plain value that is not valid YAML, such as `Use when: ...`, and return the keys of these values.

    The numbers of lines do not change. Authors write such values, because other readers of front matter accept them.
    """
    keys: list[str] = []
    entries = _ENTRY.split(text)
    for at, entry in enumerate(entries):
        found = _PLAIN_VALUE.fullmatch(entry)
        if found and _read(entry)[0] is None:
            keys.append(found[1])
            value = json.dumps(" ".join(found[2].split()), ensure_ascii=False)
            entries[at] = f"{found[1]}: {value}" + "\n" * entry.count("\n")
    return "".join(entries), keys
