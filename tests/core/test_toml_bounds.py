"""TOML of third parties is parsed within bounds of time and memory: `tomllib` has none of its own."""

from __future__ import annotations

import tracemalloc

import pytest

from wasmrt.core.limits import MAX_TOML_BYTES, MIB
from wasmrt.core.strict_toml import TomlError, read_toml

ROOM = MAX_TOML_BYTES - 64


def times(text: str, room: int = ROOM) -> str:
    return text * (room // len(text))


def numbered(template: str, count: int) -> str:
    return "\n".join(template.format(n) for n in range(count))


REFUSED = {
    "a long dotted key": ".".join(["a"] * 16_000) + " = 1",
    "a long dotted table": "[" + ".".join(["a"] * 16_000) + "]",
    "a spaced dotted key": " . ".join(['"a"'] * 16_000) + " = 1",
    "a dotted key with a line separator": ".".join(['"\u2028"'] * 16_000) + " = 1",
    "many deep tables": numbered("[a{}.b.c.d.e.f.g.h]", 9_000),
    "many tables": numbered("[t{}]", 20_000),
    "a long number": "a = " + "9" * 100_000,
    "a long hexadecimal number": "a = 0x" + "f" * 100_000,
    "nested arrays": "a = " + "[" * 50_000,
    "too many bytes": "#" * (MAX_TOML_BYTES + 1),
}
ACCEPTED = {
    "keys": numbered("k{} = 1", ROOM // 12),
    "tables": numbered("[t{}]", 9_999),
    "deep tables": numbered("[a{}.b.c.d.e.f.g.h]", 1_400),
    "a dotted key": ".".join(["a"] * 250) + " = 1",
    "many dotted keys": "\n".join(".".join([f"a{n}"] + ["b"] * 240) + " = 1" for n in range(40)),
    "arrays": "a = [" + times("[],") + "]",
    "inline tables": "a = [" + times("{a=1},") + "]",
    "strings": "a = [" + times('"ab",') + "]",
    "a long string": 'a = "' + times("One. ", 1000) + times("x", ROOM - 1100) + '"',
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_toml_over_a_bound_is_refused_before_it_takes_memory(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TomlError):
            read_toml(text.encode())
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.ci("slow")
@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED)
def test_toml_within_the_bounds_takes_less_than_32_mib(text: str) -> None:
    tracemalloc.start()
    try:
        assert read_toml(text.encode())
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
    finally:
        tracemalloc.stop()
