"""A tool as the model providers want to be told of it.

For all three: the top level is a plain object without oneOf, anyOf, allOf, enum or not; no `type` is a list; no schema
is a bare true or false; every array says its items; property names are `[a-zA-Z0-9_.-]{1,64}`, others are described
in words instead. A rendering may say less than the tool's schema, never forbid what an ordinary call needs; the
tool's own schema is what a call is checked against.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from wasmrt.component import plain
from wasmrt.errors import ConfigurationError, InvalidComponentError
from wasmrt.names import is_offered_name
from wasmrt.schema._flatten import flattened
from wasmrt.schema._forms import NON_FINITE
from wasmrt.schema._inline import ANNOTATIONS, SchemaError, inlined, read_schema, rebuilt
from wasmrt.schema._strict import strict_problem, tightened

Provider = Literal["openai", "anthropic", "mcp"]

_MAX_OPENAI_DESCRIPTION_BYTES = 1024
_is_property_name = re.compile(r"[a-zA-Z0-9_.-]{1,64}").fullmatch
_TYPED = {
    "array": {"contains", "items", "maxContains", "maxItems", "minContains", "minItems", "prefixItems", "uniqueItems"},
    "number": {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"},
    "object": {
        "additionalProperties", "dependentRequired", "dependentSchemas", "maxProperties", "minProperties",
        "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties",
    },
    "string": {"contentEncoding", "contentMediaType", "format", "maxLength", "minLength", "pattern"},
}  # fmt: skip
_TYPED["integer"] = _TYPED["number"]
_ALL_TYPED = frozenset().union(*_TYPED.values())


def render(
    tool_name: str, description: str, schema: Mapping[str, Any], provider: Provider, *, strict: bool = False
) -> dict[str, Any]:
    """A tool for one provider: OpenAI's `tools` entry (chat completions), Anthropic's, or MCP's `Tool`.

    `strict` is OpenAI's structured mode: every property required (an optional one may be null), no other allowed,
    and only the keywords it knows. Nulls that come back for absent fields are what `coerce` drops.

    Raises:
        ConfigurationError: the name is not `[a-zA-Z0-9_-]{1,64}`, the provider is unknown, or `strict` cannot be had.
        InvalidComponentError: the schema is broken.
    """
    if not is_offered_name(tool_name):
        raise ConfigurationError(
            f"{plain(tool_name, 80)!r} cannot be a tool's name", hint="use 1 to 64 of a-z, A-Z, 0-9, _ and -"
        )
    params = provider_schema(schema, provider, strict=strict)
    if provider == "anthropic":
        return {"name": tool_name, "description": description, "input_schema": params}
    if provider == "mcp":
        return {"name": tool_name, "description": description, "inputSchema": params}
    function: dict[str, Any] = {
        "name": tool_name,
        "description": plain(description, _MAX_OPENAI_DESCRIPTION_BYTES - 3),
        "parameters": params,
    }
    return {"type": "function", "function": function | ({"strict": True} if strict else {})}


def provider_schema(schema: Mapping[str, Any], provider: Provider, *, strict: bool = False) -> dict[str, Any]:
    """The schema of a tool's params alone, as `render` has it.

    Raises:
        ConfigurationError, InvalidComponentError: as `render`.
    """
    if provider not in ("openai", "anthropic", "mcp") or (strict and provider != "openai"):
        raise ConfigurationError(
            f"there is no {'strict ' if strict else ''}rendering for {plain(provider, 40)}",
            hint="render for openai, anthropic or mcp; strict is openai's",
        )
    try:
        flat = flattened(inlined(read_schema(schema), repeats=(1, 0)))
    except SchemaError as error:
        raise InvalidComponentError(f"the tool's schema {error}", hint="the tool's author has to mend it") from None
    clean: dict[str, Any] = _clean(flat, openai=provider == "openai")
    if not strict:
        return clean
    problem = strict_problem(clean)
    if problem is not None:
        raise ConfigurationError(f"the schema has no strict form: {problem}", hint="render without strict")
    return tightened(clean)


def _clean(schema: Any, *, openai: bool) -> Any:
    if schema is True:
        return {}
    if not isinstance(schema, dict):
        return {"not": {}}
    closed = {key: schema[key] for key in ("additionalProperties",) if isinstance(schema.get(key), bool)}
    clean = rebuilt(
        {k: v for k, v in schema.items() if k not in closed and k not in ("$comment", "unevaluatedProperties")},
        lambda inner: _clean(inner, openai=openai),
    )
    clean = _typed(_plain_number(_bounded(_array(clean, openai=openai)))) | closed
    if openai and "oneOf" in clean:
        # Known to be exclusive by the tool's own check; OpenAI reads anyOf only.
        forms = clean.pop("oneOf")
        clean = clean | (
            {"allOf": [*clean.get("allOf", ()), {"anyOf": forms}]} if "anyOf" in clean else {"anyOf": forms}
        )
    return _properties(clean, schema)


def _bounded(schema: dict[str, Any]) -> dict[str, Any]:
    """Draft 4's exclusive bounds, which were flags beside the bound, as bounds."""
    for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(flag), bool):
            schema = {k: v for k, v in schema.items() if k not in (flag, bound)} | (
                {flag if schema[flag] else bound: schema[bound]} if bound in schema else {}
            )
    return schema


def _array(schema: dict[str, Any], *, openai: bool) -> dict[str, Any]:
    kind = schema.get("type")
    if kind != "array" and not (isinstance(kind, list) and "array" in kind) and "prefixItems" not in schema:
        return schema
    items = schema.get("items")
    first = items if isinstance(items, list) else schema.get("prefixItems")
    if first is None:
        return schema | {"items": {} if items is None else items}
    others = {key: value for key, value in schema.items() if key not in ("items", "prefixItems", "additionalItems")}
    rest = schema.get("additionalItems") if isinstance(items, list) else items
    if rest == {"not": {}}:
        others.setdefault("maxItems", len(first))
        rest = None
    elif rest is None and others.get("maxItems", len(first) + 1) > len(first):
        rest = {}
    if not openai:
        return others | {"prefixItems": first, "items": _either([*first, *([] if rest is None else [rest])])}
    said = f"in this order: {plain(json.dumps(first, ensure_ascii=False), 500)}"
    others["description"] = f"{others['description']} ({said})" if "description" in others else said
    return others | {"items": _either([*first, *([] if rest is None else [rest])])}


def _either(kinds: list[Any]) -> dict[str, Any]:
    distinct = [kind for index, kind in enumerate(kinds) if kind not in kinds[:index]]
    if {} in distinct or not distinct:
        return {}
    return dict(distinct[0]) if len(distinct) == 1 else {"anyOf": distinct}


def _plain_number(schema: dict[str, Any]) -> dict[str, Any]:
    """A number that may also be "NaN" is told as a number: no ordinary call means the other."""
    choices = schema.get("anyOf")
    if not isinstance(choices, list):
        return schema
    kept = [c for c in choices if not (isinstance(c, dict) and c.get("enum") == list(NON_FINITE))]
    if len(kept) == len(choices) or not kept:
        return schema
    return schema | {"anyOf": kept} if len(kept) > 1 else {k: v for k, v in schema.items() if k != "anyOf"} | kept[0]


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    """A list of types as a choice of schemas, each with the keywords of its own type."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    if len(kinds) == 1:
        return schema | {"type": kinds[0]}
    outside = {key: value for key, value in schema.items() if key in ANNOTATIONS}
    shared = {k: v for k, v in schema.items() if k not in ANNOTATIONS and k != "type" and k not in _ALL_TYPED}
    choices = []
    for kind in kinds:
        own = {key: schema[key] for key in schema if key in _TYPED.get(kind, ())}
        if "enum" in shared:
            options = [option for option in shared["enum"] if _is(kind, option)]
            if not options:
                continue
            own["enum"] = options
        choices.append({"type": kind, **own})
    rest = {key: value for key, value in shared.items() if key not in ("enum", "anyOf")}
    both = {"allOf": [*rest.get("allOf", ()), {"anyOf": shared["anyOf"]}]} if "anyOf" in shared else {}
    return {**outside, **rest, **both, "anyOf": choices} if choices else {**outside, "not": {}}


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    known: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "array": list,
        "object": dict,
        "integer": int,
        "number": (int, float),
    }
    return isinstance(value, known.get(kind, ()))


def _properties(clean: dict[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """Properties that the provider can name; the others are said in words and may be sent all the same."""
    properties = clean.get("properties")
    if not isinstance(properties, dict):
        return clean
    never = {name for name, kind in source["properties"].items() if kind is False}
    odd = [name for name in properties if _is_property_name(name) is None and name not in never]
    kept = {name: kind for name, kind in properties.items() if name not in never and name not in odd}
    result = clean | {"properties": kept}
    if "required" in result:
        result["required"] = [name for name in result["required"] if name not in odd]
    if odd:
        said = plain(json.dumps({name: properties[name] for name in odd}, ensure_ascii=False), 1000)
        result["description"] = " ".join(
            [*([result["description"]] if "description" in result else []), f"Also takes {said}"]
        )
        if result.get("additionalProperties") is False:
            del result["additionalProperties"]
    return result
