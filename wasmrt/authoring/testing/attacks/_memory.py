"""Attacks on memory: the guest's own, its tables, and through both the host's."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import ONLY_THE_CLOCK, Attack
from wasmrt.authoring.testing.attacks._build import Body
from wasmrt.core.errors import InstantiationError, MemoryLimitError, TrapError

_PAGES = ONLY_THE_CLOCK.memory_bytes // 65536
_GREEDY = """(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (memory.size)"""


def _several(count: int) -> Body:
    modules = "".join(
        f"""(core module $greedy{n} (memory 1) (func (export "grow") (result i32) {_GREEDY}))
        (core instance $greedy{n} (instantiate $greedy{n}))
        (alias core export $greedy{n} "grow" (core func $grow{n}))"""
        for n in range(count)
    )
    calls = "".join(f"(local.set $i (i32.add (local.get $i) (call $grow{n})))" for n in range(count))
    return Body(
        more_modules=modules,
        more_exports=" ".join(f'(export "grow{n}" (func $grow{n}))' for n in range(count)),
        more_imports=" ".join(f'(import "host" "grow{n}" (func $grow{n} (result i32)))' for n in range(count)),
        # Answers honestly only if all memories together stayed within the budget of one.
        execute=f"""{calls} (if (i32.gt_u (local.get $i) (i32.const {_PAGES})) (then (return (call $fail
          (i32.const 512) (i32.const 11))))) (call $ok)""",
    )


MEMORY = (
    Attack(
        name="grow-until-refused",
        about="grows its memory until it gets no more",
        body=Body(execute=f"(drop (block (result i32) {_GREEDY})) (call $ok)"),
    ),
    Attack(
        name="grow-and-insist",
        about="grows its memory and gives up when refused",
        body=Body(
            execute="""(loop $more (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable)))
            (br $more)) (unreachable)"""
        ),
        expects=(TrapError, MemoryLimitError),
    ),
    Attack(
        name="grow-four-memories",
        about="has four more memories and grows each to the budget",
        body=_several(4),
    ),
    Attack(
        name="memories-without-end",
        about="has forty memories",
        body=_several(40),
        expects=(InstantiationError, MemoryLimitError),
    ),
    Attack(
        name="huge-first-memory",
        about="wants 3 GiB of memory to start with",
        body=Body(pages=49_152),
        expects=(MemoryLimitError, InstantiationError),
    ),
    Attack(
        name="fill-a-gibibyte",
        about="fills 1 GiB that it does not have",
        body=Body(execute="(memory.fill (i32.const 0) (i32.const 1) (i32.const 1073741824)) (call $ok)"),
        expects=(TrapError,),
    ),
    Attack(
        name="table-growth",
        about="grows a table until it gets no more, then insists",
        body=Body(
            functions="(table $t 1 funcref)",
            execute="""(loop $more (if (i32.eq (table.grow $t (ref.null func) (i32.const 4096)) (i32.const -1))
            (then (unreachable))) (br $more)) (unreachable)""",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="huge-first-table",
        about="wants a table of ten million elements to start with",
        body=Body(functions="(table 10000000 funcref)"),
        expects=(InstantiationError, MemoryLimitError),
    ),
    Attack(
        name="tables-without-end",
        about="has ninety tables",
        body=Body(functions="(table 1000 funcref)" * 90),
        expects=(InstantiationError, MemoryLimitError),
    ),
    Attack(
        name="instances-without-end",
        about="has five hundred core instances",
        body=Body(
            more_modules="(core module $empty)"
            + "".join(f"(core instance $e{n} (instantiate $empty))" for n in range(500))
        ),
        expects=(InstantiationError, MemoryLimitError),
    ),
)
