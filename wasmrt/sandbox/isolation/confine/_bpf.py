"""Assemble seccomp filters: compile rules for system-call numbers into a classic BPF program.

Source: linux/filter.h, linux/seccomp.h, seccomp(2). The program finds a number by binary search, so a system call costs
few instructions, however long the list is.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack
from typing import NamedTuple

ALLOW = 0x7FFF0000
LOG = 0x7FFC0000
TRAP = 0x00030000
KILL = 0x80000000  # the process, not the thread
_ERRNO = 0x00050000

_LOAD, _AND, _JUMP, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_X32_BIT = 0x40000000
_WORD = 0xFFFFFFFF
_MAX_INSTRUCTIONS = 4096  # BPF_MAXINSNS
_MAX_JUMP = 255

Instruction = tuple[int, int, int, int]


def errno_action(number: int) -> int:
    """Return the filter action that fails a call with the errno `number`."""
    return _ERRNO | number


class Check(NamedTuple):
    """A condition on one half (32 bits) of an argument of a system call.

    The half, masked with `mask`, must be one of `values`; if `negated`, it must be none of them. The lower half is
    checked, because the kernel ignores the upper half of most arguments. With `upper`, the upper half is checked.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _WORD
    upper: bool = False
    negated: bool = False


Clause = tuple[Check, ...]


class Rule(NamedTuple):
    """Allow a call if every check of at least one clause matches; otherwise take the action `otherwise`.

    Without clauses, `otherwise` always applies. If `otherwise` is None, the filter's default action applies.
    """

    clauses: tuple[Clause, ...]
    otherwise: int | None = None

    def union(self, other: Rule) -> Rule:
        """Return a rule that allows a call if one of the two rules allows it."""
        return Rule(self.clauses + other.clauses, self.otherwise if other.otherwise is None else other.otherwise)


ALWAYS = Rule(((),))


def assemble(rules: Mapping[int, Rule], *, default: int, unknown: int, first_unknown: int, architecture: int) -> bytes:
    """Return the BPF program as an array of struct sock_filter.

    Args:
        rules: The rule for each system-call number.
        default: The action for every other number below `first_unknown`.
        unknown: The action for `first_unknown` and above: calls newer than the tables in `_syscalls.py`.
        first_unknown: The first number after those tables.
        architecture: The only architecture allowed. Calls of other architectures and x32 calls kill the process.

    Raises:
        ValueError: the program exceeds the kernel's maximum length.
    """
    spans = _split_spans(rules, default, unknown, first_unknown)
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
        *_search(spans),
    ]
    if len(program) > _MAX_INSTRUCTIONS:
        raise ValueError(f"the seccomp filter has {len(program)} instructions; at most {_MAX_INSTRUCTIONS} are allowed")
    return b"".join(pack("=HBBI", *instruction) for instruction in program)


def _split_spans(
    rules: Mapping[int, Rule], default: int, unknown: int, first_unknown: int
) -> list[tuple[int, list[Instruction]]]:
    """Split the call numbers into spans with the same code; return the first number and the code of each span."""
    spans: list[tuple[int, list[Instruction]]] = []
    following = 0

    def add(start: int, code: list[Instruction]) -> None:
        if not spans or spans[-1][1] != code:
            spans.append((start, code))

    for number in sorted(rules):
        if number > following:
            add(following, [(_RETURN, 0, 0, default)])
        add(number, _assemble_rule(rules[number], default))
        following = number + 1
    if following < first_unknown:
        add(following, [(_RETURN, 0, 0, default)])
    add(max(following, first_unknown), [(_RETURN, 0, 0, unknown)])
    # SECURITY: x32 calls report the architecture x86_64, but have separate numbers.
    add(_X32_BIT, [(_RETURN, 0, 0, KILL)])
    return spans


def _search(spans: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(spans) == 1:
        return spans[0][1]
    middle = len(spans) // 2
    below, above = _search(spans[:middle]), _search(spans[middle:])
    first = spans[middle][0]
    if len(below) <= _MAX_JUMP:
        return [(_IF_AT_LEAST, len(below), 0, first), *below, *above]
    return [(_IF_AT_LEAST, 0, 1, first), (_JUMP, 0, 0, len(below)), *below, *above]


def _assemble_rule(rule: Rule, default: int) -> list[Instruction]:
    code: list[Instruction] = []
    for clause in rule.clauses:
        code += _assemble_clause(clause)
        if not clause:
            return code  # an empty clause matches any arguments
    return [*code, (_RETURN, 0, 0, default if rule.otherwise is None else rule.otherwise)]


def _assemble_clause(clause: Clause) -> list[Instruction]:
    """Assemble code that allows the call if every check matches, and otherwise continues after the clause."""
    code: list[Instruction] = [(_RETURN, 0, 0, ALLOW)]
    for check in reversed(clause):
        loading: list[Instruction] = [(_LOAD, 0, 0, _ARGUMENTS + 8 * check.argument + 4 * check.upper)]
        if check.mask != _WORD:
            loading.append((_AND, 0, 0, check.mask))
        last = len(check.values) - 1
        tests = []
        for place, value in enumerate(check.values):
            behind_tests = last - place
            behind_clause = behind_tests + len(code)
            if check.negated:
                tests.append((_IF_EQUAL, behind_clause, 0, value))
            else:
                tests.append((_IF_EQUAL, behind_tests, behind_clause if place == last else 0, value))
        code = [*loading, *tests, *code]
    return code
