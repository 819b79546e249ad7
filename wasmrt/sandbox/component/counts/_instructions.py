"""Decodes the instructions of one function, to count exactly those that a compiler makes blocks and calls of.

Source: core specification, section 5.4. Instructions of features that the engine has off are not known here.
"""

from __future__ import annotations

from typing import NamedTuple

_BLOCK, _LOOP, _IF, _ELSE, _BR_IF, _BR_TABLE, _SELECT_TYPED = 0x02, 0x03, 0x04, 0x05, 0x0D, 0x0E, 0x1C
_NUMERIC, _BULK, _VECTOR = range(0x45, 0xC5), 0xFC, 0xFD
_TRANSFERS = frozenset((0x0C, 0x10, 0x11, 0x12, 0x13))
"""br, and all calls."""

# How many numbers in LEB128 follow an instruction; else so many bytes.
_LEBS: dict[int, int] = {
    **dict.fromkeys((0x00, 0x01, _ELSE, 0x0B, 0x0F, 0x1A, 0x1B, 0xD1, *_NUMERIC), 0),
    **dict.fromkeys((_BLOCK, _LOOP, _IF, 0x0C, _BR_IF, 0x10, 0x12, *range(0x20, 0x27), 0x3F, 0x40, 0x41, 0x42), 1),
    **dict.fromkeys((0xD0, 0xD2), 1),
    **dict.fromkeys((0x11, 0x13), 2),
}
_BYTES = {0x43: 4, 0x44: 8}
_BULK_LEBS = {**dict.fromkeys(range(8), 0), 8: 2, 9: 1, 10: 2, 11: 1, 12: 2, 13: 1, 14: 2, 15: 1, 16: 1, 17: 1}
_MEMORY = range(0x28, 0x3F)
_VECTOR_MEMORY = frozenset((*range(12), 92, 93))
_VECTOR_LANE_MEMORY = range(84, 92)
_VECTOR_LANES = range(21, 35)
_VECTOR_CONSTANTS = (12, 13)
_MAX_VECTOR = 275


class Control(NamedTuple):
    """Instructions that a function has, by what they become."""

    loops: int
    blocks: int
    """Blocks, loops, ifs, elses and branches on a condition."""
    transfers: int
    """Branches without one, and calls."""


class _UnknownError(Exception):
    """An instruction that is not known here, or that is cut off."""


def count_control(code: bytes) -> Control | None:
    """Count the instructions of a function's body, without its locals; None where one of them is not known.

    SECURITY: whoever is told None has to take every byte for what it could be.
    """
    try:
        return _counted(code)
    except (_UnknownError, IndexError):
        return None


def _counted(code: bytes) -> Control:
    at, size, loops, blocks, transfers = 0, len(code), 0, 0, 0
    known = _LEBS
    while at < size:
        opcode = code[at]
        at += 1
        if opcode in (_BLOCK, _LOOP, _IF, _ELSE, _BR_IF, _BR_TABLE):
            blocks += 1
            loops += opcode == _LOOP
        elif opcode in _TRANSFERS:
            transfers += 1
        lebs = known.get(opcode)
        if lebs is None:
            at, lebs = _special(code, opcode, at)
        while lebs:
            while code[at] > 0x7F:
                at += 1
            at += 1
            lebs -= 1
    if at != size or not code or code[-1] != 0x0B:
        raise _UnknownError
    return Control(loops, blocks, transfers)


def _special(code: bytes, opcode: int, at: int) -> tuple[int, int]:
    """Return where the immediates of a rarer instruction go on, and how many numbers are left of them."""
    if opcode in _MEMORY:
        return _memory(code, at), 0
    if opcode in _BYTES:
        return at + _BYTES[opcode], 0
    if opcode == _BR_TABLE:
        labels, at = _u32(code, at)
        return at, labels + 1
    if opcode == _SELECT_TYPED:
        return _u32(code, at)[::-1]
    if opcode == _BULK:
        kind, at = _u32(code, at)
        if kind in _BULK_LEBS:
            return at, _BULK_LEBS[kind]
    if opcode == _VECTOR:
        return _vector(code, at), 0
    raise _UnknownError


def _vector(code: bytes, at: int) -> int:
    kind, at = _u32(code, at)
    if kind in _VECTOR_MEMORY:
        return _memory(code, at)
    if kind in _VECTOR_LANE_MEMORY:
        return _memory(code, at) + 1
    if kind in _VECTOR_LANES:
        return at + 1
    if kind <= _MAX_VECTOR:
        return at + 16 * (kind in _VECTOR_CONSTANTS)
    raise _UnknownError


def _memory(code: bytes, at: int) -> int:
    """Step over alignment and offset. With its bit 6 the first says that the number of a memory follows."""
    if code[at] >= 0x40:
        raise _UnknownError
    at += 1
    while code[at] > 0x7F:
        at += 1
    return at + 1


def _u32(code: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = code[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
        if shift > 28:
            raise _UnknownError
