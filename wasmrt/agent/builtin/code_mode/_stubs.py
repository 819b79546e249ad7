"""A tool's schema in the words of TypeScript, for a model that writes a program: short, and bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wasmrt.core.limits import MAX_STUB_BYTES
from wasmrt.runtime.context import DescribedTool

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_MAX_DEPTH = 6
_MAX_MEMBERS = 64
_MAX_VALUES = 24
_MAX_WORDS_CHARS = 160
_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def stub(tool: DescribedTool) -> str:
    """Return a tool's declaration with its description as a comment; types that take too much room are left out."""
    returns = "unknown" if tool.output_schema is None else type_of(tool.output_schema)
    head, name = _comment(tool.description), tool.name if _IDENTIFIER.match(tool.name) else json.dumps(tool.name)
    declared = f"{head}\n{name}(params: {type_of(tool.schema)}): Promise<{returns}>;"
    if _size(declared) <= MAX_STUB_BYTES:
        return declared
    shorter = f"{name}(params: {type_of(tool.schema, 2)}): Promise<unknown>;"
    if _size(shorter) > MAX_STUB_BYTES // 2:
        shorter = f"{name}(params: object): Promise<unknown>;"
    room = MAX_STUB_BYTES - _size(shorter) - 1
    cut = _comment(tool.description.encode("utf-8", "replace")[: room // 2].decode("utf-8", "ignore"))
    return f"{cut}\n{shorter}"


def type_of(schema: Any, depth: int = _MAX_DEPTH) -> str:
    """Return the type of the values that a JSON Schema takes, as TypeScript has it; `unknown` below `depth`."""
    if not isinstance(schema, Mapping) or depth <= 0:
        return "unknown"
    if isinstance(values := schema.get("enum"), list) and values:
        return " | ".join([*map(_literal, values[:_MAX_VALUES]), *(["unknown"] if len(values) > _MAX_VALUES else [])])
    if "const" in schema:
        return _literal(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(several := schema.get(key), list) and several:
            return " | ".join(dict.fromkeys(type_of(each, depth - 1) for each in several[:_MAX_VALUES]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(type_of({**schema, "type": each}, depth) for each in kind)) or "unknown"
    if kind == "array":
        item = type_of(schema.get("items"), depth - 1)
        return f"({item})[]" if " " in item and not item.startswith("{") else f"{item}[]"
    if kind == "object" or "properties" in schema:
        return _object(schema, depth)
    return _SIMPLE.get(kind, "unknown") if isinstance(kind, str) else "unknown"


def _object(schema: Mapping[str, Any], depth: int) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "object" if schema.get("additionalProperties") is not False else "{}"
    listed = schema.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set()
    members = []
    for key, value in list(properties.items())[:_MAX_MEMBERS]:
        name = key if _IDENTIFIER.match(key) else json.dumps(key)
        words = _words(value.get("description")) if isinstance(value, Mapping) else ""
        members.append(f"{name}{'' if key in required else '?'}: {type_of(value, depth - 1)}{words}")
    more = ["..."] if len(properties) > _MAX_MEMBERS else []
    return f"{{ {'; '.join([*members, *more])} }}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_WORDS_CHARS else "unknown"


def _words(text: Any) -> str:
    """Return a description in a comment that it cannot end."""
    if not isinstance(text, str) or not text.strip():
        return ""
    line = " ".join(text.split())
    line = line if len(line) <= _MAX_WORDS_CHARS else f"{line[:_MAX_WORDS_CHARS]}..."
    return f" /* {_inside(line)} */"


def _comment(text: str) -> str:
    return f"/** {_inside(' '.join(text.split())) or 'No description.'} */"


def _inside(text: str) -> str:
    # SECURITY: what a stranger wrote stays in its comment: after its end it would read as a declaration of ours.
    return text.replace("*/", "* /")
