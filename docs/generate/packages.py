"""The drawing of the packages, from the import-linter contracts in pyproject.toml and the modules' docstrings."""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "wasmrt"
_WIDTH = 88


def drawing() -> str:
    """Draw the layers, the top one first: number, package or module, and its first sentence."""
    layers = next(contract["layers"] for contract in _contracts() if contract["type"] == "layers")
    lines = []
    for number, layer in zip(range(len(layers), 0, -1), layers, strict=True):
        names = [name.strip("() ") for name in re.split("[|:]", layer)]
        for name in names:
            shown = str(number) if name == names[0] else ""
            lines += _row(shown, name, _PACKAGE / name)
            lines += (row for part in _parts(name) for row in _row("", f"  {part.name}", part))
    return "```text\n" + "\n".join(lines) + "\n```"


def external_rules() -> str:
    """List which of our packages may import which libraries, a row for each rule."""
    rows = ["| rule | libraries | only in |", "|---|---|---|"]
    for contract in _contracts():
        if contract["type"] == "forbidden" and not all(m.startswith("wasmrt") for m in contract["forbidden_modules"]):
            allowed = {pair.partition(" -> ")[0] for pair in contract.get("ignore_imports", ())}
            folders = sorted({_folder(name) for name in allowed})
            rows.append(f"| {contract['name']} | {_spans(contract['forbidden_modules'])} | {_spans(folders)} |")
    return "\n".join(rows)


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def border() -> str:
    """Name what the guest's side may not import."""
    forbidden = next(
        c["forbidden_modules"] for c in _contracts() if c.get("source_modules") == ["wasmrt.sandbox.guest"]
    )
    return f"`guest/` may import none of {_spans([_folder(name) for name in forbidden])}."


def _parts(name: str) -> Iterator[Path]:
    folders = (path.parent for path in (_PACKAGE / name).glob("*/__init__.py"))
    return iter(sorted(folders))


def _row(number: str, name: str, module: Path) -> list[str]:
    first, *more = textwrap.wrap(_sentence(module), _WIDTH)
    return [f"{number:>2}  {name:<15} {first}", *(" " * 20 + line for line in more)]


def _sentence(module: Path) -> str:
    """Return the first sentence of a module's docstring."""
    file = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, f"{file} has no docstring"
    return re.split(r"(?<=\.)\s", " ".join(docstring.split()), maxsplit=1)[0]


def _folder(pattern: str) -> str:
    """`wasmrt.sandbox.guest.engine.**` as `guest/engine/`, a module as its file."""
    path = pattern.removesuffix(".**").removesuffix(".*").removeprefix("wasmrt.").replace(".", "/")
    return f"{path}/" if (_PACKAGE / path).is_dir() else f"{path}.py"


def _spans(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
