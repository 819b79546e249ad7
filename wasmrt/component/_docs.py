"""Doc comments of exported functions, where a component carries them.

The component model's binary format has no place for them. The one convention is the custom section `package-docs`
(a version byte, 0 or 1, then JSON), which WIT packages in binary form have; a component has it where its builder
copied it over, as `wasmrt build` does. What is there is a guest's word: bounded here, and one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from wasmrt.component._text import plain
from wasmrt.limits import MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES

DOCS_SECTION = b"package-docs"
OWN_DOCS_SECTION = b"wasmrt-docs"
"""In the same form, for what the readers of `package-docs` would refuse."""
_HEADER_BYTES = 8

Docs = Mapping[tuple[str, str], str]
"""(interface, function) -> text."""


def doc_comments(component: bytes) -> dict[tuple[str, str], str]:
    """The doc comment of each function by (interface, function), without versions.

    The interface is empty for a function at the top level, and has its package where the section names it. A section
    that is not understood counts as none.
    """
    docs: dict[tuple[str, str], str] = {}
    for name, start, end in custom_sections(component):
        if (
            name not in (DOCS_SECTION, OWN_DOCS_SECTION)
            or end - start > MAX_SCHEMA_BYTES
            or component[start : start + 1] not in (b"\0", b"\1")
        ):
            continue
        try:
            package = json.loads(component[start + 1 : end])
        except (ValueError, RecursionError):
            continue
        docs |= dict(_package(package))
    return docs


def doc_of(docs: Docs, interface: str, function: str) -> str | None:
    """The doc comment of a function of `a:b/api@1.0.0`, or of a function at the top level where that is empty."""
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
        if isinstance(text, str) and (said := plain(text, MAX_DESCRIPTION_BYTES)):
            yield (interface, name), said


def _members(value: Any, key: str) -> Mapping[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def custom_sections(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of each custom section at the top level (core specification, section 5.5.2)."""
    at = _HEADER_BYTES
    while at < len(data):
        kind = data[at]
        size, start = read_leb128(data, at + 1)
        at = start + size
        if at > len(data) or start == at:
            return
        if kind == 0:
            length, named = read_leb128(data, start)
            if named + length <= at:
                yield data[named : named + length], named + length, at


def read_leb128(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned 32-bit number and where it ends; what runs out of data or bits is beyond every size."""
    number = 0
    for shift in range(0, 35, 7):
        if at + shift // 7 >= len(data):
            break
        byte = data[at + shift // 7]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + shift // 7 + 1
    return len(data) + 1, at
