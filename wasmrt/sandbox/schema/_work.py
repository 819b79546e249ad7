"""Estimate the time of compiling a schema and of checking params, so that a foreign schema cannot stop the host.

The validator is one C call that holds the GIL: while it runs, no other thread does. An estimate over `MAX_CHECK_NS`
is refused before the call. The costs below were measured with jsonschema-rs 0.60 and are rounded up; they are estimates
for one core of 2026, not exact times. `tests/sandbox/schema/test_host_time.py` measures each of them at the limit.

Every part of a reference-free schema is applied to every value at most once, so the cost of all parts times the number
of values is a first estimate. Only if that is over the limit, `_walk_ns` follows the schema through the params.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from wasmrt.core.limits import MAX_JSON_DEPTH
from wasmrt.sandbox.schema._document import subschemas
from wasmrt.sandbox.schema._patterns import estimate_character_ns, estimate_compile_ns, iter_own_patterns

MAX_CHECK_NS = 20_000_000
MAX_COMPILE_NS = 20_000_000
MAX_COERCE = 1_000_000
"""Steps of a coercion: about a second in Python, which other threads can interrupt."""
MAX_ERRORS = 2_500
"""Errors that are collected in one C call; each takes up to 8 us."""
MAX_ERROR_VALUES = 20_000
"""Values that one error copies in one C call; each takes up to 0.7 us and 1 KiB of memory."""
_ABOUT_PARTS = frozenset(
    ("$schema", "$id", "$comment", "title", "description", "default", "examples", "type", "required", "properties",
     "additionalProperties", "items")
)  # fmt: skip
"""Keywords whose errors are about parts of an object or array, or can be found without a validator."""
_LIGHT_PARTS = 100
_LIGHT_BYTES = 16_384
_HEAVY = ("$ref", "attern", "$dynamic", 'Of"')
_MAX_ERROR_CHARACTERS = 16_000_000
"""Maximum number of characters in the strings that all errors of a check store."""
_COERCED_CHARACTERS = 100
"""Characters that are parsed as JSON in the time of one step in Python."""
_MAX_VALUES = 1_000_000
_BITS_64 = 2**63
_SMALL, _LARGE = 1e-30, 1e19
"""Floats outside of this range, and integers of more than 64 bits, are compared by slow exact arithmetic."""

# Nanoseconds of one part for one value.
_PART, _KEYWORD, _SLOW_KEYWORD = 20, 15, 60
_STEP = 80
"""Nanoseconds added for each step of `_walk_ns`, which is slower than the check. So the walk ends after 250,000 steps,
which take half a second."""
_TEXT_NS = {"contentEncoding": 2, "contentMediaType": 30}


class Cost(NamedTuple):
    """The nanoseconds that checking parts of a schema takes."""

    value: float = 0
    """Nanoseconds per value."""
    fraction: float = 0
    """Additional nanoseconds per float."""
    extreme: float = 0
    """Additional nanoseconds per number beyond 64 bits; see `Size.extremes`."""
    character: float = 0
    """Nanoseconds per character of strings and field names."""
    unique: float = 0
    """Nanoseconds per pair of integers beyond 64 bits, which `uniqueItems` compares one by one."""


class Size(NamedTuple):
    """The amount of JSON data."""

    values: int = 0
    characters: int = 0
    fractions: int = 0
    extremes: int = 0
    """Numbers beyond 64 bits, counted several times if they have many digits."""


class Weight(NamedTuple):
    """The cost of a schema."""

    parts: int
    """Upper bound on the number of errors for one value."""
    cost: Cost
    """The cost of all parts together."""


def weigh(schema: Any) -> Weight:
    """Return the cost of a reference-free schema."""
    inner = [(keyword, weigh(part)) for keyword, part in _iter_applied(schema)]
    cost = _add_costs([*_iter_own_costs(schema), *(weight.cost for _, weight in inner)])
    for _ in range(sum(keyword in _EVALUATED_AGAIN for keyword in schema) if isinstance(schema, dict) else 0):
        cost = _multiply_cost(_AGAIN, cost)
    return Weight(_count_listed(schema) + sum(weight.parts for _, weight in inner), cost)


def takes_too_long(schema: Any, weight: Weight, params: Any) -> bool:
    """Return whether checking params may take longer than `MAX_CHECK_NS`."""
    return _get_ns(weight.cost, size_of(params)) > MAX_CHECK_NS and _walk_ns(schema, params) > MAX_CHECK_NS


def _get_ns(cost: Cost, size: Size) -> float:
    return (
        cost.value * size.values + cost.fraction * size.fractions + cost.extreme * size.extremes
        + cost.character * size.characters + cost.unique * size.extremes**2
    )  # fmt: skip


def _walk_ns(schema: Any, params: Any) -> float:
    """Estimate the nanoseconds of a check from the parts that apply to each value. Stop when the limit is exceeded."""
    known: dict[int, Cost] = {}
    total, waiting = 0.0, [(schema, params, 1)]
    while waiting and total <= MAX_CHECK_NS:
        part, value, times = waiting.pop()
        total += _STEP
        if not isinstance(part, dict):
            continue
        if id(part) not in known:
            known[id(part)] = _add_costs(_iter_own_costs(part))
        size = size_of(value) if part.get("uniqueItems") is True else _get_size([value])
        total += times * _get_ns(known[id(part)], size)
        times *= _AGAIN ** sum(keyword in _EVALUATED_AGAIN for keyword in part)
        waiting += [(inner, each, times) for inner, each in _iter_applications(part, value)]
    return total


def _iter_applications(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each subschema with each value that it may be applied to. A check may skip branches of a choice."""
    for keyword, name, inner in _iter_places(schema):
        if keyword in _SAME_VALUE:
            yield inner, value
        elif isinstance(value, dict):
            if keyword == "properties":
                if name in value:
                    yield inner, value[name]
            elif keyword == "propertyNames":
                yield from ((inner, each) for each in value)
            elif keyword == "patternProperties" or keyword.endswith("Properties"):
                named = schema.get("properties", {}) if keyword == "additionalProperties" else ()
                yield from ((inner, held) for each, held in value.items() if each not in named)
        elif isinstance(value, list):
            if keyword == "prefixItems" or (keyword == "items" and isinstance(name, int)):
                yield from ((inner, each) for each in value[name : name + 1])
            elif keyword.endswith("tems") or keyword == "contains":
                yield from ((inner, each) for each in value)


def compile_ns(schema: Any) -> float:
    """Return an upper estimate of the nanoseconds that compiling a reference-free schema takes."""
    if not isinstance(schema, dict):
        return 1_000
    own = 1_000 + 1_000 * len(schema) + 150 * _count_listed(schema)
    own += sum(estimate_compile_ns(pattern) for _, pattern in iter_own_patterns(schema))
    return own + sum(compile_ns(inner) for _, inner in subschemas(schema))


def coerce_steps(weight: Weight, size: Size) -> int:
    """Return the maximum number of steps of a coercion."""
    return weight.parts * (size.values + size.characters // _COERCED_CHARACTERS)


def can_collect_errors(weight: Weight, size: Size) -> bool:
    """Return whether all errors of a check can be collected within bounds."""
    return weight.parts * size.values <= MAX_ERRORS and weight.parts * size.characters <= _MAX_ERROR_CHARACTERS


def has_small_errors(schema: Any, value: Any) -> bool:
    """Return whether each error of a check copies at most `MAX_ERROR_VALUES` values.

    An error copies the value that it is about, with all values inside it. If a large value has a schema with other
    keywords than the usual ones for objects and arrays, return False.

    Raises:
        ValueError: the value is no JSON data: it is nested too deep, or has over a million values.
    """
    values = size_of(value).values
    if values <= MAX_ERROR_VALUES or schema is True:
        return True
    if values > _MAX_VALUES:
        raise ValueError("nested too deep, or over a million values")
    if not isinstance(schema, dict) or not _ABOUT_PARTS.issuperset(schema):
        return False
    kind = "object" if isinstance(value, dict) else "array"
    if kind not in _as_list(schema.get("type", kind)):
        return False
    if not isinstance(value, dict):
        return all(has_small_errors(schema.get("items", True), each) for each in value if _is_holder(each))
    named, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    unknown = other is False and any(name not in named for name in value)
    if unknown or any(name not in value for name in schema.get("required", ())):
        return False
    return all(has_small_errors(named.get(name, other), each) for name, each in value.items() if _is_holder(each))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_holder(value: Any) -> bool:
    return isinstance(value, (dict, list))


def is_light(schema: Any) -> bool:
    """Return whether a schema is cheap to compile and check: small, without patterns, references and choices."""
    text = json.dumps(schema, default=str)
    return (
        len(text) <= _LIGHT_BYTES and not any(word in text for word in _HEAVY) and weigh(schema).parts <= _LIGHT_PARTS
    )


def has_choice(schema: Any) -> bool:
    """Return whether errors of a schema can contain the errors of branches."""
    if not isinstance(schema, dict):
        return False
    return "anyOf" in schema or "oneOf" in schema or any(has_choice(inner) for _, inner in subschemas(schema))


def size_of(data: Any) -> Size:
    """Return the amount of JSON data. Counting stops at a million values: a check of all of them is over the limit."""
    total, level = _get_size([data]), [data]
    for _ in range(MAX_JSON_DEPTH):
        holders = [value for value in level if isinstance(value, (dict, list))]
        if not holders:
            return total
        if total.values + sum(map(len, holders)) > _MAX_VALUES:
            break
        level = [item for held in holders for item in (held.values() if isinstance(held, dict) else held)]
        total = Size(*map(sum, zip(total, _get_size(level), strict=True)))
    return Size(values=MAX_CHECK_NS)


def _get_size(values: list[Any]) -> Size:
    """Return the size of values without the values in them."""
    characters = fractions = extremes = 0
    for value in values:
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(len(name) for name in value if isinstance(name, str))
        elif isinstance(value, float):
            fractions += 1
            extremes += _get_extreme_factor(value)
        elif isinstance(value, int):
            extremes += _get_extreme_factor(value)
    return Size(len(values), characters, fractions, extremes)


def _get_extreme_factor(number: int | float) -> int:
    """Return 0 for a number that is compared quickly, otherwise a factor by which comparing the number takes longer."""
    if isinstance(number, float):
        return int(number != 0 and not _SMALL < abs(number) < _LARGE)
    if -_BITS_64 <= number < _BITS_64:
        return 0
    digits = number.bit_length() // 3
    return 1 + digits // 60 + (digits // 150) ** 2


_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""Keywords whose subschemas apply to the same value. The subschemas of other keywords apply to the values inside it."""


_EVALUATED_AGAIN = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_AGAIN = 3
"""The number of evaluations of a schema's parts, for each keyword of `_EVALUATED_AGAIN` in the schema."""


def _iter_applied(schema: Any) -> Iterator[tuple[str, Any]]:
    return ((keyword, inner) for keyword, _, inner in _iter_places(schema)) if isinstance(schema, dict) else iter(())


def _iter_places(schema: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the subschemas with their keywords, and their names or positions."""
    for (keyword, *name), inner in subschemas(schema):
        yield str(keyword), name[0] if name else None, inner


def _iter_own_costs(schema: Any) -> Iterator[Cost]:
    """Yield the costs of a schema without its subschemas."""
    if not isinstance(schema, dict):
        yield Cost(_PART)
        return
    required = schema.get("required")
    yield Cost(_PART + _KEYWORD * (len(schema) + (len(required) if isinstance(required, list) else 0)))
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if keyword in schema:
            yield _get_bound_cost(schema[keyword])
    if "multipleOf" in schema:
        yield _get_multiple_cost(schema["multipleOf"])
    if "const" in schema:
        yield from _iter_equal_costs(schema["const"])
    listed = schema.get("enum")
    if isinstance(listed, list):
        yield from _iter_enum_costs(listed)
    text = sum(estimate_character_ns(pattern) for _, pattern in iter_own_patterns(schema))
    text += sum(ns for keyword, ns in _TEXT_NS.items() if keyword in schema)
    yield Cost(_SLOW_KEYWORD * bool(text), character=text)
    if schema.get("uniqueItems") is True:
        # Up to 15 items are compared pair by pair, with everything in them; more of them are hashed.
        yield Cost(value=700, fraction=5_000, extreme=100_000, unique=400)


def _iter_enum_costs(listed: list[Any]) -> Iterator[Cost]:
    kinds = {type(value) for value in listed}
    if kinds == {str}:  # a string is looked up by its hash
        yield Cost(_SLOW_KEYWORD)
    elif kinds == {int} and not any(map(_get_extreme_factor, listed)):
        yield Cost(value=_SLOW_KEYWORD, fraction=1_300 * len(listed), extreme=13_000 * len(listed))
    else:
        for value in listed:
            yield from _iter_equal_costs(value)


def _get_bound_cost(bound: Any) -> Cost:
    if isinstance(bound, int) and not _get_extreme_factor(bound):
        return Cost(value=10, fraction=20, extreme=1_000)
    return Cost(value=1_400 + 13_000 * _get_factor(bound), extreme=13_000 * max(1, _get_factor(bound)))


def _get_multiple_cost(divisor: Any) -> Cost:
    if isinstance(divisor, int) and not _get_extreme_factor(divisor):
        return Cost(value=20, fraction=400, extreme=25_000)
    return Cost(value=4_000 + 30_000 * _get_factor(divisor), extreme=40_000 * max(1, _get_factor(divisor)))


def _iter_equal_costs(value: Any) -> Iterator[Cost]:
    """Yield the costs of comparing one value with `value`, and with everything in it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, bool) or part is None or isinstance(part, str):
            yield Cost(30)
        elif isinstance(part, int) and not _get_extreme_factor(part):
            yield Cost(value=300, fraction=1_300, extreme=13_000)
        elif isinstance(part, (int, float)):
            yield Cost(value=2_000 + 13_000 * _get_factor(part), extreme=13_000 * max(1, _get_factor(part)))
        else:
            yield Cost(300)
            waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


def _get_factor(number: Any) -> int:
    return _get_extreme_factor(number) if isinstance(number, (int, float)) else 0


def _add_costs(costs: Iterable[Cost]) -> Cost:
    return Cost(*map(sum, zip(*costs, strict=True)))


def _multiply_cost(factor: int, cost: Cost) -> Cost:
    return Cost(*(factor * each for each in cost))


def _count_listed(schema: Any) -> int:
    """Return 1 plus the number of values that a schema lists in `enum` and `required`."""
    if not isinstance(schema, dict):
        return 1
    return 1 + sum(len(schema[key]) for key in ("enum", "required") if isinstance(schema.get(key), list))
