"""Work over outside data is a list on paper: it grows only together with a decision about what bounds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import wasmrt

_LIST = Path(__file__).with_name("work.txt")
_CODE = Path(wasmrt.__file__).parent
_LOOKED_AT = (
    "agent/approvals",
    "agent/builtin/memory_tools.py",
    "sandbox/component",
    "egress/leaks",
    "egress/gateway",
    "egress/proxy",
    "agent/safety",
    "egress/oauth",
    "egress/rates",
    "runtime/call",
    "agent/builtin/memory",
    "core/names.py",
    "core/strict_json.py",
)
_IN_C = frozenset(
    (
        *("decompress", "loads", "raw_decode", "finditer", "findall", "sub", "subn", "a2b_base64", "fromhex"),
        *("a85encode", "b85encode", "normalize", "Match", "getaddrinfo", "recv", "next_event"),
    )
)
"""Methods and functions that take their argument in one step, as they are called."""
_BOUNDS = frozenset(["check", "decode-budget", "work-budget", "deadline", "capped", "short", "shared", "operator"])


def _on_paper() -> dict[str, str]:
    """From `file:function` to its bound."""
    decided: dict[str, str] = {}
    file = ""
    for line in _LIST.read_text().splitlines():
        if line.startswith(" "):
            name, bound = line.split()
            decided[f"{file}:{name}"] = bound
        elif line and not line.startswith("#"):
            file = line
    return decided


def _files() -> Iterator[Path]:
    for name in _LOOKED_AT:
        path = _CODE / name
        yield from [path] if path.is_file() else path.rglob("*.py")


def _works(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.While)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _IN_C)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _IN_C)
        for node in ast.walk(function)
    )


def _in_code() -> set[str]:
    return {
        f"{file.relative_to(_CODE).as_posix()}:{node.name}"
        for file in _files()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _works(node)
    }


def test_every_loop_and_c_call_over_outside_data_is_listed_with_what_bounds_it() -> None:
    decided = _on_paper()
    assert set(decided) == _in_code()
    assert set(decided.values()) == _BOUNDS
