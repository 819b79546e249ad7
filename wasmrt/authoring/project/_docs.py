"""Doc comments of the WIT, carried into the component: no toolchain's last step does it.

The convention is the custom section `package-docs` (wit-parser, metadata.rs). In a component its readers take it for
the docs of the world that they read the component as, `root`, and refuse a name that is not there. So what the world
itself exports stands there; the docs of interfaces of packages stand in a section of our own, in the form that names
its package, which most readers of `package-docs` do not know yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from wasmrt.core.limits import MAX_SCHEMA_BYTES
from wasmrt.sandbox.component import DOCS_SECTION, OWN_DOCS_SECTION, encode_custom_section

Docs = dict[str, str]
"""Function -> text."""


def with_docs(component: bytes, wit: Mapping[str, Any], exports: Iterable[str]) -> bytes:
    """Return a component with the doc comments that its WIT has on what it exports at its top level.

    `wit` is the resolved WIT, as `WasmTools.resolve_wit` returns it. Docs over the bound of a schema are left out.
    """
    names = set(exports)
    functions, inside = _of_worlds(wit, names)
    if functions or inside:
        root = {"funcs": functions, "interfaces": {name: {"funcs": docs} for name, docs in inside.items()}}
        component += _section(DOCS_SECTION, 0, {"worlds": {"root": root}})
    for package, interfaces in _of_packages(wit, names).items():
        described = {
            name: {"funcs": {function: {"docs": text} for function, text in docs.items()}}
            for name, docs in interfaces.items()
        }
        component += _section(OWN_DOCS_SECTION, 1, {"package": package, "interfaces": described})
    return component


def _of_worlds(wit: Mapping[str, Any], names: set[str]) -> tuple[Docs, dict[str, Docs]]:
    """Return the docs of exported functions, and of those of interfaces that are written inside a world."""
    functions: Docs = {}
    inside: dict[str, Docs] = {}
    for world in wit["worlds"]:  # the project's own comes after those of packages that it uses
        for name, item in world["exports"].items():
            if name not in names:
                continue
            if "function" in item:
                functions |= _docs_of({name: item["function"]})
            elif docs := _docs_of(wit["interfaces"][item["interface"]["id"]]["functions"]):
                inside[name] = docs
    return functions, inside


def _of_packages(wit: Mapping[str, Any], names: set[str]) -> dict[str, dict[str, Docs]]:
    """Return the docs of interfaces that stand by themselves, by package and interface."""
    found: dict[str, dict[str, Docs]] = {}
    for interface in wit["interfaces"]:
        if interface["name"] is None:
            continue
        package = wit["packages"][interface["package"]]["name"]
        path, at, version = package.partition("@")
        if f"{path}/{interface['name']}{at}{version}" in names and (docs := _docs_of(interface["functions"])):
            found.setdefault(package, {})[interface["name"]] = docs
    return found


def _docs_of(functions: Mapping[str, Any]) -> Docs:
    """Return the docs of plain functions: a resource's are never called from outside."""
    return {
        name: function["docs"]["contents"]
        for name, function in functions.items()
        if function.get("docs", {}).get("contents") and not name.startswith("[")
    }


def _section(name: str, version: int, docs: Mapping[str, object]) -> bytes:
    content = bytes([version]) + json.dumps(docs, ensure_ascii=False, separators=(",", ":")).encode()
    return encode_custom_section(name, content) if len(content) <= MAX_SCHEMA_BYTES else b""
