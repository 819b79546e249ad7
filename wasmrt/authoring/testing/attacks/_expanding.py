"""Components of a few kilobytes that ask the compiler for gigabytes: refused by their counts, before it sees them."""

from __future__ import annotations

from collections.abc import Iterable

from wasmrt.core.limits import MAX_FUNCTION_BRANCHES
from wasmrt.sandbox.component import COMPONENT, CORE_MODULE, HEADER, encode_section, encode_u32

_MODULE = b"\0asm\1\0\0\0"
_I32 = b"\x7f"
_END = b"\x0b"


def doubling(depth: int) -> bytes:
    """Return a component that has two instances of a component that has two instances, and so on."""
    component = HEADER + encode_section(CORE_MODULE, _MODULE) + encode_section(2, _list([b"\0\0\0"]))
    for _ in range(depth):
        component = HEADER + encode_section(COMPONENT, component) + encode_section(5, _list([b"\0\0\0"] * 2))
    return component


def locals_in_loops(count: int) -> bytes:
    """Return a component whose one function has as many locals as loops, each within the one before."""
    used = b"".join(b"\x20" + encode_u32(number) + b"\x21" + encode_u32(number) for number in range(count))
    return _function(b"\x03\x40" * count + used + _END * count, count)


def locals_in_branches(count: int) -> bytes:
    """Return a component whose one function has as many locals as branches, each of which sets one."""
    sets = b"".join(b"\x20\0\x04\x40\x41\1\x21" + encode_u32(number) + _END for number in range(count))
    return _function(sets + b"".join(b"\x20" + encode_u32(number) + b"\x1a" for number in range(count)), count)


def nested_loops(count: int) -> bytes:
    """Return a component whose one function is nothing but loops within loops."""
    return _function(b"\x03\x40" * count + _END * count)


def wide_calls(width: int, count: int) -> bytes:
    """Return a component whose one function calls one that gives as many values as it takes."""
    types = [_type(0, 0), _type(0, width), _type(width, width)]
    caller = _body(b"\x10\0" + b"\x10\2" * count + b"\0")
    return _module(types, [1, 0, 2], [_body(b"\0"), caller, _body(b"\0")])


def many_calls() -> bytes:
    """Return a component whose one function keeps the answers of more calls than any honest one makes."""
    count = MAX_FUNCTION_BRANCHES + 1
    caller = _body(b"\x10\0" * count + b"\x6a" * (count - 1) + b"\x1a")
    return _module([_type(0, 0), _type(0, 1)], [1, 0], [_body(b"\0"), caller])


def empty_sections(count: int) -> bytes:
    """Return a component of custom sections without a name or content."""
    return HEADER + b"\0\1\0" * count


def _function(code: bytes, locals_count: int = 0) -> bytes:
    return _module([_type(0, 0)], [0], [_body(code, locals_count)])


def _module(types: list[bytes], functions: list[int], bodies: list[bytes]) -> bytes:
    module = _MODULE + encode_section(1, _list(types)) + encode_section(3, _list(map(encode_u32, functions)))
    return HEADER + encode_section(CORE_MODULE, module + encode_section(10, _list(bodies)))


def _body(code: bytes, locals_count: int = 0) -> bytes:
    declared = _list([encode_u32(locals_count) + _I32] if locals_count else [])
    return encode_u32(len(declared + code + _END)) + declared + code + _END


def _type(takes: int, gives: int) -> bytes:
    return b"\x60" + encode_u32(takes) + _I32 * takes + encode_u32(gives) + _I32 * gives


def _list(items: Iterable[bytes]) -> bytes:
    each = list(items)
    return encode_u32(len(each)) + b"".join(each)
