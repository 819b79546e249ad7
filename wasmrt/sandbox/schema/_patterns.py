"""Patterns that a schema may not have, told apart: too large an automaton, none linear in the text, or no pattern."""

from __future__ import annotations

import re

import jsonschema_rs

_COUNT = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")


def pattern_problem(pattern: str) -> str:
    """Return in words what is wrong with a pattern that the engine without backtracking refused.

    The engine itself says only that it did. Without its counted repeats the pattern is small: where it is taken then,
    the repeats made it too large; where another engine takes it, it looks around or back; else it is none.
    """
    if any(count[3] is not None and int(count[1]) > int(count[3]) for count in _COUNT.finditer(pattern)):
        return "a pattern that is broken"
    small = _COUNT.sub("?", pattern)
    if _compiles(small, jsonschema_rs.RegexOptions()):
        return "a pattern whose automaton is too large; count less in it, or bound the text with maxLength"
    if _compiles(small, None):
        return "a pattern that cannot run in linear time; it looks ahead, behind, or back at a group"
    return "a pattern that is broken"


def _compiles(pattern: str, options: jsonschema_rs.RegexOptions | None) -> bool:
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True
