"""Attacks on resources: endless loops wherever guest code runs, and memories, tables and instances without bound."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import ONLY_THE_CLOCK, attack
from wasmrt.authoring.testing.attacks._build import Body
from wasmrt.core.errors import (
    DeadlineExceededError,
    FuelExhaustedError,
    InstantiationError,
    MemoryLimitError,
    TrapError,
)
from wasmrt.core.limits import ResourceLimits

_FOREVER = "(loop $forever (br $forever))"

CPU = (
    attack("loop-in-export", "loops in the export", Body(execute=f"{_FOREVER} (unreachable)"), DeadlineExceededError),
    attack("loop-until-fuel", "loops in the export with the fuel of an ordinary tool",
           Body(execute=f"{_FOREVER} (unreachable)"), FuelExhaustedError, limits=ResourceLimits(fuel=1_000_000)),
    attack("loop-in-start", "loops in the start function, before any call", Body(start=_FOREVER), InstantiationError),
    attack("loop-in-realloc", "loops while the host writes the params into its memory",
           Body(realloc=f"{_FOREVER} (unreachable)"), DeadlineExceededError),
    attack("loop-in-post-return", "answers, and loops while the host cleans up", Body(post_return=_FOREVER),
           DeadlineExceededError),
    attack("loop-in-description", "loops when asked what it does", Body(description=f"{_FOREVER} (unreachable)")),
    attack("recursion", "recurses without end",
           Body(functions="(func $down (call $down) (call $down))", execute="(call $down) (call $ok)"), TrapError),
    attack("indirect-recursion", "recurses through a table with many locals",
           Body(functions=f"""(table 1 funcref) (elem (i32.const 0) $down) (type $down (func (param i64)))
            (func $down (type $down) (local {" i64" * 400})
              (call_indirect (type $down) (i64.add (local.get 0) (local.get 1)) (i32.const 0))
              (local.set 1 (local.get 0)))""",
                execute="(call_indirect (type $down) (i64.const 1) (i32.const 0)) (call $ok)"), TrapError),
    attack("tail-calls", "calls itself for ever without using stack",
           Body(functions="(func $on (return_call $on))", execute="(call $on) (call $ok)"), DeadlineExceededError),
    attack("fill-in-a-loop", "fills 60 MiB with one instruction, again and again",
           Body(execute="""(drop (memory.grow (i32.const 960)))
            (loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 62914560)) (br $again)) (unreachable)"""),
           DeadlineExceededError),
    attack("copy-in-a-loop", "copies 30 MiB with one instruction, again and again",
           Body(execute="""(drop (memory.grow (i32.const 960)))
            (loop $again (memory.copy (i32.const 0) (i32.const 31457280) (i32.const 31457280)) (br $again))
            (unreachable)"""), DeadlineExceededError),
)  # fmt: skip


_PAGES = ONLY_THE_CLOCK.memory_bytes // 65536
_GREEDY = """(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (memory.size)"""


def _grow_several_memories(count: int) -> Body:
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
        # Succeeds only if all memories together stayed within the budget of one.
        execute=f"""{calls} (if (i32.gt_u (local.get $i) (i32.const {_PAGES})) (then (return (call $fail
          (i32.const 512) (i32.const 11))))) (call $ok)""",
    )


MEMORY = (
    attack("grow-until-refused", "grows its memory until it gets no more",
           Body(execute=f"(drop (block (result i32) {_GREEDY})) (call $ok)")),
    attack("grow-and-insist", "grows its memory until that is refused, then traps",
           Body(execute="""(loop $more (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (unreachable)))
            (br $more)) (unreachable)"""), TrapError, MemoryLimitError),
    attack("grow-four-memories", "has four more memories and grows each to the budget", _grow_several_memories(4)),
    attack("memories-without-end", "has forty memories", _grow_several_memories(40), InstantiationError,
           MemoryLimitError),
    attack("huge-first-memory", "requires 3 GiB of memory at its start", Body(pages=49_152), MemoryLimitError,
           InstantiationError),
    attack("fill-a-gibibyte", "fills 1 GiB that it does not have",
           Body(execute="(memory.fill (i32.const 0) (i32.const 1) (i32.const 1073741824)) (call $ok)"), TrapError),
    attack("table-growth", "grows a table until that is refused, then traps", Body(functions="(table $t 1 funcref)",
                execute="""(loop $more (if (i32.eq (table.grow $t (ref.null func) (i32.const 4096)) (i32.const -1))
            (then (unreachable))) (br $more)) (unreachable)"""), TrapError),
    attack("huge-first-table", "requires a table of ten million elements at its start",
           Body(functions="(table 10000000 funcref)"), InstantiationError, MemoryLimitError),
    attack("tables-without-end", "has ninety tables", Body(functions="(table 1000 funcref)" * 90), InstantiationError,
           MemoryLimitError),
    attack("instances-without-end", "has five hundred core instances", Body(more_modules="(core module $empty)"
            + "".join(f"(core instance $e{n} (instantiate $empty))" for n in range(500))), InstantiationError,
           MemoryLimitError),
)  # fmt: skip
