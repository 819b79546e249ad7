"""`{{name}}` and its like, in templates and in their build steps. An unknown one is an error, never left standing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wasmrt.core.errors import InternalError

_PLACEHOLDER = re.compile(r"\{\{([a-z_]+)\}\}")


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with its placeholders replaced.

    Raises:
        InternalError: one is not among `values`; the template is broken.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise InternalError(f"a template holds the unknown placeholder {found[0]}")
        return values[found[1]]

    return _PLACEHOLDER.sub(value, text)


def names_of(name: str) -> dict[str, str]:
    """Return the placeholders that a tool's name fills."""
    return {"name": name, "name_snake": name.replace("-", "_")}
