"""What WIT values look like in Python, and the constants both directions of the codec share.

bool, integers, floats and strings are themselves; `char` is a string of one; `list<u8>` is bytes, other lists are
lists; records are dicts keyed by WIT field names; tuples are tuples; enums are strings; flags are frozensets; an
option is the value or None (`Some` where options are nested); results are `Ok` or `Err`; variants are `Case`; a
resource handle is the host's integer representation.
"""

from __future__ import annotations

from typing import Any

from wasmrt.component._plain_value import PlainValue
from wasmrt.component._types import OptionType, WitType

KIND = {
    "bool": 0, "s8": 1, "u8": 2, "s16": 3, "u16": 4, "s32": 5, "u32": 6, "s64": 7, "u64": 8, "f32": 9, "f64": 10,
    "char": 11, "string": 12,
}  # fmt: skip
LIST, RECORD, TUPLE, VARIANT, ENUM, OPTION, RESULT, FLAGS, RESOURCE = range(13, 22)

# struct and memoryview format of each number, and its width in bytes.
FORMAT = {
    "bool": ("?", 1), "s8": ("b", 1), "u8": ("B", 1), "s16": ("h", 2), "u16": ("H", 2), "s32": ("i", 4),
    "u32": ("I", 4), "s64": ("q", 8), "u64": ("Q", 8), "f32": ("f", 4), "f64": ("d", 8),
}  # fmt: skip

PAYLOAD = 8
"""Where a value's payload starts."""


class Ok(PlainValue):
    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Err(PlainValue):
    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Case(PlainValue):
    """One case of a variant, with its payload where it has one."""

    __slots__ = ("name", "value")
    __match_args__ = ("name", "value")

    def __init__(self, name: str, value: Any = None) -> None:
        self.name = name
        self.value = value


class Some(PlainValue):
    """The present value of an option whose inner type is an option too."""

    __slots__ = ("value",)
    __match_args__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def is_nested_option(kind: WitType) -> bool:
    return isinstance(kind, OptionType) and isinstance(kind.inner, OptionType)
