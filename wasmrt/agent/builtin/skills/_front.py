"""The YAML front matter of a SKILL.md: strings, lists and mappings, without any other type."""

from __future__ import annotations

from typing import Any

from wasmrt.core.strict_yaml import YamlProblem, read_yaml

MAX_FRONT_BYTES = 16 * 1024
MAX_FRONT_LINES = 512
_MAX_DEPTH = 4
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


def read_front(text: str) -> tuple[dict[str, Any] | None, list[YamlProblem]]:
    """Return the values of a front matter without its fences, and all problems with their lines in the SKILL.md.

    The values are None if the front matter is over a bound or is not valid YAML.
    """
    if text.count("\n") >= MAX_FRONT_LINES:
        return None, [YamlProblem(1, f"the front matter has more than {MAX_FRONT_LINES} lines")]
    values, problems = read_yaml(text, max_bytes=MAX_FRONT_BYTES, max_depth=_MAX_DEPTH)
    problems = [YamlProblem(line + 1, problem) for line, problem in problems]  # the fence is line 1
    if isinstance(values, dict):
        return values, problems
    if not values and not problems:
        return {}, []
    return None, problems or [YamlProblem(2, "the front matter must be a mapping: `key: value`")]
