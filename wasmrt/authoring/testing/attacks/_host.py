"""Attacks through the imports: sleeping, flooding, hoarding, forging."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import Attack
from wasmrt.authoring.testing.attacks._build import Body
from wasmrt.core.errors import BudgetExceededError, DeadlineExceededError, GuestError, TrapError

_HOUR = 3_600_000_000_000


def _again(body: str) -> str:
    return f"(loop $again {body} (br $again)) (unreachable)"


def _times(count: int, body: str) -> str:
    return f"""(loop $again {body} (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const {count})))) (call $ok)"""


def _poll(handles: int, listed: int) -> str:
    """Make `handles` pollables of an hour, and poll a list of `listed`."""
    return f"""(drop (memory.grow (i32.const 64)))
      (loop $make (local.set $j (call $subscribe-duration (i64.const {_HOUR})))
        (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $i) (i32.const 4))) (local.get $j))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $make (i32.lt_u (local.get $i) (i32.const {handles}))))
      (loop $fill (i32.store (i32.add (i32.const 131072) (i32.mul (local.get $i) (i32.const 4))) (local.get $j))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $fill (i32.lt_u (local.get $i) (i32.const {listed}))))
      (call $poll (i32.const 131072) (i32.const {listed}) (i32.const 256)) (call $ok)"""


HOST = (
    Attack(
        name="sleep-an-hour",
        about="sleeps for an hour inside a host call",
        body=Body(
            imports=("subscribe-duration", "block"),
            execute=f"(call $block (call $subscribe-duration (i64.const {_HOUR}))) (call $ok)",
        ),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="sleep-for-ever",
        about="sleeps for the longest time there is",
        body=Body(
            imports=("subscribe-duration", "block"),
            execute="(call $block (call $subscribe-duration (i64.const -1))) (call $ok)",
        ),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="poll-an-hour",
        about="polls a thousand pollables that are an hour away",
        body=Body(imports=("subscribe-duration", "poll"), execute=_poll(1000, 1000)),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="ten-thousand-pollables",
        about="makes ten thousand pollables",
        body=Body(imports=("subscribe-duration", "poll"), execute=_poll(10_000, 10_000)),
        expects=(BudgetExceededError,),
    ),
    Attack(
        name="poll-one-a-million-times",
        about="polls a list that names one pollable a million times",
        body=Body(imports=("subscribe-duration", "poll"), execute=_poll(1, 1_000_000)),
        expects=(TrapError,),
    ),
    Attack(
        name="poll-nothing",
        about="polls an empty list",
        body=Body(imports=("poll",), execute="(call $poll (i32.const 0) (i32.const 0) (i32.const 256)) (call $ok)"),
        expects=(TrapError,),
    ),
    Attack(
        name="import-in-a-loop",
        about="calls an import for ever",
        body=Body(imports=("now-millis",), execute=_again("(drop (call $now-millis))")),
        expects=(DeadlineExceededError, BudgetExceededError),
    ),
    Attack(
        name="hundred-thousand-handles",
        about="opens standard output a hundred thousand times",
        body=Body(imports=("get-stdout",), execute=_times(100_000, "(drop (call $get-stdout))")),
        expects=(BudgetExceededError,),
    ),
    Attack(
        name="leaked-handles",
        about="leaves a thousand handles open",
        body=Body(imports=("get-stdout",), execute=_times(1000, "(drop (call $get-stdout))")),
    ),
    Attack(
        name="dropped-twice",
        about="drops a handle twice",
        body=Body(
            imports=("get-stdout", "drop-output"),
            execute="""(local.set $i (call $get-stdout)) (call $drop-output (local.get $i))
            (call $drop-output (local.get $i)) (call $ok)""",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="forged-handle",
        about="writes to a stream that it was never given",
        body=Body(
            imports=("write",),
            execute="(call $write (i32.const 7) (i32.const 512) (i32.const 4) (i32.const 256)) (call $ok)",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="handle-of-another-kind",
        about="passes a pollable where a stream belongs",
        body=Body(
            imports=("subscribe-duration", "write"),
            execute="""(call $write (call $subscribe-duration (i64.const 1)) (i32.const 512) (i32.const 4)
            (i32.const 256)) (call $ok)""",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="log-flood",
        about="logs twenty thousand lines",
        body=Body(imports=("log",), execute=_times(20_000, "(call $log (i32.const 2) (i32.const 512) (i32.const 11))")),
    ),
    Attack(
        name="log-of-fifty-megabytes",
        about="logs one line of 50 MB",
        body=Body(
            imports=("log",),
            execute="""(drop (memory.grow (i32.const 900)))
            (call $log (i32.const 2) (i32.const 131072) (i32.const 50000000)) (call $ok)""",
        ),
        # Cut to a log entry, or refused as a string that is too long to cross.
        harmless=True,
        expects=(BudgetExceededError, DeadlineExceededError),
    ),
    Attack(
        name="stdout-flood",
        about="writes 64 KiB to standard output for ever",
        body=Body(
            imports=("get-stdout", "write"),
            execute="(local.set $i (call $get-stdout))"
            + _again("(call $write (local.get $i) (i32.const 0) (i32.const 65536) (i32.const 256))"),
        ),
        expects=(DeadlineExceededError,),
    ),
    Attack(
        name="stdout-of-sixty-megabytes",
        about="writes 60 MB of bytes to standard output at once",
        body=Body(
            imports=("get-stdout", "write"),
            execute="""(drop (memory.grow (i32.const 930)))
            (call $write (call $get-stdout) (i32.const 0) (i32.const 60000000) (i32.const 256)) (call $ok)""",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="zeroes-without-end",
        about="asks for 2^64 zeroes on standard output",
        body=Body(
            imports=("get-stdout", "write-zeroes"),
            execute="(call $write-zeroes (call $get-stdout) (i64.const -1) (i32.const 256)) (call $ok)",
        ),
    ),
    Attack(
        name="random-flood",
        about="draws random bytes for ever",
        body=Body(
            imports=("get-random-bytes",),
            execute=_again("(call $get-random-bytes (i64.const 65536) (i32.const 256))"),
        ),
        expects=(BudgetExceededError,),
    ),
    Attack(
        name="random-without-end",
        about="asks for 2^64 random bytes at once",
        body=Body(
            imports=("get-random-bytes",),
            execute="(call $get-random-bytes (i64.const -1) (i32.const 256)) (call $ok)",
        ),
        expects=(BudgetExceededError,),
    ),
    Attack(
        name="method-of-fifty-megabytes",
        about="sends an HTTP request with a method of 50 MB",
        body=Body(
            imports=("http-request",),
            execute=f"""(drop (memory.grow (i32.const 900)))
            (memory.fill (i32.const 131072) (i32.const 92) (i32.const 50000000))
            (call $http-request (i32.const 131072) (i32.const 50000000) {"(i32.const 512) (i32.const 0) " * 2}
              {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)""",
        ),
        harmless=True,
        expects=(BudgetExceededError, DeadlineExceededError),
    ),
    Attack(
        name="list-of-records",
        about="passes a list of 400,000 headers",
        body=Body(
            imports=("fetch",),
            execute=f"""(drop (memory.grow (i32.const 900)))
            (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const 400000)
              {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)""",
        ),
        expects=(DeadlineExceededError, BudgetExceededError),
    ),
    Attack(
        name="exit",
        about="exits before it answers",
        body=Body(imports=("exit",), execute="(call $exit (i32.const 1)) (call $ok)"),
        expects=(GuestError,),
    ),
    Attack(
        name="realloc-traps",
        about="breaks in the middle of a host call, while the host writes its answer",
        body=Body(
            imports=("get-random-bytes",),
            realloc="(if (i32.eq (local.get $size) (i32.const 16)) (then (unreachable))) (i32.const 65536)",
            execute="(call $get-random-bytes (i64.const 16) (i32.const 256)) (call $ok)",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="realloc-points-outside",
        about="gives the host an address outside its memory to write to",
        body=Body(realloc="(i32.const 0x7ffffff0)"),
        expects=(TrapError,),
    ),
    Attack(
        name="argument-outside-memory",
        about="passes a string that lies outside its memory",
        body=Body(
            imports=("log",),
            execute="(call $log (i32.const 2) (i32.const 0x7fff0000) (i32.const 4096)) (call $ok)",
        ),
        expects=(TrapError,),
    ),
    Attack(
        name="enum-out-of-range",
        about="logs at a level that does not exist",
        body=Body(imports=("log",), execute="(call $log (i32.const 200) (i32.const 512) (i32.const 4)) (call $ok)"),
        expects=(TrapError,),
    ),
    Attack(
        name="invoke-without-grant",
        about="calls other tools, five hundred times, without a grant",
        body=Body(
            imports=("tool-invoke",),
            execute=_times(
                500,
                """(call $tool-invoke (i32.const 512) (i32.const 11) (i32.const 512) (i32.const 11) (i32.const 256))
                (if (i32.eqz (i32.load8_u (i32.const 256))) (then (return (i32.const -1))))""",
            ),
        ),
    ),
)
