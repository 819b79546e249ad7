"""Doc comments of exported functions, where a component carries them.

The component model's binary format has no place for them. The one convention is the custom section `package-docs`
(a version byte, 0 or 1, then JSON), which WIT packages in binary form have; a component has it where its builder
copied it over, as `wasmrt build` does. What is there is a guest's word: bounded here, and one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES
from wasmrt.sandbox.component._binary import CUSTOM, Reader, read_sections
from wasmrt.sandbox.component._text import printable_line

DOCS_SECTION = "package-docs"
OWN_DOCS_SECTION = "wasmrt-docs"
"""A section of the same form, for docs that the readers of `package-docs` would refuse."""

Docs = Mapping[tuple[str, str], str]
"""(interface, function) -> text."""


def doc_comments(component: bytes) -> dict[tuple[str, str], str]:
    """Return the doc comment of each function by (interface, function), without versions.

    The interface is empty for a function at the top level, and has its package where the section names it. A section
    that cannot be read counts as none.
    """
    docs: dict[tuple[str, str], str] = {}
    with suppress(InvalidComponentError):
        for kind, content in read_sections(Reader(component)):
            if kind == CUSTOM:
                docs |= dict(_package(_tree(content)))
    return docs


def _tree(section: Reader) -> Any:
    try:
        if section.name() not in (DOCS_SECTION, OWN_DOCS_SECTION):
            return None
        if section.left > MAX_SCHEMA_BYTES or section.byte() not in (0, 1):
            return None
        return json.loads(section.take(section.left))
    except (InvalidComponentError, ValueError, RecursionError):
        return None


def doc_of(docs: Docs, interface: str, function: str) -> str | None:
    """Return the doc comment of a function of the interface `a:b/api@1.0.0`, or of one at the top level (empty)."""
    path = interface.partition("@")[0]
    return docs.get((path, function)) or docs.get((path.rpartition("/")[2], function))


def _package(package: Any) -> Iterator[tuple[tuple[str, str], str]]:
    for world in _members(package, "worlds").values():
        for key in ("funcs", "func_exports"):
            yield from _functions("", _members(world, key))
        for key in ("interfaces", "interface_exports"):
            for name, interface in _members(world, key).items():
                yield from _functions(name, _members(interface, "funcs"))
    named = package.get("package") if isinstance(package, dict) else None
    path = f"{named.partition('@')[0]}/" if isinstance(named, str) else ""
    for name, interface in _members(package, "interfaces").items():
        yield from _functions(path + name, _members(interface, "funcs"))


def _functions(interface: str, functions: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    for name, entry in functions.items():
        text = entry.get("docs") if isinstance(entry, dict) else entry  # version 0 had the text alone
        if isinstance(text, str) and (line := printable_line(text, MAX_DESCRIPTION_BYTES)):
            yield (interface, name), line


def _members(value: Any, key: str) -> Mapping[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}
