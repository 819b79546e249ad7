"""Any other world: every exported function with plain types is a tool, its schema made from its WIT types."""

from __future__ import annotations

import json
from dataclasses import dataclass

from wasmrt.call._spec import ToolSpec
from wasmrt.engine import Export, Linker, Sandbox, plain
from wasmrt.errors import GuestError
from wasmrt.limits import MAX_DESCRIPTION_BYTES, MAX_TOOLS_PER_COMPONENT
from wasmrt.schema import exported_functions, failure_text, function_schema, split_result, to_values


@dataclass(frozen=True, slots=True)
class PlainWorld:
    """A component that was never written for wasmrt. It is not run to be described: its types say everything."""

    exports: dict[str, Export]
    specs: tuple[ToolSpec, ...]
    name: str = "plain functions"

    def describe(self, _sandbox: Sandbox, _name: str) -> list[ToolSpec]:
        return list(self.specs)

    def run(self, sandbox: Sandbox, tool: ToolSpec, params: str, context: str | None) -> str:
        export = self.exports[tool.name]
        answer = sandbox.call(export, *to_values(export.type, json.loads(params)))
        succeeded, value = split_result(export.type, answer)
        if not succeeded:
            raise GuestError(failure_text(value))
        return json.dumps(value, ensure_ascii=False)


def plain_world(linker: Linker) -> PlainWorld | None:
    """The plain world of a component; None where it exports no function that JSON can call."""
    exports: dict[str, Export] = {}
    specs: list[ToolSpec] = []
    for function in exported_functions(linker.component.type):
        if function.problem is not None or len(specs) >= MAX_TOOLS_PER_COMPONENT:
            continue
        path = (function.interface, function.function) if function.interface else (function.function,)
        exports[function.tool] = Export(linker, path, function.type)
        description = plain(function.signature, MAX_DESCRIPTION_BYTES)
        specs.append(ToolSpec(function.tool, description, function_schema(function.type)))
    return PlainWorld(exports, tuple(specs)) if specs else None
