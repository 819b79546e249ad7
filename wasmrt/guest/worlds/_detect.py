"""The worlds' exports: asking a component for its tools, and running one. Guests' answers are hostile input."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Protocol

from wasmrt.component import ANY_OBJECT, ComponentType, Err, FuncType, ToolSpec, plain
from wasmrt.errors import GuestError, InvalidComponentError, UnknownWorldError
from wasmrt.guest.engine import Export, Linker, Sandbox
from wasmrt.guest.outcome import guest_failure
from wasmrt.guest.worlds._imports import AGENT_VERSIONS
from wasmrt.limits import MAX_DESCRIPTION_BYTES, MAX_TOOLS_PER_COMPONENT
from wasmrt.schema import schema_problem

_KIND = "enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }"
_REQUEST = "func(req: record { params: string, context: option<string> })"
_AGENT = {
    "execute": f"{_REQUEST} -> record {{ output: option<string>, error: option<string> }}",
    "schema": "func() -> string",
    "description": "func() -> string",
}
_AGENT_TYPED = _AGENT | {
    "execute": f"{_REQUEST} -> variant {{ success(string), "
    f"failure(record {{ kind: {_KIND}, code: option<string>, message: option<string> }}) }}",
}
_ANNOTATIONS = "record { read-only: bool, destructive: bool, network: bool }"
_PROVIDER = {
    "describe": "func() -> list<record { name: string, description: string, schema: string, "
    f"annotations: {_ANNOTATIONS} }}>",
    "call": "func(name: string, params: string, context: option<string>) -> "
    f"result<string, record {{ kind: {_KIND}, code: option<string>, message: string }}>",
}
PROVIDER = "wasmrt:tool/provider@0.1.0"


class World(Protocol):
    """A way to talk to one component."""

    @property
    def name(self) -> str: ...

    @property
    def unbounded_lift(self) -> bool:
        """True where the engine may take long over an answer; nothing interrupts that."""

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        """Ask the component for its tools; what it says wrongly becomes a problem of the spec."""

    def run(self, sandbox: Sandbox, tool: ToolSpec, params: str, context: str | None) -> str:
        """Run one tool and return its JSON text.

        Raises:
            GuestError: the tool answered with its own failure.
        """


def detect(linker: Linker, data: bytes) -> World:
    """The world of a component, by the interface it exports.

    Raises:
        UnknownWorldError: it exports nothing that can be run.
        InvalidComponentError: it exports a known interface with other types.
    """
    kind = linker.component.type
    if kind.export(PROVIDER) is not None:
        describe, invoke = _exports(linker, PROVIDER, _PROVIDER)
        return _ProviderWorld(PROVIDER, describe, invoke)
    for version in AGENT_VERSIONS:
        name = f"near:agent/tool{version}"
        if kind.export(name) is not None:
            typed = version == "@0.4.1"
            execute, schema, description = _exports(linker, name, _AGENT_TYPED if typed else _AGENT)
            return _AgentWorld(name, execute, schema, description, typed)
    from wasmrt.guest.worlds._generic import generic_world  # everything JSON knows of WIT, for worlds that are not ours

    others = generic_world(linker, data)
    if others is not None:
        return others
    raise UnknownWorldError(
        _nothing_to_run(kind), hint="export wasmrt:tool/provider@0.1.0, near:agent/tool, or functions with plain types"
    )


def _nothing_to_run(kind: ComponentType) -> str:
    from wasmrt.schema import exported_functions  # only on the way to an error

    known = [interface.name for interface in kind.exports] + [name for name, _ in kind.functions]
    shown = ", ".join(known[:5]) if known else "nothing"
    message = f"the component is of no world that can be run here; it exports {plain(shown, 300)}"
    for function in exported_functions(kind)[:1]:
        return f"{message}; of {plain(function.function, 100)}: {function.problem}"
    return message


def _exports(linker: Linker, interface: str, expected: dict[str, str]) -> list[Export]:
    exported = linker.component.type.export(interface)
    assert exported is not None
    found = []
    for name, signature in expected.items():
        kind = exported.function(name)
        if kind is None:
            raise InvalidComponentError(f"{interface} has no function {name}", hint=f"export {name}: {signature}")
        if not _same(kind, signature):
            raise InvalidComponentError(
                f"{interface}#{name} has another type than its world's", hint=f"it should be {name}: {signature}"
            )
        found.append(Export(linker, (interface, name), kind))
    return found


def _same(kind: FuncType, signature: str) -> bool:
    return str(kind) == signature


class _AgentWorld(NamedTuple):
    name: str
    execute: Export
    schema: Export
    description: Export
    typed: bool

    @property
    def unbounded_lift(self) -> bool:
        return self.execute.unbounded_lift

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        problems: list[str] = []
        description = _description(sandbox.call(self.description), problems)
        schema = _schema(sandbox.call(self.schema), problems)
        return [ToolSpec(name, description, schema, problems=tuple(problems))]

    def run(self, sandbox: Sandbox, tool: ToolSpec, params: str, context: str | None) -> str:
        answer = sandbox.call(self.execute, {"params": params, "context": context})
        if self.typed:
            if answer.name == "success":
                return str(answer.value)
            failure = answer.value
            raise guest_failure(failure["kind"], failure["code"], failure["message"])
        if answer["error"] is not None:
            raise GuestError(plain(answer["error"]) or "the tool failed and said nothing")
        if answer["output"] is None:
            raise GuestError("the tool answered neither with an output nor with an error")
        return str(answer["output"])


class _ProviderWorld(NamedTuple):
    name: str
    list_tools: Export
    invoke: Export

    @property
    def unbounded_lift(self) -> bool:
        return self.invoke.unbounded_lift

    def describe(self, sandbox: Sandbox, name: str) -> list[ToolSpec]:
        specs: dict[str, ToolSpec] = {}
        for offered in sandbox.call(self.list_tools)[:MAX_TOOLS_PER_COMPONENT]:
            problems: list[str] = []
            tool = plain(offered["name"], 64)
            if not tool or tool != offered["name"] or tool in specs:
                continue  # a name that cannot be said, or twice: nobody could call it
            notes = offered["annotations"]
            specs[tool] = ToolSpec(
                tool,
                _description(offered["description"], problems),
                _schema(offered["schema"], problems),
                read_only=notes["read-only"],
                destructive=notes["destructive"],
                network=notes["network"],
                problems=tuple(problems),
            )
        return list(specs.values())

    def run(self, sandbox: Sandbox, tool: ToolSpec, params: str, context: str | None) -> str:
        answer = sandbox.call(self.invoke, tool.name, params, context)
        if isinstance(answer, Err):
            failure: dict[str, Any] = answer.value
            raise guest_failure(failure["kind"], failure["code"], failure["message"])
        return str(answer.value)


def _description(text: str, problems: list[str]) -> str:
    if len(text.encode("utf-8", "replace")) > MAX_DESCRIPTION_BYTES:
        problems.append(f"the description is over {MAX_DESCRIPTION_BYTES} bytes and was cut")
    return plain(text, MAX_DESCRIPTION_BYTES)


def _schema(text: str, problems: list[str]) -> dict[str, Any]:
    problem = schema_problem(text)
    if problem is None:
        return dict(json.loads(text))
    problems.append(problem)
    return dict(ANY_OBJECT)
