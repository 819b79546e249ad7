"""What built a component, where its `producers` sections say (tool-conventions, "Producers Section").

A guest's word, for people to read: bounded, and one line each.
"""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.component._docs import custom_sections, read_leb128
from wasmrt.component._text import plain

_HEADER_BYTES = 8
_CORE_MODULE, _COMPONENT = 1, 4
_MAX_DEPTH = 6
_MAX_SECTIONS = 200
_MAX_VALUES = 50


def producers(component: bytes) -> dict[str, list[str]]:
    """What the sections say under `language`, `processed-by` and `sdk`, each value with its version."""
    found: dict[str, list[str]] = {}
    for number, binary in enumerate(_binaries(component, 0)):
        if number >= _MAX_SECTIONS:
            break
        for name, start, end in custom_sections(binary):
            if name == b"producers":
                _read(binary[start:end], found)
    return found


def _binaries(data: bytes, depth: int) -> Iterator[bytes]:
    """The component and every module and component inside it."""
    yield data
    if depth >= _MAX_DEPTH or data[6:7] != b"\x01":  # only components hold others
        return
    at = _HEADER_BYTES
    while at < len(data):
        kind = data[at]
        size, start = read_leb128(data, at + 1)
        at = start + size
        if at > len(data) or start == at:
            return
        if kind in (_CORE_MODULE, _COMPONENT):
            yield from _binaries(data[start:at], depth + 1)


def _read(section: bytes, found: dict[str, list[str]]) -> None:
    fields, at = read_leb128(section, 0)
    for _ in range(min(fields, 8)):
        name, at = _text(section, at)
        count, at = read_leb128(section, at)
        values = found.setdefault(name, []) if name else []
        for _ in range(min(count, _MAX_VALUES)):
            value, at = _text(section, at)
            version, at = _text(section, at)
            said = f"{value} {version}".strip()
            if said and said not in values and len(values) < _MAX_VALUES:
                values.append(said)


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, start = read_leb128(data, at)
    return plain(data[start : start + size].decode("utf-8", "replace"), 80), min(start + size, len(data))
