from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wasmrt
from tests.tiers import examples
from wasmrt.sandbox.component import producers

TOOLS = Path(wasmrt.__file__).parent / "catalog/shipped"


def text(value):
    return bytes([len(value)]) + value.encode()


def section(kind, body):
    return bytes([kind, len(body)]) + body


MADE = text("producers") + b"\x01" + text("language") + b"\x01" + text("Rust") + text("1.95")


@pytest.mark.parametrize(
    "component",
    [
        b"\0asm\x0d\0\x01\0" + section(0, MADE),
        b"\0asm\x0d\0\x01\0" + section(1, b"\0asm\x01\0\0\0" + section(0, MADE)),
        b"\0asm\x0d\0\x01\0" + section(4, b"\0asm\x0d\0\x01\0" + section(0, MADE)),
    ],
    ids=["at the top", "in a module", "in a component inside"],
)
def test_producers_are_read_at_any_depth(component):
    assert producers(component) == {"language": ["Rust 1.95"]}


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_without_an_error(data):
    assert isinstance(producers(b"\0asm\x0d\0\x01\0" + data), dict)


@pytest.mark.parametrize("cut", range(0, 2000, 171))
def test_truncated_components_are_read_to_their_end(cut):
    assert isinstance(producers((TOOLS / "echo.wasm").read_bytes()[: -cut or None]), dict)
