"""Validation failures as one line: which field, what was expected, what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from jsonschema_rs import ValidationError

from wasmrt.sandbox.component import printable_line
from wasmrt.sandbox.schema._wording import field_path, names, nearest, shown

MAX_PROBLEMS = 3
_MAX_READ = 100
_MAX_APPLIED = 4
_MAX_LINE_BYTES = 1500
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
    """Return what is wrong with the params, in one line that names every missing field.

    `schema` is the reference-free schema that gave `errors`.
    """
    problems: list[str] = []
    seen: set[tuple[str, str]] = set()
    for error in islice(errors, _MAX_READ):
        where, what = _at(error, schema)
        if (where, what) not in seen:
            seen.add((where, what))
            problems.append(f"{where}: {what}" if where else what)
    text = "; ".join(problems[:MAX_PROBLEMS])
    if len(problems) > MAX_PROBLEMS:
        text += f"; and {len(problems) - MAX_PROBLEMS} more"
    return printable_line(text, _MAX_LINE_BYTES) or "the params do not fit the tool's schema"


def oversized_problem(params: Any, schema: Mapping[str, Any], fits: Callable[[dict[str, Any], Any], bool]) -> str:
    """Return what is wrong, by looking at the top level alone, where collecting every failure would cost too much."""
    if not isinstance(params, dict):
        return f"expected an object, got {shown(params)}"
    required, properties = schema.get("required", ()), schema.get("properties", {})
    missing = [name for name in required if name not in params]
    if missing:
        return f"missing required fields {names(missing)} (required: {names(required)})"
    for name, value in params.items():
        kind = properties.get(name)
        if isinstance(kind, dict) and not fits(kind, value):
            return f"{field_path([name])}: {shown(value)} does not fit its schema; it is too large to say where"
    strangers = [str(name) for name in params if name not in properties]
    if strangers and schema.get("additionalProperties") is False and "patternProperties" not in schema:
        return printable_line(_strangers(strangers, schema), _MAX_LINE_BYTES)
    return f"{shown(params)} does not fit the tool's schema; it is too large to say where"


def _at(error: ValidationError, schema: Mapping[str, Any]) -> tuple[str, str]:
    keyword = error.kind.name
    if keyword in ("anyOf", "oneOf") and (inner := _closest(error)) is not None:
        return _at(inner, schema)
    where = field_path(error.instance_path)
    describe = _SAID.get(keyword)
    if describe is not None:
        return where, describe(error, schema)
    if keyword in _BOUNDS:
        return where, f"expected {_wanted(error)}, got {_given(keyword, error.instance)}"
    return where, printable_line(error.message, 200)


def _given(keyword: str, value: Any) -> str:
    if keyword in ("minLength", "maxLength") and isinstance(value, str):
        return f"{len(value)}"
    return shown(value)


def _type(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    return f"expected {_wanted(error)}, got {shown(error.instance)}"


def _required(error: ValidationError, schema: Mapping[str, Any]) -> str:
    wanted = _lookup(schema, error.schema_path)
    given = error.instance if isinstance(error.instance, dict) else {}
    if not isinstance(wanted, list):
        return f"missing required field {names([str(error.kind.value)])}"
    missing = [str(name) for name in wanted if name not in given]
    plural = "" if len(missing) == 1 else "s"
    meant = _misspelt(missing, given, _lookup(schema, error.schema_path[:-1]))
    return f"missing required field{plural} {names(missing)} (required: {names(map(str, wanted))}){meant}"


def _misspelt(missing: list[str], given: Mapping[str, Any], owner: Any) -> str:
    """Return which field that was given was probably meant to be one that is missing; nothing where none was."""
    known = owner.get("properties", {}) if isinstance(owner, dict) else {}
    if isinstance(owner, dict) and owner.get("additionalProperties") is False:
        return ""  # it is told as an unknown field
    for name in islice((name for name in given if name not in known), MAX_PROBLEMS):
        if hint := nearest(name, missing):
            return f"; {names([str(name)])} is not known{hint}"
    return ""


def _unknown(error: ValidationError, schema: Mapping[str, Any]) -> str:
    strangers = [str(name) for name in error.kind.value]
    applied = _MAX_APPLIED if error.kind.name == "unevaluatedProperties" else 0
    return _strangers(strangers, _lookup(schema, error.schema_path[:-1]), applied)


def _strangers(strangers: list[str], owner: Any, applied: int = 0) -> str:
    """Return which fields the schema `owner` does not know, each of the first with the one that was meant."""
    known, open_to_more = _fields(owner, applied)
    plural = "" if len(strangers) == 1 else "s"
    told = [names([name]) + nearest(name, known) for name in strangers[:MAX_PROBLEMS]]
    if len(strangers) > MAX_PROBLEMS:
        told.append(f"{names(strangers[MAX_PROBLEMS:])}")
    if known:
        fields = f"; the fields are {names(known)}" + (", and those of its patterns" if open_to_more else "")
    else:
        fields = "; it is none of its patterns" if open_to_more else "; no field is taken here"
    return f"unknown field{plural} {', '.join(told)}{fields}"


def _fields(owner: Any, applied: int) -> tuple[list[str], bool]:
    """Return the fields that a schema names, and whether it has patterns too.

    Those of the schemas that apply beside it count down to `applied` levels: `additionalProperties` does not see them.
    """
    if not isinstance(owner, dict):
        return [], False
    known, has_patterns = dict.fromkeys(owner.get("properties", {})), bool(owner.get("patternProperties"))
    beside = [part for key in ("allOf", "anyOf", "oneOf") for part in owner.get(key, ())]
    beside += [owner[key] for key in ("if", "then", "else") if key in owner]
    for part in beside if applied else ():
        more, patterns = _fields(part, applied - 1)
        known |= dict.fromkeys(more)
        has_patterns |= patterns
    return list(known), has_patterns


def _enum(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    options = _option_names(error)
    hint = nearest(error.instance, options)
    return f"expected one of {names(options)}, got {shown(error.instance)}{hint}"


def _const(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    return f"expected {shown(error.kind.value)}, got {shown(error.instance)}"


def _none_fits(error: ValidationError, _schema: Mapping[str, Any]) -> str:
    branches: list[list[ValidationError]] = error.kind.value
    given = shown(error.instance)
    if not all(branches):
        return f"{given} fits more than one of the {len(branches)} forms allowed, and must fit one"
    base = len(error.instance_path)
    tags: dict[str, list[str]] = {}
    for tag in (failure for branch in branches for failure in branch if _is_tag(failure, base)):
        tags.setdefault(str(tag.instance_path[-1]), []).extend(_option_names(tag))
    if len(tags) == 1 and isinstance(error.instance, dict):
        [(name, options)] = tags.items()
        known = list(dict.fromkeys(options))
        found = error.instance.get(name)
        return f"expected {names([name])} to be one of {names(known)}, got {shown(found)}{nearest(found, known)}"
    wanted = [_wanted(branch[0]) for branch in branches if branch[0].instance_path == error.instance_path]
    if len(wanted) == len(branches):
        return f"expected {_or(dict.fromkeys(wanted))}, got {given}"
    return f"{given} fits none of the {len(branches)} forms allowed"


def _is_tag(failure: ValidationError, base: int) -> bool:
    return failure.kind.name in ("const", "enum") and len(failure.instance_path) == base + 1


def _closest(error: ValidationError) -> ValidationError | None:
    """Return the first failure of the one branch that was meant: right type, right tags; None where none stands out."""
    base = len(error.instance_path)
    meant = [branch for branch in error.kind.value if branch and not any(_another(e, base) for e in branch)]
    first: ValidationError | None = min(meant, key=len)[0] if meant else None
    # A text that fails a pattern was perhaps never meant as text: then every form is named.
    return None if first is not None and first.kind.name == "pattern" and len(first.instance_path) == base else first


def _another(failure: ValidationError, base: int) -> bool:
    depth = len(failure.instance_path) - base
    return (failure.kind.name == "type" and depth == 0) or (failure.kind.name in ("const", "enum") and depth <= 1)


def _option_names(failure: ValidationError) -> list[str]:
    options = failure.kind.value if failure.kind.name == "enum" else [failure.kind.value]
    return [option if isinstance(option, str) else shown(option) for option in options]


def _wanted(failure: ValidationError) -> str:
    keyword = failure.kind.name
    if keyword == "type":
        return _or(_A_TYPE.get(name, name) for name in sorted(failure.kind.value, key="null".__eq__))
    if keyword in ("enum", "const"):
        return f"one of {names(_option_names(failure))}"
    if keyword in _BOUNDS:
        return _BOUNDS[keyword].format(printable_line(str(failure.kind.value), 100))
    return "another form"


def _or(words: Iterable[str]) -> str:
    listed = list(words)
    return " or ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


def _lookup(schema: Any, path: Iterable[str | int]) -> Any:
    for part in path:
        try:
            schema = schema[part]
        except (KeyError, IndexError, TypeError):
            return None
    return schema


_SAID: dict[str, Callable[[ValidationError, Mapping[str, Any]], str]] = {
    "type": _type,
    "required": _required,
    "additionalProperties": _unknown,
    "unevaluatedProperties": _unknown,
    "enum": _enum,
    "const": _const,
    "anyOf": _none_fits,
    "oneOf": _none_fits,
    "uniqueItems": lambda error, _: f"expected items that all differ, got {shown(error.instance)} with a repeat",
    "falseSchema": lambda error, _: f"nothing is allowed here, got {shown(error.instance)}",
    "not": lambda error, _: f"{shown(error.instance)} is not allowed here",
}
