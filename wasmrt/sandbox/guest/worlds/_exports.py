"""The exports of the tool worlds: asking a component for its tools, and running one. Its answers are hostile input."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from wasmrt.core.errors import GuestError, InvalidComponentError
from wasmrt.core.limits import MAX_DESCRIPTION_BYTES, MAX_TOOLS_PER_COMPONENT
from wasmrt.sandbox.component import ANY_OBJECT, Err, ToolSpec, printable_line, worlds
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox
from wasmrt.sandbox.guest.outcome import typed_failure
from wasmrt.sandbox.schema import schema_gaps, schema_problem


class World(Protocol):
    """A way to talk to one component."""

    @property
    def name(self) -> str: ...

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Ask the component for its tools; what it says wrongly becomes a problem of the spec."""

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        """Run one tool of the sandbox's instance, in its call, and return its JSON text.

        Raises:
            GuestError: the tool answered with its own failure.
        """


def tool_world(linker: Linker, world: worlds.World) -> World:
    """Bind the exports of a component of a tool world.

    Raises:
        InvalidComponentError: it exports the world's interface with other functions or types.
    """
    found = _exports(linker, world.export)
    if world is worlds.TOOL_WORLD:
        return _ProviderWorld(world.export, found["describe"], found["call"])
    return _AgentWorld(world.export, found["execute"], found["schema"], found["description"], world.has_typed_failures)


def _exports(linker: Linker, interface: str) -> dict[str, Export]:
    exported = linker.component.type.export(interface)
    assert exported is not None
    found = {}
    for name, signature in worlds.signatures(interface).items():
        kind = exported.function(name)
        if kind is None:
            raise InvalidComponentError(f"{interface} has no function {name}", hint=f"export {name}: {signature}")
        if str(kind) != signature:
            raise InvalidComponentError(
                f"{interface}#{name} has another type than its world's", hint=f"it should be {name}: {signature}"
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
        description = _description(sandbox.call(self.description), problems)
        schema, problem = _schema(sandbox.call(self.schema), problems)
        return [ToolSpec(name, description, schema, problems=tuple(problems), schema_problem=problem)]

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, context: str | None) -> str:
        answer = sandbox.call(self.execute, {"params": params, "context": context})
        if self.typed:
            if answer.name == "success":
                return str(answer.value)
            raise typed_failure(answer.value, call)
        if answer["error"] is not None:
            raise GuestError(answer["error"].strip() or "the tool failed and said nothing")
        if answer["output"] is None:
            raise GuestError("the tool answered neither with an output nor with an error")
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
                continue  # a name that cannot be said, or twice: nobody could call it
            notes = offered["annotations"]
            schema, problem = _schema(offered["schema"], problems)
            specs[tool] = ToolSpec(
                tool,
                _description(offered["description"], problems),
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


def _description(text: str, problems: list[str]) -> str:
    if len(text.encode("utf-8", "replace")) > MAX_DESCRIPTION_BYTES:
        problems.append(f"the description is over {MAX_DESCRIPTION_BYTES} bytes and was cut")
    return printable_line(text, MAX_DESCRIPTION_BYTES)


def _schema(text: str, problems: list[str]) -> tuple[dict[str, Any], str]:
    """Return a schema, and why it is not the guest's own; with an empty text where it is."""
    problem = schema_problem(text)
    if problem is None:
        problems.extend(schema_gaps(text))
        return dict(json.loads(text)), ""
    problems.append(problem)
    return dict(ANY_OBJECT), problem
