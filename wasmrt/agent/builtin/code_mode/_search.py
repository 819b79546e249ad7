"""`search_tools`: the declarations of tools in pages, so that a thousand of them do not fill a model's context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wasmrt.agent.builtin.code_mode._stubs import stub
from wasmrt.agent.builtin.host_tool import HostTool, any_result
from wasmrt.core.limits import MAX_STUBS, MAX_STUBS_BYTES
from wasmrt.runtime.context import DescribedTool, ToolContext

_MAX_WORDS = 32
_MAX_PAGE = 10_000


def search_tool() -> HostTool:
    """Return the tool. It tells of the tools that its caller's programs can call, and of no other."""
    return HostTool(
        "search_tools",
        "Find tools for programs of run_code, with their TypeScript types. All words have to be in a tool's name or "
        "description; without a query every tool is listed, a page at a time.",
        {
            "query": {"type": "string", "maxLength": 500, "description": "Words to look for."},
            "page": {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE, "description": "From 1; 1 by default."},
        },
        _search,
        untrusted=any_result,
    )


def _search(params: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    words = params.get("query", "").casefold().split()[:_MAX_WORDS]
    known = () if context.tools is None else context.tools.described()
    found = sorted((tool for tool in known if _fits(tool, words)), key=lambda tool: _order(tool, words))
    pages = _pages(found)
    page = params.get("page", 1)
    shown = pages[page - 1] if page <= len(pages) else []
    answer: dict[str, Any] = {"tools": "\n".join(shown), "total": len(found), "page": page, "pages": len(pages)}
    if page < len(pages):
        answer["next_page"] = page + 1
    return answer


def _fits(tool: DescribedTool, words: list[str]) -> bool:
    text = f"{tool.name} {tool.description}".casefold()
    return all(word in text for word in words)


def _order(tool: DescribedTool, words: list[str]) -> tuple[int, str]:
    """Tools with more of the words in their names come first."""
    name = tool.name.casefold()
    return -sum(word in name for word in words), tool.name


def _pages(found: list[DescribedTool]) -> list[list[str]]:
    """Return the declarations in pages, each within its bounds."""
    pages: list[list[str]] = []
    size = 0
    for tool in found:
        text = stub(tool)
        bytes_ = len(text.encode("utf-8", "replace"))
        if not pages or len(pages[-1]) >= MAX_STUBS or size + bytes_ > MAX_STUBS_BYTES:
            pages.append([])
            size = 0
        pages[-1].append(text)
        size += bytes_
    return pages
