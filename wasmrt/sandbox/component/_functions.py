"""Names of the functions that a component imports or exports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wasmrt.sandbox.component._types import FuncType, InterfaceType


def functions_by_interface(
    interfaces: Iterable[InterfaceType], functions: Iterable[tuple[str, FuncType]]
) -> dict[str, list[str]]:
    """Return the names of functions by interface; those outside any, `functions`, under the empty name."""
    found = {interface.name: [name for name, _ in interface.functions] for interface in interfaces}
    if outside := [name for name, _ in functions]:
        found[""] = outside
    return found


def qualified_names(by_interface: Mapping[str, Iterable[str]]) -> list[str]:
    """Return `interface#function` for each function; the interface alone where it has none, such as one of types."""
    names: list[str] = []
    for interface, functions in by_interface.items():
        names += [f"{interface}#{name}" if interface else name for name in functions] or [interface]
    return names
