"""What a component is, asks for and will be refused, as its author should know before anybody installs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wasmrt.capabilities import Capabilities, capabilities_of
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain, review
from wasmrt.install import ANY_WORLD, WasmValidator
from wasmrt.runtime import WasmToolRuntime
from wasmrt.schema import exported_functions, unsupported
from wasmrt.tool import PreparedTool

_ASKED = {"http": "http", "workspace": "workspace_read", "secrets": "secrets", "tool_invoke": "tool_invoke"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A component that can run here, in words."""

    size_bytes: int
    world: str
    tools: tuple[str, ...]
    imports: tuple[str, ...]
    """`interface#function`."""
    exports: tuple[str, ...]
    asks: tuple[str, ...]
    """What its capability file asks for, in sentences."""
    denied: tuple[str, ...]
    """What it imports and will be refused every time."""
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def judge(runtime: WasmToolRuntime, name: str, data: bytes, sidecar: bytes | None) -> Verdict:
    """Validate a component and compare what it imports with what its capability file asks for.

    Raises:
        ComponentError: it cannot run here; its subclass says why.
        CapabilityFileError: the sidecar is not sound.
        MemoryLimitError: it needs more memory to start than the limits it asks for.
    """
    result = WasmValidator().validate(data)
    result.raise_first()
    file = None if sidecar is None else parse(sidecar)
    asked = Capabilities.none() if file is None else file.capabilities
    tool = runtime.prepare(name, data, asked)
    imports = _functions(tool, of="imports")
    denied = _denied(imports, asked)
    remarks = [] if file is None else [f"{remark.path}: {remark.message}" for remark in review(file)]
    unused = [] if file is None else _unused(imports, asked)
    return Verdict(
        size_bytes=len(data),
        world=tool.world,
        tools=tuple(spec.name for spec in tool.tools),
        imports=imports,
        exports=_functions(tool, of="exports"),
        asks=explain(asked),
        denied=denied,
        warnings=(*result.warnings, *tool.problems, *_uncallable(tool), *remarks, *unused),
    )


def _functions(tool: PreparedTool, *, of: str) -> tuple[str, ...]:
    kind = tool.type
    interfaces, loose = (kind.imports, kind.import_functions) if of == "imports" else (kind.exports, kind.functions)
    names = [f"{interface.name}#{name}" for interface in interfaces for name, _ in interface.functions]
    return (*names, *(name for name, _ in loose))


def _uncallable(tool: PreparedTool) -> list[str]:
    if tool.world != ANY_WORLD:
        return []
    return [
        f"{each.signature.partition(': ')[0]} is no tool: {problem}"
        for each in exported_functions(tool.type)
        if (problem := unsupported(each.type)) is not None  # what a toolchain left behind is none of the author's
    ]


def _denied(imports: tuple[str, ...], asked: Capabilities) -> tuple[str, ...]:
    said = []
    for power, name in capabilities_of(imports).items():
        section = _ASKED.get(power)
        if section is None:
            said.append(f"{name}: no capability file can allow {power}")
        elif getattr(asked, section) is None:
            said.append(f"{name}: the capability file has no section {power}")
    return tuple(said)


def _unused(imports: tuple[str, ...], asked: Capabilities) -> list[str]:
    needed = capabilities_of(imports)
    return [
        f"{power}: it is asked for, and the component imports nothing that uses it"
        for power, section in _ASKED.items()
        if getattr(asked, section) is not None and power not in needed
    ]
