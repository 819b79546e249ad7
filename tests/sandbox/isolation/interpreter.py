"""A small interpreter of seccomp's classic BPF, to check filters without installing them."""

from __future__ import annotations

from struct import iter_unpack, pack, unpack_from

X86_64 = 0xC000003E
AARCH64 = 0xC00000B7


def verdict(program: bytes, number: int, *arguments: int, architecture: int = X86_64) -> int:
    """The action that the filter gives a call."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = pack("=iIQ6Q", number - (1 << 32) if number >> 31 else number, architecture, 0, *values)
    instructions = list(iter_unpack("=HBBI", program))
    place, accumulator = 0, 0
    while True:
        code, yes, no, operand = instructions[place]
        place += 1
        match code:
            case 0x20:
                (accumulator,) = unpack_from("=I", data, operand)
            case 0x54:
                accumulator &= operand
            case 0x05:
                place += operand
            case 0x15:
                place += yes if accumulator == operand else no
            case 0x35:
                place += yes if accumulator >= operand else no
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"instruction {code:#x}")
