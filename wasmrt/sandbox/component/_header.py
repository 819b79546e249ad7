"""The one check of a file's first eight bytes: WebAssembly, and a component rather than a core module.

Source: component-model, design/mvp/Binary.md, "Component Definitions": magic, version 0x0d, layer 1.
"""

from __future__ import annotations

from wasmrt.core.errors import ComponentTooLargeError, CoreModuleError, InvalidComponentError, NotWasmError
from wasmrt.core.limits import COMPONENT_MAX_BYTES

HEADER = b"\0asm\x0d\0\x01\0"
MAGIC, _VERSION, _LAYER = HEADER[:4], 0x0D, 1
_CORE_LAYER = 0
CORE_MODULE_HINT = (
    "a program for WASI is installed with wasmrt install FILE --command; else build for wasm32-wasip2, or wrap it "
    "(pip install 'wasmrt[author]'): wasm-tools component embed wit/ module.wasm -o embedded.wasm && "
    "wasm-tools component new embedded.wasm -o tool.wasm"
)
"""The way from a core module and the WIT of its world, in the folder `wit`, to a component."""
TEXT_HINT = "encode the text first (pip install 'wasmrt[author]'): wasm-tools parse tool.wat -o tool.wasm"
"""The way from WebAssembly text to a component."""
_ARCHIVES = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")


def check_header(data: bytes, *, max_bytes: int = COMPONENT_MAX_BYTES) -> None:
    """Refuse a file that cannot be a component, before anything else looks at it.

    Raises:
        ComponentTooLargeError: it has more than `max_bytes`.
        NotWasmError: it is empty, or begins with other bytes than WebAssembly.
        CoreModuleError: it is a core module.
        InvalidComponentError: it ends inside the header, or is of a version or layer that is not known.
    """
    if len(data) > max_bytes:
        raise ComponentTooLargeError(
            f"the component has {len(data)} bytes, over the limit of {max_bytes}",
            hint="strip debug information and names, or raise the limit if you trust the file",
        )
    if not data:
        raise NotWasmError("the file is empty", hint="build or download the component again")
    if data[:4] != MAGIC[: len(data)]:
        raise NotWasmError("this is not WebAssembly", hint=_likely_fix(data))
    if len(data) < len(HEADER):
        raise InvalidComponentError(
            "the component is cut off in its first 8 bytes", hint="build or download the component again"
        )
    version, layer = int.from_bytes(data[4:6], "little"), int.from_bytes(data[6:8], "little")
    if layer == _CORE_LAYER:
        raise CoreModuleError("this is a core module, not a component", hint=CORE_MODULE_HINT)
    if (version, layer) != (_VERSION, _LAYER):
        raise InvalidComponentError(
            f"the component is of binary version {version}, layer {layer}; only version {_VERSION}, layer {_LAYER} is "
            "known",
            hint="build it with a current toolchain",
        )


def _likely_fix(data: bytes) -> str:
    start = data[:64].lstrip()
    if start.startswith((b"(module", b"(component", b";;")):
        return f"it looks like WebAssembly text; {TEXT_HINT}"
    if start.startswith(_ARCHIVES):
        return "it looks like an archive; unpack it first"
    if start[:1] == b"<":
        return "it looks like a web page; download the file itself"
    return "a component starts with the bytes 00 61 73 6d"
