"""Decode the instructions of a function, to count its blocks, branches and calls exactly.

Source: core specification, section 5.4. Instructions of features that are disabled in the engine are not supported.
"""

from __future__ import annotations

from typing import NamedTuple

_BLOCK, _LOOP, _IF, _ELSE, _BR_IF, _BR_TABLE, _SELECT_TYPED = 0x02, 0x03, 0x04, 0x05, 0x0D, 0x0E, 0x1C
_NUMERIC, _BULK, _VECTOR = range(0x45, 0xC5), 0xFC, 0xFD
_TRANSFERS = frozenset((0x0C, 0x10, 0x11, 0x12, 0x13))
"""The opcodes of br and of all calls."""

# The number of LEB128 immediates of each instruction. `_BYTES` has the number of immediate bytes instead.
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
    """The counts of a function's control instructions."""

    loops: int
    blocks: int
    """The number of blocks, loops, ifs, elses and conditional branches."""
    transfers: int
    """The number of unconditional branches and calls."""


class _UnknownError(Exception):
    """An instruction is unknown or truncated."""


def count_control(code: bytes) -> Control | None:
    """Count the control instructions in `code`, a function's body without its locals.

    Return None if an instruction is unknown or truncated.

    SECURITY: if the result is None, the caller must assume the worst case for every byte.
    """
    try:
        return _count(code)
    except (_UnknownError, IndexError):
        return None


def _count(code: bytes) -> Control:
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
            at, lebs = _skip_special(code, opcode, at)
        while lebs:
            while code[at] > 0x7F:
                at += 1
            at += 1
            lebs -= 1
    if at != size or not code or code[-1] != 0x0B:
        raise _UnknownError
    return Control(loops, blocks, transfers)


def _skip_special(code: bytes, opcode: int, at: int) -> tuple[int, int]:
    """Skip the immediates of a rare instruction. Trailing immediates that are LEB128 numbers are not skipped.

    Return the offset after the skipped immediates, and the number of LEB128 immediates that follow.
    """
    if opcode in _MEMORY:
        return _skip_memory(code, at), 0
    if opcode in _BYTES:
        return at + _BYTES[opcode], 0
    if opcode == _BR_TABLE:
        labels, at = _read_u32(code, at)
        return at, labels + 1
    if opcode == _SELECT_TYPED:
        return _read_u32(code, at)[::-1]
    if opcode == _BULK:
        kind, at = _read_u32(code, at)
        if kind in _BULK_LEBS:
            return at, _BULK_LEBS[kind]
    if opcode == _VECTOR:
        return _skip_vector(code, at), 0
    raise _UnknownError


def _skip_vector(code: bytes, at: int) -> int:
    kind, at = _read_u32(code, at)
    if kind in _VECTOR_MEMORY:
        return _skip_memory(code, at)
    if kind in _VECTOR_LANE_MEMORY:
        return _skip_memory(code, at) + 1
    if kind in _VECTOR_LANES:
        return at + 1
    if kind <= _MAX_VECTOR:
        return at + 16 * (kind in _VECTOR_CONSTANTS)
    raise _UnknownError


def _skip_memory(code: bytes, at: int) -> int:
    """Skip an alignment and an offset. Bit 6 of the alignment is rejected: it means that a memory index follows."""
    if code[at] >= 0x40:
        raise _UnknownError
    at += 1
    while code[at] > 0x7F:
        at += 1
    return at + 1


def _read_u32(code: bytes, at: int) -> tuple[int, int]:
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
