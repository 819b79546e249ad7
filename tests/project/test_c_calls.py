"""Every C call over untrusted bytes in the host is listed in c_calls.txt, and measured at its bound.

Such a call holds the GIL until it ends, so that no other thread runs meanwhile, and no deadline is checked.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import wasmrt
from tests.project.c_call_cases import GROWTH_MIB, LATE_MS, Measure

_LIST = Path(__file__).with_name("c_calls.txt")
_CODE = Path(wasmrt.__file__).parent
_IN_C = frozenset(
    (
        *("loads", "raw_decode", "parse_json", "read_json", "StepReader", "read_toml", "literal_eval"),
        *("is_valid", "iter_errors", "validate", "validator_for", "validate_python", "validate_json", "model_validate"),
        *("b64decode", "urlsafe_b64decode", "b32decode", "b85decode", "a2b_base64", "a2b_hex", "unhexlify", "fromhex"),
        *("normalize", "decompress", "ZipFile", "receive_data", "next_event", "PyJWK", "Match"),
        *("fromstring", "getaddrinfo", "safe_load", "SafeLoader", "_Body"),
    )
)
"""Functions and methods that process their argument in one C call, or pass it to one."""
_QUALIFIED = frozenset({"ast.parse", "parser.parse", "jwt.decode", "html.unescape", "re2.compile"})
_MAY_CALL = (*(f"{name}(" for name in _IN_C), *_QUALIFIED)
_WITHOUT_CASE = frozenset({"own", "worker", "short", "releases"})


def _read_list() -> dict[str, str]:
    """Return the listed classes by `file function call`."""
    listed: dict[str, str] = {}
    file = ""
    for line in _LIST.read_text().splitlines():
        if line.startswith(" "):
            function, call, kind = line.split(maxsplit=2)
            assert f"{file} {function} {call}" not in listed, f"{file} {line}: listed twice"
            listed[f"{file} {function} {call}"] = kind
        elif line and not line.startswith("#"):
            file = line
    return listed


def _calls_in(node: ast.AST, function: str = "") -> Iterator[tuple[str, str]]:
    """Yield the qualified name of each function, and the name that it calls."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{function}.{child.name}".lstrip(".")
        elif isinstance(child, ast.Call):
            name = _name_of(child.func)
            if name in _QUALIFIED or name.rpartition(".")[2] in _IN_C:
                yield function or "<module>", name.rpartition(".")[2]
        yield from _calls_in(child, inner)


def _name_of(called: ast.expr) -> str:
    """Return `name`, `owner.name` or `.name`."""
    if isinstance(called, ast.Attribute):
        return f"{called.value.id if isinstance(called.value, ast.Name) else ''}.{called.attr}"
    return called.id if isinstance(called, ast.Name) else ""


def _in_code() -> set[str]:
    found = set()
    for path in _CODE.rglob("*.py"):
        text = path.read_text()
        if any(each in text for each in _MAY_CALL):  # parsing every file takes seconds
            file = path.relative_to(_CODE).as_posix()
            found |= {f"{file} {function} {name}" for function, name in _calls_in(ast.parse(text))}
    return found


def _case_names() -> list[str]:
    return sorted(
        {kind for kind in _read_list().values() if kind not in _WITHOUT_CASE and not kind.startswith("within ")}
    )


@pytest.mark.ci("slow")
def test_every_c_call_is_listed_with_its_case() -> None:
    assert set(_read_list()) == _in_code()


def test_every_call_within_a_reader_names_a_case() -> None:
    within = {kind.removeprefix("within ") for kind in _read_list().values() if kind.startswith("within ")}
    assert within <= set(_case_names())


def _measure(name: str) -> list[Measure]:
    """Measure a case in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.project.c_call_cases", name],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [Measure(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.ci("slow")
@pytest.mark.parametrize("name", _case_names())
def test_a_call_at_its_bound_delays_no_other_thread_and_takes_little_memory(name: str) -> None:
    measured = _measure(name)
    for _ in range(2):  # the best of three: a thread may also wait for other load
        if any(each.late_ms > LATE_MS for each in measured):
            again = _measure(name)
            measured = [min(pair, key=lambda each: each.late_ms) for pair in zip(measured, again, strict=True)]
    assert [each for each in measured if each.late_ms > LATE_MS or each.growth_mib > GROWTH_MIB] == []
    assert [each for each in measured if each.outcome not in ("accepted", "refused")] == []
    assert [each for each in measured if each.is_over and each.outcome != "refused"] == []
    assert any(each.outcome == "accepted" for each in measured)


@pytest.mark.ci("slow")
def test_the_measure_detects_a_long_call_and_much_memory() -> None:
    (text,) = _measure("control")
    assert text.late_ms > LATE_MS
    assert text.growth_mib > GROWTH_MIB
