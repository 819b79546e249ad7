"""Generate the table of areas from the import-linter contracts in pyproject.toml and the modules' docstrings."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = _ROOT / "wasmrt"


def areas() -> str:
    """Return a table of the areas, the lowest first: name, and first sentence of its docstring."""
    layers = next(contract["layers"] for contract in _contracts() if contract["type"] == "layers")
    rows = ["| | area | what it is |", "|---|---|---|"]
    for number, layer in enumerate(reversed(layers), 1):
        for name in re.split("[|:]", layer):
            area = _PACKAGE / name.strip("() ")
            rows.append(f"| {number} | `{area.name}` | {_sentence(area)} |")
    return "\n".join(rows)


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return contracts


def guest_imports() -> str:
    """Return a sentence with the packages that the guest side must not import."""
    forbidden = next(
        c["forbidden_modules"] for c in _contracts() if c.get("source_modules") == ["wasmrt.sandbox.guest"]
    )
    return f"`guest/` must not import {_spans([_folder(name) for name in forbidden])}."


def _sentence(package: Path) -> str:
    """Return the first sentence of a package's docstring."""
    file = package / "__init__.py"
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    assert docstring, f"{file} has no docstring"
    return re.split(r"(?<=\.)\s", " ".join(docstring.split()), maxsplit=1)[0]


def _folder(pattern: str) -> str:
    """Return the path of an import pattern: a folder for a package, otherwise a file."""
    path = pattern.removesuffix(".**").removesuffix(".*").removeprefix("wasmrt.").replace(".", "/")
    return f"{path}/" if (_PACKAGE / path).is_dir() else f"{path}.py"


def _spans(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
