"""Between JSON and WIT: schemas, values, provider renderings and messages a model can act on.

This room decides what a tool's params look like to an agent and whether they fit. It does not call anything, and
it trusts no schema: a guest's own never reaches the network, a file or unbounded work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wasmrt._lazy import lazy

if TYPE_CHECKING:
    from wasmrt.schema._forms import (
        function_schema,
        result_schema,
        type_schema,
        unsupported,
    )
    from wasmrt.schema._names import (
        ExportedFunction,
        exported_functions,
    )
    from wasmrt.schema._problems import (
        params_problem,
    )
    from wasmrt.schema._read import (
        to_values,
    )
    from wasmrt.schema._render import (
        Provider,
        provider_schema,
        render,
    )
    from wasmrt.schema._validator import (
        Validator,
        coerce,
        schema_problem,
    )
    from wasmrt.schema._write import (
        failure_text,
        split_result,
        to_json,
    )

_LATER = {
    "_forms": (
        "function_schema",
        "result_schema",
        "type_schema",
        "unsupported",
    ),
    "_names": (
        "ExportedFunction",
        "exported_functions",
    ),
    "_problems": ("params_problem",),
    "_read": ("to_values",),
    "_render": (
        "Provider",
        "provider_schema",
        "render",
    ),
    "_validator": (
        "Validator",
        "coerce",
        "schema_problem",
    ),
    "_write": (
        "failure_text",
        "split_result",
        "to_json",
    ),
}

__all__ = [
    "ExportedFunction",
    "Provider",
    "Validator",
    "coerce",
    "exported_functions",
    "failure_text",
    "function_schema",
    "params_problem",
    "provider_schema",
    "render",
    "result_schema",
    "schema_problem",
    "split_result",
    "to_json",
    "to_values",
    "type_schema",
    "unsupported",
]

__getattr__ = lazy(__name__, _LATER, globals())
