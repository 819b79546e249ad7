"""The toolchain of a component, where its `producers` sections name it (tool-conventions, "Producers Section").

A guest's word, for people to read: bounded, and one line each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_SECTIONS
from wasmrt.sandbox.component._binary import COMPONENT, CORE_MODULE, CUSTOM, Reader
from wasmrt.sandbox.component._header import HEADER, MAGIC
from wasmrt.sandbox.component._text import printable_line

_MAX_FIELDS = 8
_MAX_VALUES = 50
_MAX_TEXT_BYTES = 80


def producers(component: bytes) -> dict[str, list[str]]:
    """Return what the sections say under `language`, `processed-by` and `sdk`, each value with its version.

    The component, and each module and component inside it, is read as far as it is well-formed.
    """
    found: dict[str, list[str]] = {}
    for section in _custom_sections(component):
        with suppress(InvalidComponentError):
            if section.name() == "producers":
                _read(section, found)
    return found


def _custom_sections(component: bytes) -> Iterator[Reader]:
    """Yield each custom section at any depth; the bound on the sections of a component holds for all together."""
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
            # In a core module these ids are those of other sections, which do not begin with the magic.
            elif kind in (CORE_MODULE, COMPONENT) and content.take(len(HEADER)).startswith(MAGIC):
                enclosing.append(content)
        except InvalidComponentError:
            enclosing[-1].at = enclosing[-1].end


def _read(section: Reader, found: dict[str, list[str]]) -> None:
    for _ in range(min(section.u32(), _MAX_FIELDS)):
        name = _text(section)
        values = found.setdefault(name, []) if name else []
        for _ in range(min(section.u32(), _MAX_VALUES)):
            value = f"{_text(section)} {_text(section)}".strip()
            if value and value not in values and len(values) < _MAX_VALUES:
                values.append(value)


def _text(section: Reader) -> str:
    return printable_line(section.take(section.u32()).decode("utf-8", "replace"), _MAX_TEXT_BYTES)
