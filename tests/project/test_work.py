"""Every loop and C call over untrusted data is listed in work.txt with its bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import wasmrt

_LIST = Path(__file__).with_name("work.txt")
_CODE = Path(wasmrt.__file__).parent
_CHECKED_FILES = (
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
    "core/large_json.py",
    "core/names.py",
    "core/strict_json.py",
)
_IN_C = frozenset(
    (
        *("decompress", "loads", "raw_decode", "finditer", "findall", "sub", "subn", "a2b_base64", "fromhex"),
        *("a85encode", "b85encode", "normalize", "Match", "getaddrinfo", "recv", "next_event"),
    )
)
"""Methods and functions that process their argument in one C call."""
_BOUNDS = frozenset(["check", "decode-budget", "work-budget", "deadline", "capped", "short", "shared", "operator"])


def _read_list() -> dict[str, str]:
    """Return the listed bounds by `file:function`."""
    listed: dict[str, str] = {}
    file = ""
    for line in _LIST.read_text().splitlines():
        if line.startswith(" "):
            name, bound = line.split()
            listed[f"{file}:{name}"] = bound
        elif line and not line.startswith("#"):
            file = line
    return listed


def _files() -> Iterator[Path]:
    for name in _CHECKED_FILES:
        path = _CODE / name
        yield from [path] if path.is_file() else path.rglob("*.py")


def _processes_data(function: ast.AST) -> bool:
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
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _processes_data(node)
    }


@pytest.mark.ci("slow")
def test_every_loop_and_c_call_over_untrusted_data_is_listed_with_its_bound() -> None:
    listed = _read_list()
    assert set(listed) == _in_code()
    assert set(listed.values()) == _BOUNDS
