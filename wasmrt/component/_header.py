"""The first eight bytes: whether a file is WebAssembly, and a component rather than a core module.

Source: the component model's Binary.md, "Component Definitions": magic, version 0x0d, layer 1.
"""

from __future__ import annotations

from wasmrt.errors import ComponentTooLargeError, CoreModuleError, InvalidComponentError, NotWasmError
from wasmrt.limits import COMPONENT_MAX_BYTES

_MAGIC = b"\0asm"


def check_header(data: bytes, *, max_bytes: int = COMPONENT_MAX_BYTES) -> None:
    """Refuse what cannot be a component before anything else looks at it.

    Raises:
        ComponentTooLargeError, NotWasmError, CoreModuleError, InvalidComponentError: as their names say.
    """
    if len(data) > max_bytes:
        raise ComponentTooLargeError(
            f"the file is {len(data):,} bytes, over the cap of {max_bytes:,}",
            hint="strip debug information and names, or raise the cap if you trust the file",
        )
    if not data:
        raise NotWasmError("the file is empty", hint="check that the build or the download finished")
    if data[:4] != _MAGIC[: len(data[:4])]:
        raise NotWasmError("the file is not WebAssembly: it does not start with \\0asm", hint="pass a .wasm component")
    if len(data) < 8:
        raise InvalidComponentError("the file is cut off inside its header", hint="build or download it again")
    version, layer = int.from_bytes(data[4:6], "little"), int.from_bytes(data[6:8], "little")
    if layer == 0:
        raise CoreModuleError(
            "the file is a core WebAssembly module, not a component",
            hint="target wasm32-wasip2, or wrap it with `wasm-tools component new`",
        )
    if layer != 1 or version != 13:
        raise InvalidComponentError(f"the file is of WebAssembly layer {layer}, version {version}, which is unknown")
