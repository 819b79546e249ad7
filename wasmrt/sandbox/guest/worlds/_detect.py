"""Detection of a component's world, from what it exports."""

from __future__ import annotations

from wasmrt.core.errors import UnknownWorldError
from wasmrt.sandbox.component import worlds
from wasmrt.sandbox.guest.engine import Linker
from wasmrt.sandbox.guest.worlds._exports import World, tool_world


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
    program = worlds.exported_program([*(interface.name for interface in kind.exports), *dict(kind.functions)])
    if program is not None:
        from wasmrt.sandbox.guest.worlds._program import program_world  # with WASI, which most tools do without

        return program_world(linker, program)
    # JSON for every WIT type is a twentieth of a short program's start, and tools of our worlds do without.
    from wasmrt.sandbox.guest.worlds._generic import generic_world, nothing_to_run

    generic = generic_world(linker, data)
    if generic is not None:
        return generic
    raise UnknownWorldError(
        nothing_to_run(kind),
        hint=f"export {worlds.TOOL_WORLD.export}, near:agent/tool, or functions with plain types",
    )
