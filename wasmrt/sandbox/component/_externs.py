"""Names, sorts and extern types, as they stand in the imports, exports and aliases of a component.

Source: component-model, design/mvp/Binary.md: `importname'`, `exportname'`, `sort`, `externdesc`.
"""

from __future__ import annotations

from wasmrt.sandbox.component._binary import Reader

_CORE_MODULE = 0x11
SORTS = ("module", "func", "value", "type", "component", "instance")
"""By their byte; the first is the one core sort that stands at a component's top level."""
_PRIMITIVES = range(0x64, 0x80)
"""Bytes that are a whole value type; any other begins the index of one."""


def read_name(content: Reader) -> str:
    """Read an `importname'` or `exportname'`; the form with options is behind a feature that the engine has off."""
    if content.byte() > 1:
        raise content.malformed("a name of an unknown form")
    return content.name()


def read_sort(content: Reader) -> str:
    """Read the sort of an import or export, and return its name."""
    kind = content.byte()
    if kind >= len(SORTS) or (kind == 0 and content.byte() != _CORE_MODULE):
        raise content.malformed("an import or export of unknown kind")
    return SORTS[kind]


def read_extern_type(content: Reader) -> str:
    """Step over an `externdesc`, and return its sort."""
    kind = read_sort(content)
    if kind == "type" and read_flag(content):
        return kind  # a new resource: the bound that has no index
    if kind == "value" and read_flag(content):
        if content.byte() not in _PRIMITIVES:
            content.at -= 1
            content.u32()
        return kind
    content.u32()
    return kind


def read_flag(content: Reader) -> bool:
    """Read a byte that is 0 or 1."""
    flag = content.byte()
    if flag > 1:
        raise content.malformed("an import or export of unknown type")
    return flag == 1
