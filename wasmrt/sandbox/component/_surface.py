"""Read the top-level imports and exports of a component from its bytes, before compilation.

Only import and export sections are read; other sections are skipped by their size. Every count and length is checked
against the bytes that are left in the section, so the work is at most linear in the size even of hostile bytes.

Source: component-model, design/mvp/Binary.md: sections, `import`, `export`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_NAMES, MAX_COMPONENT_NAMES_BYTES
from wasmrt.sandbox.component._binary import (
    EXPORT,
    IMPORT,
    Reader,
    read_extern_type,
    read_flag,
    read_name,
    read_sections,
    read_sort,
)
from wasmrt.sandbox.component._text import printable_line

_LAST_SECTION = 12
_NAME_BYTES = 256


class SurfaceItem(NamedTuple):
    """An import or export; `kind` is `instance`, `func`, `type` or a different sort of the binary format."""

    name: str
    kind: str


class Surface(NamedTuple):
    """The top-level imports and exports of a component, in binary order."""

    imports: tuple[SurfaceItem, ...]
    exports: tuple[SurfaceItem, ...]


def read_surface(data: bytes) -> Surface:
    """Read the top-level imports and exports of a component whose header has been checked.

    Raises:
        InvalidComponentError: the component is truncated, malformed, or has too many sections or names.
    """
    found: dict[int, list[SurfaceItem]] = {IMPORT: [], EXPORT: []}
    bytes_read = 0
    for kind, content in read_sections(Reader(data)):
        if kind > _LAST_SECTION:
            raise content.malformed(f"a section of unknown kind {kind}")
        if kind not in found:
            continue
        bytes_read += content.left
        if bytes_read > MAX_COMPONENT_NAMES_BYTES:
            raise InvalidComponentError(
                f"the component's imports and exports take over {MAX_COMPONENT_NAMES_BYTES} bytes"
            )
        for item in _read_items(kind, content):
            found[kind].append(item)
            if len(found[IMPORT]) + len(found[EXPORT]) > MAX_COMPONENT_NAMES:
                raise InvalidComponentError(f"the component has over {MAX_COMPONENT_NAMES} imports and exports")
    return Surface(tuple(found[IMPORT]), tuple(found[EXPORT]))


def _read_items(kind: int, content: Reader) -> Iterator[SurfaceItem]:
    for _ in range(content.u32()):  # each item takes bytes, so an excessive count fails at the end of the section
        yield _read_import(content) if kind == IMPORT else _read_export(content)
    if content.left:
        raise content.malformed("bytes that belong to no import or export")


def _read_import(content: Reader) -> SurfaceItem:
    return SurfaceItem(_read_printable_name(content), read_extern_type(content))


def _read_export(content: Reader) -> SurfaceItem:
    name, kind = _read_printable_name(content), read_sort(content)
    content.u32()  # the index of the exported item
    if read_flag(content):  # an ascribed type follows
        read_extern_type(content)
    return SurfaceItem(name, kind)


def _read_printable_name(content: Reader) -> str:
    return printable_line(read_name(content), _NAME_BYTES)
