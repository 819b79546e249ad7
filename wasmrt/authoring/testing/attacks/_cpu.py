"""Attacks on the thread: every place where guest code runs, looped."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.authoring.testing.attacks._build import Body
from wasmrt.core.errors import DeadlineExceededError, FuelExhaustedError, InstantiationError, TrapError
from wasmrt.core.limits import ResourceLimits

_FOREVER = "(loop $forever (br $forever))"

CPU = (
    Attack(
        name="loop-in-export",
        about="loops in the export",
        body=Body(execute=f"{_FOREVER} (unreachable)"),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="loop-until-fuel",
        about="loops in the export with the fuel of an ordinary tool",
        body=Body(execute=f"{_FOREVER} (unreachable)"),
        expects=(FuelExhaustedError,),
        limits=ResourceLimits(fuel=1_000_000),
    ),
    Attack(
        name="loop-in-start",
        about="loops in the start function, before any call",
        body=Body(start=_FOREVER),
        expects=(InstantiationError,),
    ),
    Attack(
        name="loop-in-realloc",
        about="loops while the host writes the params into its memory",
        body=Body(realloc=f"{_FOREVER} (unreachable)"),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="loop-in-post-return",
        about="answers, and loops while the host cleans up",
        body=Body(post_return=_FOREVER),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="loop-in-description",
        about="loops when asked what it does",
        body=Body(description=f"{_FOREVER} (unreachable)"),
    ),
    Attack(
        name="recursion",
        about="recurses without end",
        body=Body(functions="(func $down (call $down) (call $down))", execute="(call $down) (call $ok)"),
        expects=(TrapError,),
    ),
    Attack(
        name="indirect-recursion",
        about="recurses through a table with many locals",
        body=Body(
            functions=f"""(table 1 funcref) (elem (i32.const 0) $down) (type $down (func (param i64)))
            (func $down (type $down) (local {" i64" * 400})
              (call_indirect (type $down) (i64.add (local.get 0) (local.get 1)) (i32.const 0))
              (local.set 1 (local.get 0)))""",
            execute="(call_indirect (type $down) (i64.const 1) (i32.const 0)) (call $ok)",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="tail-calls",
        about="calls itself for ever without using stack",
        body=Body(functions="(func $on (return_call $on))", execute="(call $on) (call $ok)"),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="fill-in-a-loop",
        about="fills 60 MiB with one instruction, again and again",
        body=Body(
            execute="""(drop (memory.grow (i32.const 960)))
            (loop $again (memory.fill (i32.const 0) (i32.const 1) (i32.const 62914560)) (br $again)) (unreachable)"""
        ),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="copy-in-a-loop",
        about="copies 30 MiB with one instruction, again and again",
        body=Body(
            execute="""(drop (memory.grow (i32.const 960)))
            (loop $again (memory.copy (i32.const 0) (i32.const 31457280) (i32.const 31457280)) (br $again))
            (unreachable)"""
        ),
        expects=(DeadlineExceededError,),
    ),
)
