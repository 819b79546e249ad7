"""Reports on built components: tools, imports, requests, and imports that would be denied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wasmrt.authoring.project._project import BuiltTool
from wasmrt.capabilities import BY_SECTION, Capabilities, find_capabilities, uses_section
from wasmrt.capabilities.file import parse
from wasmrt.capabilities.sentences import explain, review
from wasmrt.catalog.find import described_by_sidecar
from wasmrt.catalog.validator import WasmValidator, refuse_broken_schemas
from wasmrt.core.component_bytes import ComponentBytes
from wasmrt.runtime.prepared import PreparedTool
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.component import functions_by_interface, qualified_names, worlds
from wasmrt.sandbox.schema.wit import explain_unsupported, exported_functions


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """A report on a component that can run in this version of wasmrt."""

    size_bytes: int
    world: str
    described: tuple[BuiltTool, ...]
    imports: tuple[str, ...]
    """The names of the imports, as `interface#function`."""
    exports: tuple[str, ...]
    asks: tuple[str, ...]
    """The requests of the component's capability file, as sentences."""
    denied: tuple[str, ...]
    """The imports that will always be denied."""
    warnings: tuple[str, ...]

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.described)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        names = ("tools" if name == "described" else name for name in self.__slots__)
        values = ((name, getattr(self, name)) for name in names)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


def check_build(
    runtime: WasmToolRuntime, name: str, data: bytes, sidecar: bytes | None, *, imports_wasi: bool
) -> BuildReport:
    """Validate a component and compare its imports with the requests of its capability file.

    `imports_wasi` means that the language's runtime imports WASI, so these imports do not show what the tool uses.

    Raises:
        ComponentError: the component cannot run in this version of wasmrt.
        CapabilityFileError: the capability file is not valid.
        MemoryLimitError: the component needs more memory to start than the limit that its capability file requests.
    """
    result = WasmValidator().validate(data)
    result.raise_first()
    file = None if sidecar is None else parse(sidecar)
    request = Capabilities.none() if file is None else file.capabilities
    described = described_by_sidecar(name, ComponentBytes(data), None if sidecar is None else sidecar.decode())
    tool = runtime.prepare(name, data, request, tools=described)
    refuse_broken_schemas(tool.schema_problems)
    imports = _list_functions(tool, of="imports")
    chosen = tuple(each for each in imports if not (imports_wasi and each.startswith("wasi:")))
    denied = _find_denied(chosen, request)
    of_file = [] if file is None else [f"{each.path}: {each.message}" for each in review(file)]
    unused = [] if file is None else _warn_about_unused(imports, request)
    return BuildReport(
        size_bytes=len(data),
        world=tool.world,
        described=tuple(BuiltTool(spec.name, spec.description) for spec in tool.tools),
        imports=imports,
        exports=_list_functions(tool, of="exports"),
        asks=explain(request),
        denied=denied,
        warnings=(*result.warnings, *tool.problems, *_warn_about_uncallable(tool), *of_file, *unused),
    )


def _list_functions(tool: PreparedTool, *, of: str) -> tuple[str, ...]:
    kind = tool.type
    interfaces, loose = (kind.imports, kind.import_functions) if of == "imports" else (kind.exports, kind.functions)
    found = functions_by_interface(interfaces, loose)
    return tuple(qualified_names({name: functions for name, functions in found.items() if functions}))


def _warn_about_uncallable(tool: PreparedTool) -> list[str]:
    if tool.world != worlds.GENERIC_WORLD:
        return []
    return [
        f"{each.signature.partition(': ')[0]} is not a tool: {problem}"
        for each in exported_functions(tool.type)
        if (problem := explain_unsupported(each.type)) is not None  # the toolchain's own functions need no warning
    ]


def _find_denied(imports: tuple[str, ...], request: Capabilities) -> tuple[str, ...]:
    denied = []
    for capability, name in find_capabilities(imports).items():
        if capability not in BY_SECTION:
            denied.append(f"{name}: no capability file can allow {capability}")
        elif request.section(BY_SECTION[capability].replaces) is not None and _is_imported_completely(name, imports):
            continue
        elif request.section(capability) is None and not _is_replaced(capability, name, request):
            denied.append(f"{name}: the capability file has no section {capability}")
    return tuple(denied)


def _is_imported_completely(name: str, imports: tuple[str, ...]) -> bool:
    """Return whether all functions of an interface are imported. Some toolchains import all, even if few are called."""
    interface = name.partition("#")[0]
    return {f"{interface}#{function}" for function in worlds.signatures(interface)} <= {*imports}


def _is_replaced(capability: str, name: str, request: Capabilities) -> bool:
    return any(part.replaces == capability and uses_section(part.section, [name]) for part in request.parts)


def _warn_about_unused(imports: tuple[str, ...], request: Capabilities) -> list[str]:
    return [
        f"{capability}: requested, but none of the component's imports uses it"
        for capability in BY_SECTION
        if request.section(capability) is not None and not uses_section(capability, imports)
    ]
