"""Read the doc comments of exported functions, and a component's toolchain, from custom sections.

Doc comments are in the custom section `package-docs` (a version byte, 0 or 1, then JSON), a convention of binary WIT
packages. A component has this section if its builder copied it, as `wasmrt build` does. Toolchains are listed in
`producers` sections (tool-conventions, "Producers Section"). The text of both sections is untrusted, so it is limited
in size and made printable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_SECTIONS, MAX_DESCRIPTION_BYTES, MAX_SCHEMA_BYTES
from wasmrt.sandbox.component._binary import COMPONENT, CORE_MODULE, CUSTOM, HEADER, MAGIC, Reader, read_sections
from wasmrt.sandbox.component._text import printable_line

DOCS_SECTION = "package-docs"
OWN_DOCS_SECTION = "wasmrt-docs"
"""The name of a section with the same format, for docs that other readers of `package-docs` would reject."""

Docs = Mapping[tuple[str, str], str]
"""The doc comments of functions. The keys are pairs of an interface's and a function's name."""


def doc_comments(component: bytes) -> dict[tuple[str, str], str]:
    """Return the doc comment of each function. The keys are pairs of an interface's and a function's name.

    The names have no versions. The name of an interface starts with the package's name if the section with the doc
    comments states the package. The name is empty for a function at the top level. Sections that cannot be read are
    ignored.
    """
    docs: dict[tuple[str, str], str] = {}
    with suppress(InvalidComponentError):
        for kind, content in read_sections(Reader(component)):
            if kind == CUSTOM:
                docs |= dict(_iter_package_docs(_read_tree(content)))
    return docs


def _read_tree(section: Reader) -> Any:
    try:
        if section.name() not in (DOCS_SECTION, OWN_DOCS_SECTION):
            return None
        if section.left > MAX_SCHEMA_BYTES or section.byte() not in (0, 1):
            return None
        return json.loads(section.take(section.left))
    except (InvalidComponentError, ValueError, RecursionError):
        return None


def doc_of(docs: Docs, interface: str, function: str) -> str | None:
    """Return the doc comment of a function, or None; `interface` is empty for a function at the top level."""
    path = interface.partition("@")[0]
    return docs.get((path, function)) or docs.get((path.rpartition("/")[2], function))


def _iter_package_docs(package: Any) -> Iterator[tuple[tuple[str, str], str]]:
    for world in _get_members(package, "worlds").values():
        for key in ("funcs", "func_exports"):
            yield from _iter_function_docs("", _get_members(world, key))
        for key in ("interfaces", "interface_exports"):
            for name, interface in _get_members(world, key).items():
                yield from _iter_function_docs(name, _get_members(interface, "funcs"))
    named = package.get("package") if isinstance(package, dict) else None
    path = f"{named.partition('@')[0]}/" if isinstance(named, str) else ""
    for name, interface in _get_members(package, "interfaces").items():
        yield from _iter_function_docs(path + name, _get_members(interface, "funcs"))


def _iter_function_docs(interface: str, functions: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], str]]:
    for name, entry in functions.items():
        text = entry.get("docs") if isinstance(entry, dict) else entry  # in version 0 the entry is the text itself
        if isinstance(text, str) and (line := printable_line(text, MAX_DESCRIPTION_BYTES)):
            yield (interface, name), line


def _get_members(value: Any, key: str) -> Mapping[str, Any]:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


_MAX_FIELDS = 8
_MAX_VALUES = 50
_MAX_TEXT_BYTES = 80


def producers(component: bytes) -> dict[str, list[str]]:
    """Return the tools that made a component, from all its `producers` sections.

    The keys are the fields of the sections, such as `language`, `processed-by` and `sdk`. Each value is the name of a
    tool with its version. Sections of nested modules and components are included. Malformed parts are ignored.
    """
    found: dict[str, list[str]] = {}
    for section in _iter_custom_sections(component):
        with suppress(InvalidComponentError):
            if section.name() == "producers":
                _read_producers(section, found)
    return found


def _iter_custom_sections(component: bytes) -> Iterator[Reader]:
    """Yield every custom section of the component and of all components and modules inside it.

    The limit on sections applies to all levels together.
    """
    enclosing = [Reader(component, len(HEADER))]
    for _ in range(MAX_COMPONENT_SECTIONS):
        while enclosing and not enclosing[-1].left:
            enclosing.pop()
        if not enclosing:
            return
        try:
            kind, content = enclosing[-1].section()
            if kind == CUSTOM:
                yield content
            # In a core module, other sections have these IDs, but their content does not start with the magic bytes.
            elif kind in (CORE_MODULE, COMPONENT) and content.take(len(HEADER)).startswith(MAGIC):
                enclosing.append(content)
        except InvalidComponentError:
            enclosing[-1].at = enclosing[-1].end


def _read_producers(section: Reader, found: dict[str, list[str]]) -> None:
    for _ in range(min(section.u32(), _MAX_FIELDS)):
        name = _get_text(section)
        values = found.setdefault(name, []) if name else []
        for _ in range(min(section.u32(), _MAX_VALUES)):
            value = f"{_get_text(section)} {_get_text(section)}".strip()
            if value and value not in values and len(values) < _MAX_VALUES:
                values.append(value)


def _get_text(section: Reader) -> str:
    return printable_line(section.take(section.u32()).decode("utf-8", "replace"), _MAX_TEXT_BYTES)
