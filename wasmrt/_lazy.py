"""Doors that open when knocked on: names of a package that load the module behind them at first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, tuple[str, ...]], namespace: dict[str, Any]) -> Callable[[str], Any]:
    """The `__getattr__` (PEP 562) of a package whose `homes` say which of its modules has which names."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        module = home_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(f"{package}.{module}"), name)
        return value

    return get
