"""Read and write the WebAssembly binary format within bounds: headers, numbers, names and sections, no instructions.

Sources: core specification, sections 5.2.2 (integers) and 5.5.2 to 5.5.3 (sections, custom sections); component-model,
design/mvp/Binary.md, whose sections have the same form.
"""

from __future__ import annotations

from collections.abc import Iterator

from wasmrt.core.errors import ComponentTooLargeError, CoreModuleError, InvalidComponentError, NotWasmError
from wasmrt.core.limits import COMPONENT_MAX_BYTES, MAX_COMPONENT_SECTIONS

HEADER = b"\0asm\x0d\0\x01\0"
MAGIC, _VERSION, _LAYER = HEADER[:4], 0x0D, 1
_CORE_LAYER = 0
CORE_MODULE_HINT = (
    "a program for WASI is installed with wasmrt install FILE --command; else build for wasm32-wasip2, or wrap it "
    "(pip install 'wasmrt[author]'): wasm-tools component embed wit/ module.wasm -o embedded.wasm && "
    "wasm-tools component new embedded.wasm -o tool.wasm"
)
"""Instructions for making a component from a core module and its world's WIT in the folder `wit`."""
_EXTISM = b"extism:host/"
"""The start of the names that Extism plugins import."""
_EXTISM_HINT = "run it in a host for Extism, or build its functions as a component: wasmrt new NAME"
TEXT_HINT = "encode the text first (pip install 'wasmrt[author]'): wasm-tools parse tool.wat -o tool.wasm"
"""Instructions for making a component from WebAssembly text."""
_ARCHIVES = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")


def check_header(data: bytes, *, max_bytes: int = COMPONENT_MAX_BYTES) -> None:
    """Check the size and header of a file, before anything else reads it.

    Raises:
        ComponentTooLargeError: the file has more than `max_bytes`.
        NotWasmError: the file is empty, or does not start with the magic bytes of WebAssembly.
        CoreModuleError: the file is a core module.
        InvalidComponentError: the header is incomplete, or has an unknown version or layer.
    """
    if len(data) > max_bytes:
        raise ComponentTooLargeError(
            f"the component has {len(data)} bytes, over the limit of {max_bytes}",
            hint="strip debug information and names, or raise the limit if you trust the file",
        )
    if not data:
        raise NotWasmError("the file is empty", hint="build or download the component again")
    if data[:4] != MAGIC[: len(data)]:
        raise NotWasmError("this is not WebAssembly", hint=_suggest_fix(data))
    if len(data) < len(HEADER):
        raise InvalidComponentError(
            "the component is cut off in its first 8 bytes", hint="build or download the component again"
        )
    version, layer = int.from_bytes(data[4:6], "little"), int.from_bytes(data[6:8], "little")
    if layer == _CORE_LAYER and _EXTISM in data:
        raise CoreModuleError("this is an Extism plugin, not a component", hint=_EXTISM_HINT)
    if layer == _CORE_LAYER:
        raise CoreModuleError("this is a core module, not a component", hint=CORE_MODULE_HINT)
    if (version, layer) != (_VERSION, _LAYER):
        raise InvalidComponentError(
            f"the component is of binary version {version}, layer {layer}; only version {_VERSION}, layer {_LAYER} is "
            "known",
            hint="build it with a current toolchain",
        )


def _suggest_fix(data: bytes) -> str:
    start = data[:64].lstrip()
    if start.startswith((b"(module", b"(component", b";;")):
        return f"it looks like WebAssembly text; {TEXT_HINT}"
    if start.startswith(_ARCHIVES):
        return "it looks like an archive; unpack it first"
    if start[:1] == b"<":
        return "it looks like a web page; download the file itself"
    return "a component starts with the bytes 00 61 73 6d"


CUSTOM, CORE_MODULE, COMPONENT, IMPORT, EXPORT = 0, 1, 4, 10, 11
"""Section IDs of a component. Core modules use different IDs, except for custom sections."""
_U32_BYTES = 5
_CUT_OFF = "download or build it again"


class Reader:
    """A window on some bytes, read from front to back. Bytes outside the window are never read.

    Raises:
        InvalidComponentError: from every method, if the bytes end too early or are malformed.
    """

    __slots__ = ("_data", "at", "end")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self._data = data
        self.at = start
        """Offset of the next byte in the whole data."""
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return self.end - self.at

    def byte(self) -> int:
        """Read one byte."""
        if self.at >= self.end:
            raise InvalidComponentError("the component is cut off", hint=_CUT_OFF)
        self.at += 1
        return self._data[self.at - 1]

    def u32(self) -> int:
        """Read an unsigned LEB128 number of at most five bytes and 32 bits."""
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
        """Skip `size` bytes, and return a reader of these bytes."""
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
        """Read a name: a size in bytes, then UTF-8."""
        raw = self.take(self.u32())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise self.malformed("a name that is not UTF-8") from None

    def count(self, byte: int) -> int:
        """Count the occurrences of `byte` in the bytes not read yet. This is as fast as reading memory."""
        return self._data.count(byte, self.at, self.end)

    def section(self) -> tuple[int, Reader]:
        """Read a section's ID and size; skip its content, and return the ID and a reader of the content."""
        return self.byte(), self.window(self.u32())

    def malformed(self, what: str) -> InvalidComponentError:
        """Create the error for the item that was just read. `what` describes the malformed item."""
        return InvalidComponentError(f"the component has {what} before byte {self.at}")


def read_sections(binary: Reader, *, limit: int = MAX_COMPONENT_SECTIONS) -> Iterator[tuple[int, Reader]]:
    """Yield the ID and content of each section of a component or core module, after its header.

    Raises:
        InvalidComponentError: a section is malformed or truncated, or there are more than `limit` sections.
    """
    binary.take(len(HEADER))
    sections = 0
    while binary.left:
        sections += 1
        if sections > limit:
            raise InvalidComponentError(f"the component has over {limit} sections")
        yield binary.section()


def encode_u32(number: int) -> bytes:
    """Encode an unsigned LEB128 number."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode_section(kind: int, content: bytes) -> bytes:
    """Encode a section: its ID, size and content."""
    return bytes([kind]) + encode_u32(len(content)) + content


def encode_custom_section(name: str, content: bytes) -> bytes:
    """Encode a custom section, which may follow any section of a component or core module."""
    encoded = name.encode()
    return encode_section(CUSTOM, encode_u32(len(encoded)) + encoded + content)


_CORE_MODULE = 0x11
SORTS = ("module", "func", "value", "type", "component", "instance")
"""Sorts by their byte; the first is the only core sort at a component's top level."""
_PRIMITIVES = range(0x64, 0x80)
"""Bytes that are a complete value type; any other byte starts a type index."""


def read_name(content: Reader) -> str:
    """Read an `importname'` or `exportname'`. Names with options are refused: the engine does not enable them."""
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
    """Skip an `externdesc`, and return its sort."""
    kind = read_sort(content)
    if kind == "type" and read_flag(content):
        return kind  # a new resource: this type bound has no index
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
