"""The check before a tool is removed."""

from __future__ import annotations

from wasmrt.catalog._catalog import Catalog
from wasmrt.catalog.bundled import bundled_names
from wasmrt.core.errors import ConfigurationError


def check_removable(catalog: Catalog, name: str) -> None:
    """Refuse to remove a tool that comes with wasmrt.

    Raises:
        ConfigurationError: it does.
    """
    if name in bundled_names() and not catalog.has(name):
        raise ConfigurationError(
            f"{name} comes with wasmrt and cannot be removed", code="bundled",
            hint=f"a tool of yours that is installed as {name} takes its place",
        )  # fmt: skip
