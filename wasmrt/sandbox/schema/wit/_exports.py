"""List exported functions as tools, with unique names that all providers accept: `interface-function`."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from wasmrt.core.limits import MAX_DESCRIPTION_BYTES
from wasmrt.core.names import MAX_NAME_LENGTH, fold_name, shorten_name
from wasmrt.sandbox.component import ComponentType, Docs, FuncType, doc_of, printable_line
from wasmrt.sandbox.schema.wit._forms import explain_unsupported

_REFUSED = re.compile(r"[^a-zA-Z0-9_-]+")
_FULL = 3
_SET_UP = {
    ("", "init", ("shim", "script", "entry-path", "disable-gc")): "componentize-qjs",
    ("exports", "init", ("app-name", "symbols", "stub-wasi")): "componentize-py",
}
"""Functions that a toolchain calls during the build, and that remain in the component. The keys are the interface, the
function and its params."""


@dataclass(frozen=True, slots=True)
class ExportedFunction:
    """An exported function of a component, as a tool.

    `interface` is empty for a function at the top level; `problem` is the reason why it cannot be called with JSON.
    """

    tool: str
    interface: str
    function: str
    type: FuncType
    problem: str | None
    docs: str | None = None
    """The doc comment in one line, if the component contains it."""

    @property
    def signature(self) -> str:
        """The function's WIT signature."""
        return f"{self.interface + '#' if self.interface else ''}{self.function}: {self.type}"

    @property
    def description(self) -> str:
        """The description for agents: the doc comment, or the signature if there is none."""
        return self.docs or printable_line(self.signature, MAX_DESCRIPTION_BYTES)


def exported_functions(component: ComponentType, *, docs: Docs | None = None) -> tuple[ExportedFunction, ...]:
    """Return each exported function with its tool name, in the component's order; `docs` comes from `doc_comments`.

    Names are as short as possible. If the names of two functions clash (ignoring case, and treating `_` and `-` as
    equal, because some clients do), the package is added to both, then the namespace, then the version, then a digest
    of the full name. The order of exports does not matter.
    """
    found = [("", name, kind) for name, kind in component.functions]
    found += [(interface.name, name, kind) for interface in component.exports for name, kind in interface.functions]
    tools = _choose_tool_names([(interface, name) for interface, name, _ in found])
    return tuple(
        ExportedFunction(
            tools[interface, name],
            interface,
            name,
            kind,
            _build_function_problem(interface, name, kind) or explain_unsupported(kind),
            doc_of(docs or {}, interface, name),
        )
        for interface, name, kind in found
    )


def _build_function_problem(interface: str, name: str, kind: FuncType) -> str | None:
    toolchain = _SET_UP.get((interface, name, tuple(param for param, _ in kind.params)))
    return toolchain and f"{toolchain} uses it only to build the component"


def _choose_tool_names(exports: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    levels = dict.fromkeys(exports, 0)
    while True:
        chosen = {export: _make_tool_name(*export, level) for export, level in levels.items()}
        groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for export, name in chosen.items():
            groups[fold_name(name)].append(export)
        clashing = [export for group in groups.values() if len(group) > 1 for export in group]
        if not clashing:
            return chosen
        for export in clashing:
            levels[export] += 1


def _make_tool_name(interface: str, function: str, level: int) -> str:
    path, _, version = interface.partition("@")
    parts = re.split(r"[:/]", path) if path else []
    kept = [*parts[-1 - min(level, _FULL - 1) :], function]
    if level >= _FULL and version:
        kept.insert(len(kept) - 1, version)
    name = "-".join(_REFUSED.sub("-", part).strip("-") for part in kept)
    if len(name) <= MAX_NAME_LENGTH and level <= _FULL:
        return name
    # If digests clash, the next level produces a different digest.
    return shorten_name(name, f"{level}\n{interface}\n{function}")
