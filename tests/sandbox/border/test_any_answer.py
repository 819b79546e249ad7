"""Results and failures of plain functions with any type become a result or a typed error."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sandbox.border.worlds import Memory, plain_function
from tests.tiers import examples
from wasmrt import ToolError, WasmRuntimeConfig, WasmToolRuntime

NAMES = ["kind", "code", "message", "tag", "value", "error", "input", "ok"]
FAILURES = [["kind", "message"], ["kind", "code", "message"]]
FORMS = ["scalar", "list", "option", "result", "tuple", "record", "record", "variant", "enum"]
SCALARS = ["bool", "u8", "s16", "u32", "s64", "float32", "float64", "char", "string"]


@pytest.fixture(scope="module")
def runtime() -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig(isolation="in-process", cache_compiled=False)) as runtime:
        yield runtime


@st.composite
def types(draw: st.DrawFn) -> tuple[dict[str, str], str, str]:
    """Named types in order, and two of which any of them may be a part."""
    named: dict[str, str] = {}

    def kind(depth: int, form: str = "") -> str:
        form = form or (draw(st.sampled_from(FORMS)) if depth else "scalar")
        if form == "scalar":
            return draw(st.sampled_from(SCALARS))
        if form in ("list", "option"):
            return f"({form} {kind(depth - 1)})"
        if form == "result":
            return f"(result {kind(depth - 1)} (error {kind(depth - 1)}))"
        if form == "tuple":
            return f"(tuple {kind(depth - 1)} {kind(depth - 1)})"
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
        part = {"record": "field", "variant": "case"}.get(form)
        inside = [f'"{name}"' for name in names]
        if part is not None:
            bare = [part == "case" and draw(st.booleans()) for _ in names]
            kinds = ["" if empty else kind(depth - 1) for empty in bare]
            inside = [f"({part} {name} {of})" for name, of in zip(inside, kinds, strict=True)]
        text = f"({form} {' '.join(inside)})"
        name = "t" + "abcdefghijklmnopqrstuvwxyz"[len(named)]
        named[name] = text
        return f"${name}"

    if draw(st.booleans()):
        return named, kind(2), kind(2)
    names = draw(st.sampled_from(FAILURES))
    kinds = ["string" if name == "kind" and draw(st.booleans()) else kind(draw(st.integers(0, 1))) for name in names]
    fields = [f'(field "{name}" {of})' for name, of in zip(names, kinds, strict=True)]
    named["failure"] = f"(record {' '.join(fields)})"
    return named, kind(2), "$failure"


WORDS = [(0,), (1,), (2,), (8192, 5), (8192, 5), (8192, 1), (0x6B,), (0x7FC00000,), (2**32 - 1,)]
"""Numbers, and where `input` lies in memory and how long it is."""


def led(parts: list[tuple[int, ...]]) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """The same parts, or as often behind the word `input`, which is a kind of failure."""
    return st.sampled_from([parts, [(8192, 5), *parts]])


@settings(max_examples=examples(200), deadline=None)
@given(types(), st.booleans(), st.lists(st.sampled_from(WORDS), max_size=8).flatmap(led))
def test_results_of_any_type_are_returned_or_become_typed_errors(
    runtime: WasmToolRuntime, kinds: tuple[dict[str, str], str, str], fails: bool, parts: list[tuple[int, ...]]
) -> None:
    def words(memory: Memory) -> bytes:
        assert memory.put(b"input") == 8192
        return struct.pack("<I", fails) + b"".join(struct.pack(f"<{len(part)}I", *part) for part in parts)

    named, success, failure = kinds
    tool = runtime.prepare("any", plain_function(named, f"(result {success} (error {failure}))", words))
    try:
        assert isinstance(tool.execute({}).raw, str)
    except ToolError as error:
        assert error.code != "internal", error
