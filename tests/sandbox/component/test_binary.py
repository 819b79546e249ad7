"""The reader of the binary format: hostile bytes raise a typed error, in linear time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.core.errors import ComponentError, InvalidComponentError
from wasmrt.core.limits import MAX_COMPONENT_SECTIONS
from wasmrt.sandbox.component import (
    HEADER,
    Reader,
    check_header,
    doc_comments,
    encode_custom_section,
    encode_section,
    encode_u32,
    producers,
    read_sections,
    read_surface,
)

# Bytes that look like sections more often than random ones do.
SECTIONS = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.builds(encode_section, st.integers(0, 14), st.binary(max_size=40)),
        st.builds(encode_custom_section, st.sampled_from(["producers", "package-docs", "x"]), st.binary(max_size=40)),
    ),
    max_size=6,
).map(b"".join)
STEPS = st.sampled_from(["byte", "u32", "name", "section", "take", "window"])


@settings(max_examples=examples(300))
@given(st.binary(max_size=60), st.lists(st.tuples(STEPS, st.integers(0, 80)), max_size=12))
def test_a_reader_stays_within_its_window_and_raises_one_error(data: bytes, steps: list[tuple[str, int]]) -> None:
    reader = Reader(b"before" + data + b"after", 6, 6 + len(data))
    try:
        for step, size in steps:
            before = reader.at
            result = getattr(reader, step)(*([size] if step in ("take", "window") else []))
            assert before <= reader.at <= reader.end
            if step == "take":
                assert result == data[before - 6 : before - 6 + size]
            if step == "window":
                assert (result.at, result.end) == (before, reader.at)
    except InvalidComponentError as error:
        assert error.message.isprintable()


@given(st.integers(0, 2**32 - 1), st.binary(max_size=4))
def test_encoded_numbers_are_read_back(number: int, rest: bytes) -> None:
    reader = Reader(encode_u32(number) + rest)
    assert reader.u32() == number
    assert reader.left == len(rest)


@pytest.mark.parametrize("encoded", [b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x80\x00"])
def test_a_number_of_more_than_32_bits_or_five_bytes_is_malformed(encoded: bytes) -> None:
    with pytest.raises(InvalidComponentError, match="malformed number"):
        Reader(encoded).u32()


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=300)), max_size=5))
def test_encoded_sections_are_read_back(sections: list[tuple[int, bytes]]) -> None:
    data = HEADER + b"".join(encode_section(kind, content) for kind, content in sections)
    assert [(kind, content.take(content.left)) for kind, content in read_sections(Reader(data))] == sections


def test_the_number_of_sections_is_limited() -> None:
    data = HEADER + bytes(2 * 2**20)  # a million empty custom sections
    seen = 0
    with pytest.raises(InvalidComponentError, match="sections"):
        for _ in read_sections(Reader(data)):
            seen += 1
    assert seen == MAX_COMPONENT_SECTIONS


@settings(max_examples=examples(400))
@given(SECTIONS)
def test_any_bytes_after_a_header_are_read_or_raise_a_component_error(tail: bytes) -> None:
    for whole in (HEADER + tail, HEADER + encode_section(4, HEADER + tail)):
        assert isinstance(doc_comments(whole), dict)
        assert isinstance(producers(whole), dict)
        try:
            read_surface(whole)
        except InvalidComponentError as error:
            assert error.message.isprintable()


@given(st.one_of(st.binary(max_size=12), st.binary(max_size=8).map(lambda tail: (b"\0asm" + tail)[:10])))
def test_any_first_bytes_are_accepted_or_refused_with_a_hint(data: bytes) -> None:
    try:
        check_header(data)
    except ComponentError as error:
        assert error.hint
        assert error.message.isprintable()
    else:
        assert data.startswith(HEADER)


def test_components_nested_a_thousand_deep_are_read_without_recursion() -> None:
    made = encode_custom_section("producers", b"\x01\x08language\x01\x04Rust\x011")
    data = made
    for _ in range(1000):
        data = encode_section(4, HEADER + data)
    assert producers(HEADER + data) == {"language": ["Rust 1"]}


def test_the_total_number_of_nested_sections_is_limited() -> None:
    made = encode_custom_section("producers", b"\x01\x08language\x01\x04Rust\x011")
    inner = HEADER + bytes(2 * (MAX_COMPONENT_SECTIONS // 2))  # so many empty custom sections
    data = HEADER + encode_section(4, inner) + encode_section(4, inner) + made
    assert producers(data) == {}
    assert producers(HEADER + encode_section(4, inner) + made) == {"language": ["Rust 1"]}
