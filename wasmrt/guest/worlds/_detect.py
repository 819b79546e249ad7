"""Detection of a component's world, from what it exports."""

from __future__ import annotations

from wasmrt.component import ComponentType, printable_line, worlds
from wasmrt.errors import UnknownWorldError
from wasmrt.guest.engine import Linker
from wasmrt.guest.worlds._exports import World, tool_world
from wasmrt.guest.worlds._generic import generic_world
from wasmrt.schema.wit import exported_functions


def detect(linker: Linker, data: bytes) -> World:
    """Return the world of a component, bound to its exports; `data` is its bytes, for the doc comments in them.

    Raises:
        UnknownWorldError: it exports nothing that can be run.
        InvalidComponentError: it exports a known interface with other types.
    """
    kind = linker.component.type
    known = worlds.exported_world(interface.name for interface in kind.exports)
    if known is not None:
        return tool_world(linker, known)
    generic = generic_world(linker, data)
    if generic is not None:
        return generic
    raise UnknownWorldError(
        _nothing_to_run(kind),
        hint=f"export {worlds.TOOL_WORLD.export}, near:agent/tool, or functions with plain types",
    )


def _nothing_to_run(kind: ComponentType) -> str:
    known = [interface.name for interface in kind.exports] + [name for name, _ in kind.functions]
    shown = ", ".join(known[:5]) if known else "nothing"
    message = f"the component is of no world that can be run here; it exports {printable_line(shown, 300)}"
    for function in exported_functions(kind)[:1]:
        return f"{message}; of {printable_line(function.function, 100)}: {function.problem}"
    return message
