"""Make a component of a core module and the WIT of a tool world, where a toolchain stops at core modules.

C through zig and Go's wasip1 end there. This room writes the component's text round the module and puts the module's
own bytes in; it does not validate: the engine does, when the component is prepared. Worlds with resources, and
packages that use other packages, are not for it.
"""

from __future__ import annotations

from collections.abc import Callable

from wasmrt.componentizer._module import leb, read
from wasmrt.componentizer._text import component_text
from wasmrt.componentizer._wit import parse
from wasmrt.errors import ComponentError

__all__ = ["componentize"]

_PREAMBLE = b"\0asm\x0d\0\x01\0"
_CUSTOM, _CORE_MODULE, _COMPONENT = 0, 1, 4


def componentize(core: bytes, wit: str, *, assemble: Callable[[str], bytes], world: str | None = None) -> bytes:
    """Wrap a core module into a component of `world`, by default the only one in `wit`.

    `assemble` turns WebAssembly text into bytes (the engine room's `wat2wasm`). Host functions the module does not
    import are left out of the component; imports of WASI preview 1 are met by a null one.

    Raises:
        ComponentError: the bytes are no core module, the text is no such WIT, or the two do not fit.
    """
    package = parse(wit)
    name = world or next(iter(package.worlds), "")
    if name not in package.worlds or (world is None and len(package.worlds) != 1):
        raise ComponentError(f"the WIT has no single world {name!r}", hint=f"its worlds: {', '.join(package.worlds)}")
    module = read(core)
    return _fill(assemble(component_text(package, package.worlds[name], module)), module.code)


def _fill(component: bytes, core: bytes) -> bytes:
    """Put the real module where the first, empty one is, and leave out the names that the text had."""
    sections = _sections(component)
    place = next(index for index, (kind, _) in enumerate(sections) if kind == _CORE_MODULE)
    sections[place] = (_CORE_MODULE, core)
    return _joined(component[:8], sections, keep=core)


def _joined(preamble: bytes, sections: list[tuple[int, bytes]], keep: bytes = b"") -> bytes:
    parts = [preamble]
    for kind, body in sections:
        if kind == _CUSTOM:
            continue
        if kind in {_CORE_MODULE, _COMPONENT} and preamble == _PREAMBLE and body is not keep:
            body = _joined(body[:8], _sections(body))
        parts += [bytes([kind]), leb(len(body)), body]
    return b"".join(parts)


def _sections(data: bytes) -> list[tuple[int, bytes]]:
    """Kind and body of every section of a component or module that the assembler made."""
    found = []
    at = len(_PREAMBLE)
    while at < len(data):
        size, start = _number(data, at + 1)
        found.append((data[at], data[start : start + size]))
        at = start + size
    return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | data[at] << shift, at + 1
