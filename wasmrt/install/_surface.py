"""What a component imports and exports, read from its bytes before the compiler sees them.

The parser is another's and walks everything it is given, without bounds. So it is given little: the sections are
walked here, where truncation and absurd counts are found, and only those that hold names are handed on.
"""

from __future__ import annotations

from dataclasses import dataclass

from wasmrt.component import plain
from wasmrt.errors import InvalidComponentError
from wasmrt.limits import MAX_COMPONENT_NAMES, MAX_COMPONENT_NAMES_BYTES, MAX_COMPONENT_SECTIONS

# component-model, design/mvp/Binary.md: section ids
_IMPORT, _EXPORT, _LAST = 10, 11, 12
_NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Item:
    """One import or export: `kind` is `instance`, `func`, `type` or another word of the binary format."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Surface:
    """Everything a component shows at its top level."""

    imports: tuple[Item, ...]
    exports: tuple[Item, ...]


def read_surface(data: bytes) -> Surface:
    """Read the top-level imports and exports of a component, whose preamble has been checked.

    Raises:
        InvalidComponentError: it is cut off, malformed, or has more sections or names than any honest tool.
    """
    from wasm_tools.component import parse_component_bytes  # its package takes longer to import than to run

    names = _only_names(data)
    try:
        report = parse_component_bytes(names)
        problems = [str(problem) for problem in report["errors"]]
        imports, exports = _items(report["imports"]), _items(report["exports"])
    except Exception as error:
        # SECURITY: hostile bytes, somebody else's parser: whatever it raises is a refusal.
        raise InvalidComponentError("the component's imports and exports cannot be read") from error
    if problems:
        raise InvalidComponentError(f"the component's imports and exports cannot be read: {plain(problems[0], 200)}")
    if len(imports) + len(exports) > MAX_COMPONENT_NAMES:
        raise InvalidComponentError(f"the component has over {MAX_COMPONENT_NAMES} imports and exports")
    return Surface(imports, exports)


def _items(entries: list[dict[str, object]]) -> tuple[Item, ...]:
    return tuple(Item(plain(str(entry["name"]), _NAME_BYTES), str(entry["kind"])) for entry in entries)


def _only_names(data: bytes) -> bytes:
    """Return the component without the sections that hold neither imports nor exports."""
    kept = bytearray(data[:8])
    offset, sections = 8, 0
    while offset < len(data):
        sections += 1
        if sections > MAX_COMPONENT_SECTIONS:
            raise InvalidComponentError(f"the component has over {MAX_COMPONENT_SECTIONS} sections")
        start, section = offset, data[offset]
        if section > _LAST:
            raise InvalidComponentError(f"the component has a section of unknown kind {section} at byte {start}")
        size, offset = _read_u32(data, offset + 1)
        offset += size
        if offset > len(data):
            raise InvalidComponentError(
                f"the component is cut off: section {sections} needs {offset - len(data)} bytes more than there are",
                hint="download or build it again",
            )
        if section in (_IMPORT, _EXPORT):
            kept += data[start:offset]
            if len(kept) > MAX_COMPONENT_NAMES_BYTES:
                raise InvalidComponentError(
                    f"the component's imports and exports take over {MAX_COMPONENT_NAMES_BYTES} bytes"
                )
    return bytes(kept)


def _read_u32(data: bytes, offset: int) -> tuple[int, int]:
    """LEB128, at most five bytes; returns the number and where it ends."""
    value = 0
    for count in range(5):
        if offset + count >= len(data):
            raise InvalidComponentError("the component is cut off", hint="download or build it again")
        byte = data[offset + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, offset + count + 1
    raise InvalidComponentError(f"the component has a malformed number at byte {offset}")
