"""A null WASI preview 1 for modules whose runtime insists on one: no files, no entropy, no environment.

The clock moves one millisecond each time it is looked at, so that a sleeping runtime wakes up; what is printed is
dropped; random bytes are a fixed sequence. Whoever needs the real thing asks the world's own imports.
"""

from __future__ import annotations

from wasmrt.componentizer._module import Signature

MODULE = "wasi_snapshot_preview1"

_BADF = 8
_I = "i32"

# name -> (parameters, body); parameters are checked, so that a body never meets another shape.
_BODIES: dict[str, tuple[tuple[str, ...], str]] = {
    "args_sizes_get": (
        (_I, _I),
        "(i32.store (local.get 0) (i32.const 0)) (i32.store (local.get 1) (i32.const 0)) i32.const 0",
    ),
    "environ_sizes_get": (
        (_I, _I),
        "(i32.store (local.get 0) (i32.const 0)) (i32.store (local.get 1) (i32.const 0)) i32.const 0",
    ),
    "args_get": ((_I, _I), "i32.const 0"),
    "environ_get": ((_I, _I), "i32.const 0"),
    "sched_yield": ((), "i32.const 0"),
    "clock_res_get": ((_I, _I), "(i64.store (local.get 1) (i64.const 1000000)) i32.const 0"),
    "clock_time_get": (
        (_I, "i64", _I),
        "(global.set $clock (i64.add (global.get $clock) (i64.const 1000000)))"
        " (i64.store (local.get 2) (global.get $clock)) i32.const 0",
    ),
    "poll_oneoff": ((_I, _I, _I, _I), "(i32.store (local.get 3) (i32.const 0)) i32.const 0"),
    "proc_exit": ((_I,), "unreachable"),
    "random_get": (
        (_I, _I),
        "(block $done (loop $next (br_if $done (i32.eqz (local.get 1)))"
        " (global.set $seed (i64.mul (global.get $seed) (i64.const 6364136223846793005)))"
        " (global.set $seed (i64.add (global.get $seed) (i64.const 1442695040888963407)))"
        " (i32.store8 (local.get 0) (i32.wrap_i64 (i64.shr_u (global.get $seed) (i64.const 33))))"
        " (local.set 0 (i32.add (local.get 0) (i32.const 1)))"
        " (local.set 1 (i32.sub (local.get 1) (i32.const 1))) (br $next))) i32.const 0",
    ),
    # Everything printed counts as written: the sum of the iovec lengths.
    "fd_write": (
        (_I, _I, _I, _I),
        "(i32.store (local.get 3) (i32.const 0))"
        " (block $done (loop $next (br_if $done (i32.eqz (local.get 2)))"
        " (i32.store (local.get 3) (i32.add (i32.load (local.get 3)) (i32.load offset=4 (local.get 1))))"
        " (local.set 1 (i32.add (local.get 1) (i32.const 8)))"
        " (local.set 2 (i32.sub (local.get 2) (i32.const 1))) (br $next))) i32.const 0",
    ),
}


def stub(wanted: dict[str, Signature]) -> str:
    """The text of a core module `$wasi` that offers the functions wanted; those unknown answer 'bad descriptor'."""
    functions = [_function(name, signature) for name, signature in wanted.items()]
    return (
        '(core module $wasi (import "" "memory" (memory 0))'
        " (global $clock (mut i64) (i64.const 0)) (global $seed (mut i64) (i64.const 42)) " + " ".join(functions) + ")"
    )


def _function(name: str, signature: Signature) -> str:
    params, body = _BODIES.get(name.partition(" ")[0], (None, ""))
    if params != signature.params:
        body = f"i32.const {_BADF}" if signature.results == ("i32",) else "unreachable"
    return f'(func (export "{name}") {signature.text()} {body})'
