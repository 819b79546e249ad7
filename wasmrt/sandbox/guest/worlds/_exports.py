"""Detect a component's world by its exports, describe the component's tools and run them.

SECURITY: everything that a component returns is untrusted input.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from wasmrt.core.errors import GuestError, InvalidComponentError, UnknownWorldError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES, MAX_TOOLS_PER_COMPONENT
from wasmrt.sandbox.component import ANY_OBJECT, Err, ToolSpec, printable_line, worlds
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox
from wasmrt.sandbox.guest.outcome import typed_failure
from wasmrt.sandbox.schema import schema_gaps, schema_problem, without_unusable_patterns


class World(Protocol):
    """The exports of a component, called according to its world."""

    @property
    def name(self) -> str: ...

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Return the component's tools. Errors in the component's descriptions are listed in `ToolSpec.problems`."""

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        """Run one tool of the sandbox's instance and return its JSON text.

        Raises:
            GuestError: the tool returned a failure.
        """


def detect(linker: Linker, data: bytes) -> World:
    """Return the world of a component, bound to the component's exports.

    Doc comments are read from `data`, the component's bytes.

    Raises:
        UnknownWorldError: none of the component's exports can be run.
        InvalidComponentError: the component exports a known interface with different types.
    """
    kind = linker.component.type
    known = worlds.exported_world(interface.name for interface in kind.exports)
    if known is not None:
        return tool_world(linker, known)
    program = worlds.exported_program([*(interface.name for interface in kind.exports), *dict(kind.functions)])
    if program is not None:
        from wasmrt.sandbox.guest.worlds._program import program_world  # imports WASI, which most tools do not need

        return program_world(linker, program)
    handler = worlds.exported_handler(interface.name for interface in kind.exports)
    if handler is not None:
        from wasmrt.sandbox.guest.worlds._handler import handler_world  # imports WASI, which most tools do not need

        return handler_world(linker, handler)
    # Importing the JSON codecs for all WIT types takes a twentieth of a short program's start time, and tools of
    # wasmrt's worlds do not need them.
    from wasmrt.sandbox.guest.worlds._generic import explain_nothing_to_run, generic_world

    generic = generic_world(linker, data)
    if generic is not None:
        return generic
    raise UnknownWorldError(
        explain_nothing_to_run(kind),
        hint=f"export {worlds.TOOL_WORLD.export}, near:agent/tool, wasi:http/incoming-handler, or functions with plain "
        "types (no resources)",
    )


def tool_world(linker: Linker, world: worlds.World) -> World:
    """Return the world of a component that implements a tool world, bound to the component's exports.

    Raises:
        InvalidComponentError: the component exports the world's interface with different functions or types.
    """
    found = _find_exports(linker, world.export)
    if world is worlds.TOOL_WORLD:
        return _ProviderWorld(world.export, found["describe"], found["call"])
    return _AgentWorld(world.export, found["execute"], found["schema"], found["description"], world.has_typed_failures)


def _find_exports(linker: Linker, interface: str) -> dict[str, Export]:
    exported = linker.component.type.export(interface)
    assert exported is not None
    found = {}
    for name, signature in worlds.signatures(interface).items():
        kind = exported.function(name)
        if kind is None:
            raise InvalidComponentError(f"{interface} has no function {name}", hint=f"export {name}: {signature}")
        if str(kind) != signature:
            raise InvalidComponentError(
                f"{interface}#{name} does not have the type defined by its world",
                hint=f"the type should be {name}: {signature}",
            )
        found[name] = Export(linker, (interface, name), kind)
    return found


class _AgentWorld(NamedTuple):
    name: str
    execute: Export
    schema: Export
    description: Export
    typed: bool

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        problems: list[str] = []
        description = _read_description(sandbox.call(self.description), problems)
        schema, problem = _read_schema(_remove_unusable_patterns(sandbox.call(self.schema), problems), problems)
        return [ToolSpec(name, description, schema, problems=tuple(problems), schema_problem=problem)]

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        answer = sandbox.call(self.execute, {"params": params, "context": context})
        if self.typed:
            if answer.name == "success":
                return str(answer.value)
            raise typed_failure(answer.value, call)
        if answer["error"] is not None:
            raise GuestError(answer["error"].strip() or "the tool failed without an error message")
        if answer["output"] is None:
            raise GuestError("the tool returned neither an output nor an error")
        return str(answer["output"])


class _ProviderWorld(NamedTuple):
    name: str
    list_tools: Export
    invoke: Export

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        specs: dict[str, ToolSpec] = {}
        for offered in sandbox.call(self.list_tools)[:MAX_TOOLS_PER_COMPONENT]:
            problems: list[str] = []
            tool = printable_line(offered["name"], 64)
            if not tool or tool != offered["name"] or tool in specs:
                continue  # the name is unprintable or a duplicate, so no caller could select this tool
            notes = offered["annotations"]
            schema, problem = _read_schema(offered["schema"], problems)
            specs[tool] = ToolSpec(
                tool,
                _read_description(offered["description"], problems),
                schema,
                read_only=notes["read-only"],
                destructive=notes["destructive"],
                network=notes["network"],
                problems=tuple(problems),
                schema_problem=problem,
            )
        return list(specs.values())

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        answer = sandbox.call(self.invoke, tool.name, params, context)
        if isinstance(answer, Err):
            raise typed_failure(answer.value, call)
        return str(answer.value)


def _read_description(text: str, problems: list[str]) -> str:
    if len(text.encode("utf-8", "replace")) > MAX_DESCRIPTION_BYTES:
        problems.append(f"the description is over {MAX_DESCRIPTION_BYTES} bytes and was truncated")
    return printable_line(text, MAX_DESCRIPTION_BYTES)


def _remove_unusable_patterns(text: str, problems: list[str]) -> str:
    """Return a schema without the patterns that the host cannot check; the guest checks its params itself."""
    problem = schema_problem(text)
    if problem is None or schema_problem(reduced := without_unusable_patterns(text)) is not None:
        return text
    problems.append(f"{problem}; such patterns are left out")
    return reduced


def _read_schema(text: str, problems: list[str]) -> tuple[dict[str, Any], str]:
    """Return a tool's schema, and the reason why the guest's schema was replaced (empty if it was not replaced)."""
    problem = schema_problem(text)
    if problem is None:
        problems.extend(schema_gaps(text))
        return dict(json.loads(text)), ""
    problems.append(problem)
    return dict(ANY_OBJECT), problem
