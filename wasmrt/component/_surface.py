"""Top-level imports and exports of a component, read from its bytes before the compiler sees them.

Only the two kinds of section that hold names are looked into; the others are stepped over by their size. Every count
and length is held against what is left of the section, so that hostile bytes cost no more than their own length.

Source: component-model, design/mvp/Binary.md: sections, `import`, `export`, `externdesc`, `sortidx`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wasmrt.component._text import plain
from wasmrt.errors import InvalidComponentError
from wasmrt.limits import MAX_COMPONENT_NAMES, MAX_COMPONENT_NAMES_BYTES, MAX_COMPONENT_SECTIONS

_HEADER_BYTES = 8
_IMPORT, _EXPORT, _LAST = 10, 11, 12
_NAME_BYTES = 256
_CORE_MODULE = 0x11
_KINDS = ("module", "func", "value", "type", "component", "instance")
"""By their byte; the first is the one core sort that stands at a component's top level."""
_PRIMITIVES = range(0x64, 0x80)
"""Bytes that are a whole value type; any other begins the index of one."""
_CUT_OFF = "download or build it again"


@dataclass(frozen=True, slots=True)
class SurfaceItem:
    """One import or export: `kind` is `instance`, `func`, `type` or another sort of the binary format."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Surface:
    """Everything a component shows at its top level, in the order of its bytes."""

    imports: tuple[SurfaceItem, ...]
    exports: tuple[SurfaceItem, ...]


def read_surface(data: bytes) -> Surface:
    """Read the top-level imports and exports of a component whose header has been checked.

    Raises:
        InvalidComponentError: it is cut off, malformed, or has more sections or names than any honest tool.
    """
    found: dict[int, list[SurfaceItem]] = {_IMPORT: [], _EXPORT: []}
    whole = _Reader(data, _HEADER_BYTES, len(data))
    sections = bytes_read = 0
    while whole.at < whole.end:
        sections += 1
        if sections > MAX_COMPONENT_SECTIONS:
            raise InvalidComponentError(f"the component has over {MAX_COMPONENT_SECTIONS} sections")
        kind, body = _section(whole)
        if kind not in found:
            continue
        bytes_read += body.end - body.at
        if bytes_read > MAX_COMPONENT_NAMES_BYTES:
            raise InvalidComponentError(
                f"the component's imports and exports take over {MAX_COMPONENT_NAMES_BYTES} bytes"
            )
        for item in _items(kind, body):
            found[kind].append(item)
            if len(found[_IMPORT]) + len(found[_EXPORT]) > MAX_COMPONENT_NAMES:
                raise InvalidComponentError(f"the component has over {MAX_COMPONENT_NAMES} imports and exports")
    return Surface(tuple(found[_IMPORT]), tuple(found[_EXPORT]))


class _Reader:
    """A place in the bytes, and where what is read there ends."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise InvalidComponentError("the component is cut off", hint=_CUT_OFF)
        self.at += 1
        return self.data[self.at - 1]

    def u32(self) -> int:
        """Read an unsigned LEB128 number: at most five bytes, and no bit beyond the 32nd."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 32:
                    break
                return value
        raise InvalidComponentError(f"the component has a malformed number before byte {self.at}")

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > self.end:
            raise InvalidComponentError("the component is cut off", hint=_CUT_OFF)
        return self.data[start : self.at]

    def malformed(self, what: str) -> InvalidComponentError:
        return InvalidComponentError(f"the component has {what} before byte {self.at}")


def _section(whole: _Reader) -> tuple[int, _Reader]:
    """Read a section's kind and step over its body, which is returned to be read."""
    start, kind = whole.at, whole.byte()
    if kind > _LAST:
        raise InvalidComponentError(f"the component has a section of unknown kind {kind} at byte {start}")
    size = whole.u32()
    body = _Reader(whole.data, whole.at, whole.at + size)
    whole.at = body.end
    if body.end > whole.end:
        lacking = body.end - whole.end
        raise InvalidComponentError(
            f"the component is cut off: the section at byte {start} needs {lacking} bytes more than there are",
            hint=_CUT_OFF,
        )
    return kind, body


def _items(kind: int, body: _Reader) -> Iterator[SurfaceItem]:
    for _ in range(body.u32()):  # each takes bytes, so an absurd count ends where the section does
        yield _import(body) if kind == _IMPORT else _export(body)
    if body.at != body.end:
        raise body.malformed("bytes that belong to no import or export")


def _import(body: _Reader) -> SurfaceItem:
    return SurfaceItem(_name(body), _type(body))


def _export(body: _Reader) -> SurfaceItem:
    name, kind = _name(body), _sort(body)
    body.u32()  # the index of what is exported
    if _flag(body):  # a type ascribed to it
        _type(body)
    return SurfaceItem(name, kind)


def _name(body: _Reader) -> str:
    """Read an `importname'` or `exportname'`; the form with options is behind a feature that the engine has off."""
    if body.byte() > 1:
        raise body.malformed("a name of an unknown form")
    try:
        return plain(body.take(body.u32()).decode("utf-8"), _NAME_BYTES)
    except UnicodeDecodeError:
        raise body.malformed("a name that is not UTF-8") from None


def _sort(body: _Reader) -> str:
    kind = body.byte()
    if kind >= len(_KINDS) or (kind == 0 and body.byte() != _CORE_MODULE):
        raise body.malformed("an import or export of unknown kind")
    return _KINDS[kind]


def _type(body: _Reader) -> str:
    """Step over an `externdesc`, and return its kind."""
    kind = _sort(body)
    if kind == "type" and _flag(body):
        return kind  # a new resource: the bound that has no index
    if kind == "value" and _flag(body):
        _value_type(body)
        return kind
    body.u32()
    return kind


def _value_type(body: _Reader) -> None:
    first = body.byte()
    if first not in _PRIMITIVES:
        body.at -= 1
        body.u32()


def _flag(body: _Reader) -> bool:
    flag = body.byte()
    if flag > 1:
        raise body.malformed("an import or export of unknown type")
    return flag == 1
