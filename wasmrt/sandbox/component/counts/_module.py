"""Count the parts of core modules for which the compiler needs more than linear work.

Most functions are not decoded. Instead, the bytes of a function that could start a block, a branch or a call are
counted. That is an upper bound, because immediates can have the same bytes. The number of bytes that could end a block
limits how many blocks, loops and ifs can end. The compiler rejects a function with an unended block before it builds
anything for that block. A function over a limit is decoded and checked again with its exact counts. As measured with
wasmtime 50, the products in `_Function` determine the compiler's time or memory.

Source: core specification, sections 5.3.6 (function types), 5.5 (modules) and 5.4 (instructions).
"""

from __future__ import annotations

from operator import le
from typing import NamedTuple

from wasmrt.core.errors import ComponentTooLargeError
from wasmrt.core.limits import (
    MAX_COMPONENT_FUNCTIONS,
    MAX_COMPONENT_LOOP_WORK,
    MAX_COMPONENT_SECTIONS,
    MAX_CORE_TYPES,
    MAX_DECODED_CODE_BYTES,
    MAX_FUNCTION_BLOCK_WORK,
    MAX_FUNCTION_BRANCHES,
    MAX_FUNCTION_BYTES,
    MAX_FUNCTION_LOOP_WORK,
    MAX_FUNCTION_READ_WORK,
    MAX_FUNCTION_VALUE_WORK,
)
from wasmrt.sandbox.component._binary import MAGIC, Reader
from wasmrt.sandbox.component.counts._instructions import count_control

_MOST = 2**63 - 1


def hold(count: int, bound: int, what: str, *, hint: str) -> None:
    """Check a count against its limit. The error's message begins with "the component has", the count and `what`.

    Raises:
        ComponentTooLargeError: the count is greater than `bound`.
    """
    if count > bound:
        shown = f"{count:,}" if count < _MOST else f"over {_MOST:,}"
        raise ComponentTooLargeError(f"the component has {shown} {what}, over the limit of {bound:,}", hint=hint)


_HEADER = MAGIC + b"\1\0\0\0"
_TYPE, _FUNCTION, _CODE = 1, 3, 10
_FUNCTION_TYPE = 0x60
_VALUE_TYPES = frozenset(b"\x7f\x7e\x7d\x7c\x7b\x70\x6f")
"""The value types i32 to f64, v128, funcref and externref, each one byte. Other types need disabled engine features."""
_LOOP = 0x03
_END = 0x0B
_ENDING = (0x02, _LOOP, 0x04)
_OTHER_BLOCKS = (0x05, 0x0D, 0x0E)
"""The instructions else, br_if and br_table. They start a block in the compiler, but unlike `_ENDING` have no end."""
_TRANSFERS = (0x0C, 0x10, 0x11, 0x12, 0x13)
"""The instructions that transfer values: br and all calls."""
_BOUNDS = (
    MAX_FUNCTION_BYTES,
    MAX_FUNCTION_BRANCHES,
    MAX_FUNCTION_BLOCK_WORK,
    MAX_FUNCTION_READ_WORK,
    MAX_FUNCTION_VALUE_WORK,
    MAX_FUNCTION_LOOP_WORK,
    MAX_COMPONENT_LOOP_WORK,
)
_SMALL_LOOP_WORK = MAX_FUNCTION_LOOP_WORK // 500
_HINT = "split its largest functions, or build it with optimisation"


class _Function(NamedTuple):
    """The counts of a function's body."""

    values: int
    """The number of locals, including params. The compiler passes every value that is alive in a block to the block."""
    widest: int
    """The largest number of params plus results of a function type. No call or block transfers more values."""
    loops: int
    """The number of loops. Every live value enters a loop's block twice."""
    blocks: int
    """An upper bound of the number of blocks that end."""
    read: int
    """An upper bound of the number of blocks that start."""
    transfers: int

    @property
    def is_small(self) -> bool:
        return (
            self.branches <= MAX_FUNCTION_BRANCHES
            and self.block_work <= MAX_FUNCTION_BLOCK_WORK
            and self.read_work <= MAX_FUNCTION_READ_WORK
            and self.value_work <= MAX_FUNCTION_VALUE_WORK
            and self.loop_work <= _SMALL_LOOP_WORK
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """The counts that are limited per function, in the order of `_BOUNDS`."""
        return self.branches, self.block_work, self.read_work, self.value_work, self.loop_work

    @property
    def branches(self) -> int:
        return self.read + self.transfers

    @property
    def block_work(self) -> int:
        return self.values * self.blocks

    @property
    def read_work(self) -> int:
        return self.values * self.read

    @property
    def value_work(self) -> int:
        return self.widest**2 * self.branches

    @property
    def loop_work(self) -> int:
        return self.loops * ((self.values + self.widest) ** 2 + self.blocks + self.transfers)


class ModuleCounts:
    """The counts of all core modules of a component."""

    def __init__(self) -> None:
        self._types = self._functions = self._loop_work = self._decoded = 0

    def add(self, module: Reader) -> int:
        """Read a core module, starting at its header, and add its counts. Return the number of its sections.

        Raises:
            InvalidComponentError: the module is malformed, or uses a feature that is disabled in the engine.
            ComponentTooLargeError: the modules have more types or functions than allowed, or a function is too complex.
        """
        if module.take(len(_HEADER)) != _HEADER:
            raise module.malformed("a core module of an unknown version")
        sections, types, functions = 0, list[tuple[int, int]](), list[int]()
        while module.left:
            sections += 1
            hold(sections, MAX_COMPONENT_SECTIONS, "sections", hint="build it with a current toolchain")
            kind, content = module.section()
            if kind == _TYPE:
                types += self._read_types(content)
            elif kind == _FUNCTION:
                functions += self._read_functions(content)
            elif kind == _CODE:
                self._code(content, types, functions)
        return sections

    def _read_types(self, content: Reader) -> list[tuple[int, int]]:
        """Return the number of params and the number of results of each function type."""
        count = content.u32()
        self._types += count
        hold(self._types, MAX_CORE_TYPES, "core types", hint="use fewer types")
        types = []
        for _ in range(count):
            if content.byte() != _FUNCTION_TYPE:
                raise content.malformed("a core type that is not a function type")
            types.append((_skip_values(content), _skip_values(content)))
        return types

    def _read_functions(self, content: Reader) -> list[int]:
        """Return the type index of each function."""
        count = content.u32()
        self._functions += count
        hold(self._functions, MAX_COMPONENT_FUNCTIONS, "functions", hint="split it into several components")
        return [content.u32() for _ in range(count)]

    def _code(self, content: Reader, types: list[tuple[int, int]], functions: list[int]) -> None:
        widest = max((takes + gives for takes, gives in types), default=0)
        if content.u32() != len(functions):
            raise content.malformed("different numbers of functions and function bodies")
        for kind in functions:
            body = content.window(content.u32())
            if kind >= len(types):
                raise body.malformed("a function with a missing type")
            self._body(body, types[kind][0], widest)

    def _body(self, body: Reader, params: int, widest: int) -> None:
        values = params
        for _ in range(body.u32()):
            values += body.u32()
            if body.byte() not in _VALUE_TYPES:
                raise body.malformed("a local of an unknown type")
        size = body.left
        ends = body.count(_END)
        loops = min(body.count(_LOOP), ends)
        # At most half of the bytes start a counted instruction. If that many reach no limit, nothing more is counted.
        function = _Function(values, widest, loops, blocks=size // 2, read=size // 2, transfers=size // 2)
        if not function.is_small:
            ending, others = sum(map(body.count, _ENDING)), sum(map(body.count, _OTHER_BLOCKS))
            transfers = sum(map(body.count, _TRANSFERS))
            function = _Function(values, widest, loops, min(ending, ends) + others, ending + others, transfers)
        if not all(map(le, function.counts, _BOUNDS[1:-1])):
            function = self._decode(function, body.take(size))
        self._hold(function, size)

    def _decode(self, function: _Function, code: bytes) -> _Function:
        """Return the function with exact counts, or unchanged if it cannot be decoded within the decoding limit."""
        self._decoded += len(code)
        found = count_control(code) if self._decoded <= MAX_DECODED_CODE_BYTES else None
        if found is None:
            return function
        loops, blocks = min(found.loops, function.loops), min(found.blocks, function.blocks)
        return function._replace(loops=loops, blocks=blocks, read=found.blocks, transfers=found.transfers)

    def _hold(self, function: _Function, size: int) -> None:
        self._loop_work += function.loop_work
        counts = (size, *function.counts, self._loop_work)
        if all(map(le, counts, _BOUNDS)):
            return
        values, loops = f"{function.values:,} locals", f"{function.loops:,} loops"
        branches = f"{function.branches:,} branches"
        named = (
            "bytes of code in one function",
            "blocks and calls in one function",
            f"locals times blocks in one function ({values}, {function.blocks:,} blocks)",
            f"locals times blocks that begin in one function ({values}, {function.read:,} blocks)",
            f"moved values, squared, times blocks and calls in one function (a type moves {function.widest:,})",
            f"locals, squared, and branches, times loops in one function ({values}, {branches}, {loops})",
            "locals, squared, and branches, times loops in all functions",
        )
        for count, bound, what in zip(counts, _BOUNDS, named, strict=True):
            hold(count, bound, what, hint=_HINT)


def _skip_values(content: Reader) -> int:
    """Skip a list of value types, and return its length."""
    count = content.u32()
    if not _VALUE_TYPES.issuperset(content.take(count)):
        raise content.malformed("a value type of an unknown form")
    return count
