"""Write a project's wrapper: modules that call the tool's functions, and report their exceptions and wrong results.

Toolchains of interpreted languages end the guest without a reason in both cases. The wrapper knows the exported
functions and their types from the project's WIT.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from wasmrt.authoring.project._project import Project
from wasmrt.authoring.project._template import Template, fill, world_text
from wasmrt.authoring.project._wasm_tools import WasmTools
from wasmrt.core.errors import BuildError

WRAPPER = "_wrapper"
"""The folder of the wrapper, in the project's build folder."""
_WORLD = "tool"
_LOG_PACKAGE = "wasmrt:tool@0.1.0"
_RANDOM_PACKAGE = "wasi:random@0.2.0"
_RANDOM_WIT = "package wasi:random@0.2.0;\n\ninterface random {\n    get-random-u64: func() -> u64;\n}\n"
_WRAPPED_WORLD = """package wasmrt:wrapper;

world wrapped-tool {{
    include {world};
    import wasmrt:tool/log@0.1.0;
    import wasi:random/random@0.2.0;
}}
"""


def write_wrapper(project: Project, template: Template, wasm_tools: WasmTools, values: Mapping[str, str]) -> None:
    """Write the template's wrapper modules, and a WIT with the imports that they use, into the build folder.

    Raises:
        BuildError: the project's WIT is not valid or has no world `tool`, or a file cannot be read or written.
    """
    wit = wasm_tools.resolve_wit(project.wit.parent)
    world = next((world for world in reversed(wit["worlds"]) if world["name"] == _WORLD), None)
    if world is None:
        raise BuildError(f"wit/tool.wit has no world {_WORLD}", hint=f"rename the component's world to {_WORLD}")
    packages = [package["name"] for package in wit["packages"]]
    exports = _list_exports(wit, world)
    folder = project.build / WRAPPER
    try:
        filled = dict(values) | {
            "exports": _escape_json(exports),
            "types": _escape_json([{"name": kind["name"], "kind": kind["kind"]} for kind in wit["types"]]),
            "bindings": "\n".join(_bind(*export) for export in exports),
            "edit": template.edit,
            "text": _escape_json((project.folder / template.edit).read_text(encoding="utf-8", errors="replace")),
            "source": f"../../{template.edit}",
        }
        if folder.is_symlink() or folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        for source in template.wrapper:
            (folder / source.name).write_text(fill(source.read_text(encoding="utf-8"), filled), encoding="utf-8")
        _write_wit(project, wasm_tools, folder / "wit", packages[world["package"]], set(packages))
    except OSError as error:
        raise BuildError(f"the wrapper cannot be written to the build folder ({error.strerror})") from error


def _escape_json(value: Any) -> str:
    """Return the JSON of a value, escaped so that it can be put between the quotes of a Python or JavaScript string."""
    return json.dumps(json.dumps(value))[1:-1]


def _list_exports(wit: Mapping[str, Any], world: Mapping[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
    """Return the exported functions with the types of their results, by interface; None for the world itself."""
    exports: list[tuple[str | None, dict[str, Any]]] = []
    own: dict[str, Any] = {}
    for key, item in world["exports"].items():
        if "function" in item:
            own |= _list_functions({key: item["function"]})
        elif "interface" in item:
            interface = wit["interfaces"][item["interface"]["id"]]
            exports.append((interface["name"] or key, _list_functions(interface["functions"])))
    return [*exports, (None, own)] if own else exports


def _list_functions(functions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: function.get("result") for name, function in functions.items() if function["kind"] == "freestanding"}


def _bind(interface: str | None, functions: Mapping[str, Any]) -> str:
    """Return the JavaScript that exports a wrapped interface, or the wrapped functions of the world."""
    wrapped = (
        {interface: f"wrapInterface({json.dumps(interface)}, {json.dumps(functions)})"}
        if interface is not None
        else {name: f"wrapFunction({json.dumps(name)}, {json.dumps(result)})" for name, result in functions.items()}
    )
    lines = []
    for name, expression in wrapped.items():
        head, *rest = name.split("-")
        exported = head + "".join(word[:1].upper() + word[1:] for word in rest)
        lines.append(f"const wrapped_{exported} = {expression};\nexport {{ wrapped_{exported} as {exported} }};")
    return "\n".join(lines)


def _write_wit(project: Project, wasm_tools: WasmTools, folder: Path, package: str, packages: set[str]) -> None:
    """Write a WIT whose world `wrapped-tool` is the project's world with the wrapper's own imports.

    `package` is the package of the project's world, `packages` are all packages that the project's WIT contains.
    """
    with TemporaryDirectory(prefix="wasmrt-wit-") as temporary:
        printed = Path(temporary, "wit")
        wasm_tools.run("component", "wit", project.wit.parent.absolute(), "--out-dir", printed, cwd=Path(temporary))
        texts = {path.name: path.read_text(encoding="utf-8") for path in printed.rglob("*.wit")}
    own = {_LOG_PACKAGE: world_text(), _RANDOM_PACKAGE: _RANDOM_WIT}
    texts |= {f"own-{index}.wit": text for index, (name, text) in enumerate(own.items()) if name not in packages}
    (folder / "deps").mkdir(parents=True)
    for name, text in texts.items():
        (folder / "deps" / name).write_text(text, encoding="utf-8")
    path, at, version = package.partition("@")
    wrapped = _WRAPPED_WORLD.format(world=f"{path}/{_WORLD}{at}{version}")
    (folder / "wrapped.wit").write_text(wrapped, encoding="utf-8")
