"""Check whether a tool can be removed."""

from __future__ import annotations

from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog.bundled import bundled_names
from wasmrt.core.errors import ConfigurationError


def check_removable(catalog: Catalog, name: str) -> None:
    """Refuse to remove a bundled tool.

    Raises:
        ConfigurationError: the tool is bundled.
    """
    if name in bundled_names() and not catalog.has(name):
        raise ConfigurationError(
            f"{name} is part of wasmrt and cannot be removed", code="bundled",
            hint=f"install a different tool as {name} to replace it",
        )  # fmt: skip
