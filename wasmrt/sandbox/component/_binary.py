"""The WebAssembly binary format, read within bounds and written: numbers, names and sections, no instructions.

Sources: core specification, sections 5.2.2 (integers) and 5.5.2 to 5.5.3 (sections, custom sections); component-model,
design/mvp/Binary.md, whose sections have the same form.
"""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.core.errors import InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_SECTIONS
from wasmrt.sandbox.component._header import HEADER

CUSTOM, CORE_MODULE, COMPONENT, IMPORT, EXPORT = 0, 1, 4, 10, 11
"""Section ids of a component; a core module has others, and the same id for a custom section."""
_U32_BYTES = 5
_CUT_OFF = "download or build it again"


class Reader:
    """A window on some bytes, read from front to back; what lies outside of it is never touched.

    Raises:
        InvalidComponentError: from every method, where the bytes end too early or are malformed.
    """

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self.at = start
        """Offset of the next byte, from the front of all the data."""
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.at

    def byte(self) -> int:
        """Read one byte."""
        if self.at >= self.end:
            raise InvalidComponentError("the component is cut off", hint=_CUT_OFF)
        self.at += 1
        return self._data[self.at - 1]

    def u32(self) -> int:
        """Read an unsigned LEB128 number: at most five bytes, and no bit beyond the 32nd."""
        value = 0
        for shift in range(0, 7 * _U32_BYTES, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80 and value < 1 << 32:
                return value
            if byte < 0x80:
                break
        raise self.malformed("a malformed number")

    def window(self, size: int) -> Reader:
        """Step over `size` bytes, and return a reader of them alone."""
        start, self.at = self.at, self.at + size
        if self.at > self.end:
            raise InvalidComponentError(
                f"the component is cut off: {self.at - self.end} bytes are missing after byte {start}", hint=_CUT_OFF
            )
        return Reader(self._data, start, self.at)

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        part = self.window(size)
        return self._data[part.at : part.end]

    def name(self) -> str:
        """Read a name: its size in bytes, then UTF-8."""
        raw = self.take(self.u32())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.malformed("a name that is not UTF-8") from None

    def count(self, byte: int) -> int:
        """Return how often a byte stands in what is not read yet; at the speed of memory."""
        return self._data.count(byte, self.at, self.end)

    def section(self) -> tuple[int, Reader]:
        """Read the id of a section and its size; step over its content, and return a reader of that."""
        return self.byte(), self.window(self.u32())

    def malformed(self, what: str) -> InvalidComponentError:
        """Return the error for `what` was just read."""
        return InvalidComponentError(f"the component has {what} before byte {self.at}")


def read_sections(binary: Reader, *, limit: int = MAX_COMPONENT_SECTIONS) -> Iterator[tuple[int, Reader]]:
    """Yield the id and the content of each section of a component or core module; its header is stepped over.

    Raises:
        InvalidComponentError: a section is malformed or over the end, or there are more than `limit`.
    """
    binary.take(len(HEADER))
    sections = 0
    while binary.left:
        sections += 1
        if sections > limit:
            raise InvalidComponentError(f"the component has over {limit} sections")
        yield binary.section()


def encode_u32(number: int) -> bytes:
    """Return an unsigned LEB128 number."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode_section(kind: int, content: bytes) -> bytes:
    """Return a section: its id, its size, its content."""
    return bytes([kind]) + encode_u32(len(content)) + content


def encode_custom_section(name: str, content: bytes) -> bytes:
    """Return a custom section, which may stand after any other of a component or core module."""
    encoded = name.encode()
    return encode_section(CUSTOM, encode_u32(len(encoded)) + encoded + content)
