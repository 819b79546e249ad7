"""What an exported function is called as a tool: `interface-function`, as every provider takes it, each name once."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from dataclasses import dataclass

from wasmrt.component import ComponentType, Docs, FuncType, doc_of, plain
from wasmrt.limits import MAX_DESCRIPTION_BYTES
from wasmrt.schema._forms import unsupported

MAX_TOOL_NAME = 64
is_tool_name = re.compile(r"[a-zA-Z0-9_-]{1,64}").fullmatch
"""What OpenAI and Anthropic take; MCP takes more."""
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]+")
_FULL = 3
_SET_UP = {
    ("", "init", ("shim", "script", "entry-path", "disable-gc")): "componentize-qjs",
    ("exports", "init", ("app-name", "symbols", "stub-wasi")): "componentize-py",
}
"""What a toolchain calls while it builds and leaves in the component: interface, function and params."""


@dataclass(frozen=True, slots=True)
class ExportedFunction:
    """A function that a component of any world exports, as a tool.

    `interface` is empty for a function at the top level; `problem` says why it cannot be called with JSON.
    """

    tool: str
    interface: str
    function: str
    type: FuncType
    problem: str | None
    docs: str | None = None
    """Its doc comment, on one line, where the component carries it."""

    @property
    def signature(self) -> str:
        """The function in WIT."""
        return f"{self.interface + '#' if self.interface else ''}{self.function}: {self.type}"

    @property
    def description(self) -> str:
        """What to tell an agent: the doc comment, or the signature for want of it."""
        return self.docs or plain(self.signature, MAX_DESCRIPTION_BYTES)


def exported_functions(component: ComponentType, *, docs: Docs | None = None) -> tuple[ExportedFunction, ...]:
    """Every exported function with the name it has as a tool, in the component's order; `docs` from `doc_comments`.

    A name is as short as can be: where two functions would share one (letter case and `_` for `-` make no
    difference, since some clients fold them), each gets its package, then its namespace, then its version, then a
    digest of its full name, whatever the order of the exports.
    """
    found = [("", name, kind) for name, kind in component.functions]
    found += [(interface.name, name, kind) for interface in component.exports for name, kind in interface.functions]
    tools = _tool_names([(interface, name) for interface, name, _ in found])
    return tuple(
        ExportedFunction(
            tools[interface, name],
            interface,
            name,
            kind,
            _left_behind(interface, name, kind) or unsupported(kind),
            doc_of(docs or {}, interface, name),
        )
        for interface, name, kind in found
    )


def _left_behind(interface: str, name: str, kind: FuncType) -> str | None:
    toolchain = _SET_UP.get((interface, name, tuple(param for param, _ in kind.params)))
    return toolchain and f"{toolchain} called it while it built the component"


def declared_name(name: str) -> str:
    """A name as every provider takes it: what they refuse is `-`, and one over 64 characters ends in a digest."""
    fitting = _REFUSED.sub("-", name).strip("-") or "tool"
    return fitting if len(fitting) <= MAX_TOOL_NAME else _digested(fitting, name)


def _tool_names(exports: list[tuple[str, str]]) -> dict[tuple[str, str], str]:
    levels = dict.fromkeys(exports, 0)
    while True:
        chosen = {export: _name(*export, level) for export, level in levels.items()}
        groups: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for export, name in chosen.items():
            groups[name.lower().replace("_", "-")].append(export)
        clashing = [export for group in groups.values() if len(group) > 1 for export in group]
        if not clashing:
            return chosen
        for export in clashing:
            levels[export] += 1


def _name(interface: str, function: str, level: int) -> str:
    path, _, version = interface.partition("@")
    parts = re.split(r"[:/]", path) if path else []
    kept = [*parts[-1 - min(level, _FULL - 1) :], function]
    if level >= _FULL and version:
        kept.insert(len(kept) - 1, version)
    name = "-".join(_REFUSED.sub("-", part).strip("-") for part in kept)
    if len(name) <= MAX_TOOL_NAME and level <= _FULL:
        return name
    # Each further level, should digests clash, takes another one.
    return _digested(name, f"{level}\n{interface}\n{function}")


def _digested(name: str, whole: str) -> str:
    """At most 64 characters, with a digest of what was cut."""
    return f"{name[: MAX_TOOL_NAME - 9].rstrip('-')}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
