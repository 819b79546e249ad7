"""Run components of other worlds: every exported function with plain types is a tool.

The JSON Schema of such a tool is made from the function's WIT types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wasmrt.core.errors import GuestError
from wasmrt.core.limits import MAX_TOOLS_PER_COMPONENT
from wasmrt.sandbox.component import ComponentType, ToolSpec, doc_comments, printable_line, worlds
from wasmrt.sandbox.guest.call import GuestCall
from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox
from wasmrt.sandbox.guest.outcome import is_typed_failure, typed_failure
from wasmrt.sandbox.schema.wit import exported_functions, failure_text, function_schema, split_result, to_values


@dataclass(frozen=True, slots=True)
class GenericWorld:
    """A component that was not written for wasmrt. It is described by its types and doc comments."""

    exports: dict[str, Export]
    specs: tuple[ToolSpec, ...]
    name: str = worlds.GENERIC_WORLD

    def describe(self, _sandbox: Sandbox, _name: str) -> list[ToolSpec]:
        return list(self.specs)

    def run(self, sandbox: Sandbox, call: GuestCall, tool: ToolSpec, params: str, _context: str | None) -> str:
        export = self.exports[tool.name]
        answer = sandbox.call(export, *to_values(export.type, json.loads(params)))
        succeeded, value = split_result(export.type, answer)
        if not succeeded:
            raise typed_failure(value, call) if is_typed_failure(value) else GuestError(failure_text(value))
        return json.dumps(value, ensure_ascii=False)


def generic_world(linker: Linker, data: bytes) -> GenericWorld | None:
    """Return the world of a component, or None if no function of the component can be called with JSON.

    Doc comments are read from `data`, the component's bytes.
    """
    exports: dict[str, Export] = {}
    specs: list[ToolSpec] = []
    for function in exported_functions(linker.component.type, docs=doc_comments(data)):
        if function.problem is not None or len(specs) >= MAX_TOOLS_PER_COMPONENT:
            continue
        path = (function.interface, function.function) if function.interface else (function.function,)
        exports[function.tool] = Export(linker, path, function.type)
        specs.append(ToolSpec(function.tool, function.description, function_schema(function.type)))
    return GenericWorld(exports, tuple(specs)) if specs else None


def explain_nothing_to_run(kind: ComponentType) -> str:
    """Return the error message for a component without runnable exports.

    The message includes the reason why the first exported function cannot be run.
    """
    known = [interface.name for interface in kind.exports] + [name for name, _ in kind.functions]
    shown = ", ".join(known[:5]) if known else "nothing"
    message = f"no export of the component can be run here; it exports {printable_line(shown, 300)}"
    for function in exported_functions(kind)[:1]:
        return f"{message}; problem of {printable_line(function.function, 100)}: {function.problem}"
    return message
