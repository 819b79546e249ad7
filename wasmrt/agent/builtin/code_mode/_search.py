"""`search_tools`: bounded TypeScript declarations of tools, in pages, for a model that writes a program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from wasmrt.agent.builtin.host_tool import HostTool, trust_none
from wasmrt.core.limits import MAX_STUB_BYTES, MAX_STUBS, MAX_STUBS_BYTES
from wasmrt.runtime.context import DescribedTool, ToolContext

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_MAX_DEPTH = 6
_MAX_MEMBERS = 64
_MAX_VALUES = 24
_MAX_WORDS_CHARS = 160
_SIMPLE = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def write_declaration(tool: DescribedTool) -> str:
    """Return a tool's TypeScript declaration with its description as a comment. Types that are too long are omitted."""
    returns = "unknown" if tool.output_schema is None else write_type(tool.output_schema)
    head, name = _format_comment(tool.description), tool.name if _IDENTIFIER.match(tool.name) else json.dumps(tool.name)
    declared = f"{head}\n{name}(params: {write_type(tool.schema)}): Promise<{returns}>;"
    if _count_bytes(declared) <= MAX_STUB_BYTES:
        return declared
    shorter = f"{name}(params: {write_type(tool.schema, 2)}): Promise<unknown>;"
    if _count_bytes(shorter) > MAX_STUB_BYTES // 2:
        shorter = f"{name}(params: object): Promise<unknown>;"
    space = MAX_STUB_BYTES - _count_bytes(shorter) - 1
    truncated = _format_comment(tool.description.encode("utf-8", "replace")[: space // 2].decode("utf-8", "ignore"))
    return f"{truncated}\n{shorter}"


def write_type(schema: Any, depth: int = _MAX_DEPTH) -> str:
    """Return the TypeScript type of a JSON Schema; types nested deeper than `depth` are `unknown`."""
    if not isinstance(schema, Mapping) or depth <= 0:
        return "unknown"
    if isinstance(values := schema.get("enum"), list) and values:
        return " | ".join(
            [*map(_format_literal, values[:_MAX_VALUES]), *(["unknown"] if len(values) > _MAX_VALUES else [])]
        )
    if "const" in schema:
        return _format_literal(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(several := schema.get(key), list) and several:
            return " | ".join(dict.fromkeys(write_type(each, depth - 1) for each in several[:_MAX_VALUES]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(dict.fromkeys(write_type({**schema, "type": each}, depth) for each in kind)) or "unknown"
    if kind == "array":
        item = write_type(schema.get("items"), depth - 1)
        return f"({item})[]" if " " in item and not item.startswith("{") else f"{item}[]"
    if kind == "object" or "properties" in schema:
        return _format_object(schema, depth)
    return _SIMPLE.get(kind, "unknown") if isinstance(kind, str) else "unknown"


def _format_object(schema: Mapping[str, Any], depth: int) -> str:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "object" if schema.get("additionalProperties") is not False else "{}"
    listed = schema.get("required")
    required = set(map(str, listed)) if isinstance(listed, list) else set()
    members = []
    for key, value in list(properties.items())[:_MAX_MEMBERS]:
        name = key if _IDENTIFIER.match(key) else json.dumps(key)
        words = _format_inline_comment(value.get("description")) if isinstance(value, Mapping) else ""
        members.append(f"{name}{'' if key in required else '?'}: {write_type(value, depth - 1)}{words}")
    more = ["..."] if len(properties) > _MAX_MEMBERS else []
    return f"{{ {'; '.join([*members, *more])} }}"


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _format_literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_WORDS_CHARS else "unknown"


def _format_inline_comment(text: Any) -> str:
    """Return a description as an inline comment, which the text cannot end."""
    if not isinstance(text, str) or not text.strip():
        return ""
    line = " ".join(text.split())
    line = line if len(line) <= _MAX_WORDS_CHARS else f"{line[:_MAX_WORDS_CHARS]}..."
    return f" /* {_escape_comment_end(line)} */"


def _format_comment(text: str) -> str:
    return f"/** {_escape_comment_end(' '.join(text.split())) or 'No description.'} */"


def _escape_comment_end(text: str) -> str:
    # SECURITY: untrusted text must not end its comment, after which it would look like one of wasmrt's declarations.
    return text.replace("*/", "* /")


_MAX_WORDS = 32
_MAX_PAGE = 10_000


def search_tool() -> HostTool:
    """Return the tool, which lists only tools that the caller's programs can call."""
    return HostTool(
        "search_tools",
        "Find tools for run_code programs, with their TypeScript types. All words of the query must be in a tool's "
        "name or description; without a query, all tools are listed in pages.",
        {
            "query": {"type": "string", "maxLength": 500, "description": "Words to search for."},
            "page": {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE, "description": "From 1; 1 by default."},
        },
        _search_tools,
        untrusted=trust_none,
    )


def _search_tools(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    words = params.get("query", "").casefold().split()[:_MAX_WORDS]
    known = () if context.tools is None else context.tools.described()
    found = sorted((tool for tool in known if _matches(tool, words)), key=lambda tool: _sort_key(tool, words))
    pages = _split_into_pages(found)
    page = params.get("page", 1)
    shown = pages[page - 1] if page <= len(pages) else []
    answer: dict[str, Any] = {"tools": "\n".join(shown), "total": len(found), "page": page, "pages": len(pages)}
    if page < len(pages):
        answer["next_page"] = page + 1
    return answer


def _matches(tool: DescribedTool, words: list[str]) -> bool:
    text = f"{tool.name} {tool.description}".casefold()
    return all(word in text for word in words)


def _sort_key(tool: DescribedTool, words: list[str]) -> tuple[int, str]:
    """Return a sort key that puts tools with more matching words in their names first."""
    name = tool.name.casefold()
    return -sum(word in name for word in words), tool.name


def _split_into_pages(found: list[DescribedTool]) -> list[list[str]]:
    """Return the declarations in pages that do not exceed the limits."""
    pages: list[list[str]] = []
    size = 0
    for tool in found:
        text = write_declaration(tool)
        bytes_ = len(text.encode("utf-8", "replace"))
        if not pages or len(pages[-1]) >= MAX_STUBS or size + bytes_ > MAX_STUBS_BYTES:
            pages.append([])
            size = 0
        pages[-1].append(text)
        size += bytes_
    return pages
