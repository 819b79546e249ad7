"""Describe validation failures in one line: the field, the expected value, and the given value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError

from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._wording import describe, field_path, names, nearest

MAX_PROBLEMS = 3
TOO_LARGE_PATTERN = (
    "a pattern whose automaton is too large; use smaller repetition counts, or limit the text with maxLength"
)
_MAX_READ = 100
_MAX_APPLIED = 4
_MAX_LINE_BYTES = 1500
_COUNT = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_A_TYPE = {
    "array": "an array", "boolean": "true or false", "integer": "an integer", "null": "null", "number": "a number",
    "object": "an object", "string": "a string",
}  # fmt: skip
_BOUNDS = {
    "minimum": "a number of at least {}", "maximum": "a number of at most {}",
    "exclusiveMinimum": "a number over {}", "exclusiveMaximum": "a number under {}",
    "multipleOf": "a multiple of {}",
    "minLength": "a string of at least {} characters", "maxLength": "a string of at most {} characters",
    "minItems": "at least {} items", "maxItems": "at most {} items",
    "minProperties": "at least {} fields", "maxProperties": "at most {} fields",
    "pattern": "a string that matches {}", "format": "a string of format {}",
    "contentEncoding": "a string in {}", "contentMediaType": "a string of {}",
}  # fmt: skip


def params_problem(errors: Iterable[ValidationError], schema: Mapping[str, Any]) -> str:
    """Describe the errors of params in one line, with all missing fields.

    `schema` is the reference-free schema that produced `errors`.
    """
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for error in islice(errors, _MAX_READ):
        where, what = _locate_and_describe(error, schema)
        if (where, what) not in seen:
            seen.add((where, what))
            problems.append(f"{where}: {what}" if where else what)
    text = "; ".join(problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        text += f"; and {len(problems) - MAX_PROBLEMS} more"
    return printable_line(text, _MAX_LINE_BYTES) or "the params do not match the tool's schema"


def oversized_problem(params: Any, schema: Mapping[str, Any], fits: Callable[[dict[str, Any], Any], bool]) -> str:
    """Describe only errors at the top level of the params. Used if collecting all errors would be too slow."""
    if not isinstance(params, dict):
        return f"expected an object, got {describe(params)}"
    required, properties = schema.get("required", ()), schema.get("properties", {})
    missing = [name for name in required if name not in params]
    if missing:
        return f"missing required fields {names(missing)} (required: {names(required)})"
    for name, value in params.items():
        kind = properties.get(name)
        if isinstance(kind, dict) and not fits(kind, value):
            return f"{field_path([name])}: {describe(value)} does not match its schema; it is too large for details"
    unknown = [str(name) for name in params if name not in properties]
    if unknown and schema.get("additionalProperties") is False and "patternProperties" not in schema:
        return printable_line(_list_unknown_fields(unknown, schema), _MAX_LINE_BYTES)
    return f"{describe(params)} does not match the tool's schema; it is too large for details"


def _locate_and_describe(error: ValidationError, schema: Mapping[str, Any]) -> tuple[str, str]:
    keyword = error.kind.name
    if keyword in ("anyOf", "oneOf") and (inner := _find_closest(error)) is not None:
        return _locate_and_describe(inner, schema)
    where = field_path(error.instance_path)
    describe_error = _DESCRIBERS.get(keyword)
    if describe_error is not None:
        return where, describe_error(error, schema)
    if keyword in _BOUNDS:
        return where, f"expected {_describe_wanted(error)}, got {_describe_given(keyword, error.instance)}"
    return where, printable_line(error.message, 200)


def _describe_given(keyword: str, value: Any) -> str:
    if keyword in ("minLength", "maxLength") and isinstance(value, str):
        return f"{len(value)}"
    return describe(value)


def _describe_type(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    return f"expected {_describe_wanted(error)}, got {describe(error.instance)}"


def _describe_missing(error: ValidationError, schema: Mapping[str, Any]) -> str:
    wanted = _look_up(schema, error.schema_path)
    given = error.instance if isinstance(error.instance, dict) else {}
    if not isinstance(wanted, list):
        return f"missing required field {names([str(error.kind.value)])}"
    missing = [str(name) for name in wanted if name not in given]
    plural = "" if len(missing) == 1 else "s"
    hint = _find_misspelled_field(missing, given, _look_up(schema, error.schema_path[:-1]))
    return f"missing required field{plural} {names(missing)} (required: {names(map(str, wanted))}){hint}"


def _find_misspelled_field(missing: list[str], given: Mapping[str, Any], owner: Any) -> str:
    """Return a hint on the given field that is probably a misspelling of a missing one, or an empty string."""
    known = owner.get("properties", {}) if isinstance(owner, dict) else {}
    if isinstance(owner, dict) and owner.get("additionalProperties") is False:
        return ""  # it is reported as an unknown field
    for name in islice((name for name in given if name not in known), MAX_PROBLEMS):
        if hint := nearest(name, missing):
            return f"; unknown field {names([str(name)])}{hint}"
    return ""


def _describe_unknown(error: ValidationError, schema: Mapping[str, Any]) -> str:
    unknown = [str(name) for name in error.kind.value]
    applied = _MAX_APPLIED if error.kind.name == "unevaluatedProperties" else 0
    return _list_unknown_fields(unknown, _look_up(schema, error.schema_path[:-1]), applied)


def _list_unknown_fields(unknown: list[str], owner: Any, applied: int = 0) -> str:
    """List the fields that the schema `owner` does not allow. Suggest similar known fields for the first few."""
    known, has_patterns = _list_fields(owner, applied)
    plural = "" if len(unknown) == 1 else "s"
    listed = [names([name]) + nearest(name, known) for name in unknown[:MAX_PROBLEMS]]
    if len(unknown) > MAX_PROBLEMS:
        listed.append(f"{names(unknown[MAX_PROBLEMS:])}")
    if known:
        fields = f"; the fields are {names(known)}" + (", and fields that match a pattern" if has_patterns else "")
    else:
        fields = "; it matches no pattern of the schema" if has_patterns else "; no fields are allowed here"
    return f"unknown field{plural} {', '.join(listed)}{fields}"


def _list_fields(owner: Any, applied: int) -> tuple[list[str], bool]:
    """Return the fields that a schema lists, and whether it also has patterns.

    Fields of schemas in allOf, anyOf, oneOf, if, then and else are included, down to `applied` levels. Use 0 for errors
    of the keyword `additionalProperties`, which does not consider such fields.
    """
    if not isinstance(owner, dict):
        return [], False
    known, has_patterns = dict.fromkeys(owner.get("properties", {})), bool(owner.get("patternProperties"))
    parts = [part for key in ("allOf", "anyOf", "oneOf") for part in owner.get(key, ())]
    parts += [owner[key] for key in ("if", "then", "else") if key in owner]
    for part in parts if applied else ():
        more, patterns = _list_fields(part, applied - 1)
        known |= dict.fromkeys(more)
        has_patterns |= patterns
    return list(known), has_patterns


def _describe_enum(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    options = _list_option_names(error)
    hint = nearest(error.instance, options)
    return f"expected one of {names(options)}, got {describe(error.instance)}{hint}"


def _describe_const(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    return f"expected {describe(error.kind.value)}, got {describe(error.instance)}"


def _describe_choice(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    branches: list[list[ValidationError]] = error.kind.value
    given = describe(error.instance)
    if not all(branches):
        return f"{given} matches more than one of the {len(branches)} allowed forms, and must match exactly one"
    base = len(error.instance_path)
    tags: dict[str, list[str]] = {}
    for tag in (failure for branch in branches for failure in branch if _is_tag(failure, base)):
        tags.setdefault(str(tag.instance_path[-1]), []).extend(_list_option_names(tag))
    if len(tags) == 1 and isinstance(error.instance, dict):
        [(name, options)] = tags.items()
        known = list(dict.fromkeys(options))
        found = error.instance.get(name)
        return f"expected {names([name])} to be one of {names(known)}, got {describe(found)}{nearest(found, known)}"
    wanted = [_describe_wanted(branch[0]) for branch in branches if branch[0].instance_path == error.instance_path]
    if len(wanted) == len(branches):
        return f"expected {_join_with_or(dict.fromkeys(wanted))}, got {given}"
    return f"{given} matches none of the {len(branches)} allowed forms"


def _is_tag(failure: ValidationError, base: int) -> bool:
    return failure.kind.name in ("const", "enum") and len(failure.instance_path) == base + 1


def _find_closest(error: ValidationError) -> ValidationError | None:
    """Return the first failure of the branch that matches best, or None.

    This is the branch with the fewest failures among the branches with the right type and tags.
    """
    base = len(error.instance_path)
    fitting = [branch for branch in error.kind.value if branch and not any(_is_mismatch(e, base) for e in branch)]
    first: ValidationError | None = min(fitting, key=len)[0] if fitting else None
    # A string that does not match a pattern may be meant as a different form, so all forms are listed.
    return None if first is not None and first.kind.name == "pattern" and len(first.instance_path) == base else first


def _is_mismatch(failure: ValidationError, base: int) -> bool:
    depth = len(failure.instance_path) - base
    return (failure.kind.name == "type" and depth == 0) or (failure.kind.name in ("const", "enum") and depth <= 1)


def _list_option_names(failure: ValidationError) -> list[str]:
    options = failure.kind.value if failure.kind.name == "enum" else [failure.kind.value]
    return [option if isinstance(option, str) else describe(option) for option in options]


def _describe_wanted(failure: ValidationError) -> str:
    keyword = failure.kind.name
    if keyword == "type":
        return _join_with_or(_A_TYPE.get(name, name) for name in sorted(failure.kind.value, key="null".__eq__))
    if keyword in ("enum", "const"):
        return f"one of {names(_list_option_names(failure))}"
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(printable_line(str(failure.kind.value), 100))
    return "a different form"


def _join_with_or(words: Iterable[str]) -> str:
    listed = list(words)
    return " or ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def _look_up(schema: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return None
    return schema


_DESCRIBERS: dict[str, Callable[[ValidationError, Mapping[str, Any]], str]] = {
    "type": _describe_type,
    "required": _describe_missing,
    "additionalProperties": _describe_unknown,
    "unevaluatedProperties": _describe_unknown,
    "enum": _describe_enum,
    "const": _describe_const,
    "anyOf": _describe_choice,
    "oneOf": _describe_choice,
    "uniqueItems": lambda error, _: f"expected unique items, got {describe(error.instance)} with a duplicate",
    "falseSchema": lambda error, _: f"no value is allowed here, got {describe(error.instance)}",
    "not": lambda error, _: f"{describe(error.instance)} is not allowed here",
}


def pattern_problem(pattern: str) -> str:
    """Describe the problem of a pattern that the non-backtracking engine refused.

    The engine does not report the reason. If the pattern compiles without its counted repetitions, it is too large.
    If it compiles in the backtracking engine, it uses lookaround or backreferences. Otherwise it is invalid.
    """
    if any(count[3] is not None and int(count[1]) > int(count[3]) for count in _COUNT.finditer(pattern)):
        return "an invalid pattern"
    small = _COUNT.sub("?", pattern)
    if _can_compile(small, jsonschema_rs.RegexOptions()):
        return TOO_LARGE_PATTERN
    if _can_compile(small, None):
        return "a pattern that cannot run in linear time; it uses lookahead, lookbehind or a backreference"
    return "an invalid pattern"


def _can_compile(pattern: str, options: jsonschema_rs.RegexOptions | None) -> bool:
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
    except ValueError:
        return False
    return True
