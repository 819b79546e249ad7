"""The decoder of instructions counts exactly, or returns None."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wasmrt
from wasmrt.authoring.project import find_wasm_tools
from wasmrt.core.errors import MissingToolchainError
from wasmrt.sandbox.component.counts._instructions import Control, count_control

TOOLS = sorted((Path(wasmrt.__file__).parent / "catalog/shipped").glob("*.wasm"))
_ASKED = re.compile(r"(block|loop|if|else|br_if|br_table|br|call|call_indirect|return_call|return_call_indirect)\b")
_TRANSFERS = ("br", "call", "call_indirect", "return_call", "return_call_indirect")


def sections(data: bytes, at: int) -> list[tuple[int, bytes]]:
    found = []
    while at < len(data):
        size, start = number(data, at + 1)
        found.append((data[at], data[start : start + size]))
        at = start + size
    return found


def number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def functions(component: bytes) -> list[bytes]:
    """The code of every function of a component's modules, without its locals, as they come."""
    found = []
    for kind, module in sections(component, 8):
        if kind == 1:
            for own, content in sections(module, 8):
                if own == 10:
                    found += bodies(content)
        elif kind == 4:
            found += functions(module)
    return found


def bodies(content: bytes) -> list[bytes]:
    count, at = number(content, 0)
    found = []
    for _ in range(count):
        size, at = number(content, at)
        groups, start = number(content, at)
        for _ in range(groups):
            start = number(content, start)[1] + 1
        found.append(content[start : at + size])
        at += size
    return found


@pytest.mark.ci("slow")
@pytest.mark.parametrize("path", TOOLS, ids=lambda path: path.stem)
def test_counts_match_the_output_of_wasm_tools(path: Path, tmp_path: Path) -> None:
    try:
        tools = find_wasm_tools()
    except MissingToolchainError as error:
        pytest.skip(str(error))
    tools.run("print", str(path), "-o", str(tmp_path / "printed.wat"), cwd=tmp_path)
    printed = {"loop": 0, "block": 0, "transfer": 0}
    for line in (tmp_path / "printed.wat").read_text().split("\n"):
        if line.startswith("      ") and (word := _ASKED.match(line.strip())) is not None:
            printed["transfer" if word[1] in _TRANSFERS else "block"] += 1
            printed["loop"] += word[1] == "loop"
    counted = [count_control(code) for code in functions(path.read_bytes())]
    known = [each for each in counted if each is not None]
    assert len(known) == len(counted) > 0
    total = Control(*map(sum, zip(*known, strict=True)))
    assert total == Control(printed["loop"], printed["block"], printed["transfer"])


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise_or_exceed_the_possible_counts(code: bytes) -> None:
    found = count_control(code)
    if found is not None:
        assert found.loops <= found.blocks and found.blocks + found.transfers <= len(code)


@pytest.mark.parametrize(
    "code",
    [
        b"", b"\x01", b"\x0b\x02", b"\xff\x0b", b"\x14\x00\x0b", b"\x43\x00\x0b", b"\xfc\x12\x0b", b"\xfd\x94\x02\x0b",
        b"\x1f\x40\x00\x0b", b"\x28\x40\x00\x00\x0b", b"\xfd\x00\x40\x00\x00\x0b", b"\x41\x80\x80\x80",
        b"\x0e\xff\xff\xff\xff\xff\x0f\x0b",
    ],
)  # fmt: skip
def test_unknown_instructions_are_not_counted(code: bytes) -> None:
    assert count_control(code) is None
