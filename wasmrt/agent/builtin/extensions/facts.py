"""Facts about a prepared component, as an install records them."""

from __future__ import annotations

import json

from wasmrt.catalog import ComponentInfo
from wasmrt.core.component_bytes import digest_of
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.sandbox.component import functions_by_interface, qualified_names


def component_info(tool: PreparedTool) -> ComponentInfo:
    """Return the facts that an install records of a prepared tool."""
    described = [{"name": spec.name, "schema": spec.schema} for spec in tool.tools]
    return ComponentInfo(
        world=tool.world,
        description=" ".join(spec.description for spec in tool.tools if spec.description),
        imports=tuple(qualified_names(imports_of(tool))),
        exports=tuple(qualified_names(exports_of(tool))),
        schema_digest=digest_of(json.dumps(described, sort_keys=True).encode()),
        tools=len(tool.tools),
        problems=tool.problems,
        schema_problems=tool.schema_problems,
    )


def imports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Return the imported functions by interface; those outside any under the empty name."""
    return functions_by_interface(tool.type.imports, tool.type.import_functions)


def exports_of(tool: PreparedTool) -> dict[str, list[str]]:
    """Return the exported functions by interface; those outside any under the empty name."""
    return functions_by_interface(tool.type.exports, tool.type.functions)
