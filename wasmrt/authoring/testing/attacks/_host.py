"""Attacks through imports: sleeping, flooding, hoarding and forging handles, and using what is not granted."""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import attack
from wasmrt.authoring.testing.attacks._build import TEXT_AT, Body
from wasmrt.core.errors import BudgetExceededError, DeadlineExceededError, GuestError, TrapError


def _fail_if(got: str) -> str:
    return f"(if {got} (then (return (i32.const -1))))"


def _expect_empty_list(function: str) -> str:
    return f"(call ${function} (i32.const 256))" + _fail_if("(i32.load (i32.const 260))")


_GET = b"GET"
_URL = b"https://example.com/"

REACH = (
    attack("read-environment", "reads environment variables and arguments",
           Body(imports=("get-environment", "get-arguments"),
                execute=_expect_empty_list("get-environment") + _expect_empty_list("get-arguments") + "(call $ok)")),
    attack("read-stdin", "reads standard input",
           Body(imports=("get-stdin", "read"),
                execute="(call $read (call $get-stdin) (i64.const 65536) (i32.const 256))"
                + _fail_if("(i32.eqz (i32.load8_u (i32.const 256)))") + "(call $ok)")),
    attack("open-files", "looks for a folder that it may open files in",
           Body(imports=("get-directories",), execute=_expect_empty_list("get-directories") + "(call $ok)")),
    attack("open-socket", "opens sockets",
           Body(imports=("create-tcp-socket",), execute="(call $create-tcp-socket (i32.const 0) (i32.const 256))"
                + _fail_if("(i32.ne (i32.load8_u (i32.const 256)) (i32.const 1))") + "(call $ok)")),
    attack("look-up-names", "smuggles data out in names that it looks up",
           Body(imports=("instance-network", "resolve-addresses"), text=b"data.example.com",
                execute=f"""(call $resolve-addresses (call $instance-network) (i32.const {TEXT_AT}) (i32.const 16)
            (i32.const 256))"""
                + _fail_if("(i32.ne (i32.load8_u (i32.const 256)) (i32.const 1))") + "(call $ok)")),
    attack("request-without-grant", "sends an HTTP request without a grant",
           Body(imports=("http-request",), text=_GET + _URL + b"{}",
                execute=f"""(call $http-request (i32.const {TEXT_AT}) (i32.const {len(_GET)})
            (i32.const {TEXT_AT + len(_GET)}) (i32.const {len(_URL)})
            (i32.const {TEXT_AT + len(_GET) + len(_URL)}) (i32.const 2)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 256))"""
                + _fail_if("(i32.ne (i32.load8_u (i32.const 256)) (i32.const 1))") + "(call $ok)")),
    attack("read-workspace-without-grant", "reads workspace files without a grant",
           Body(imports=("workspace-read",), text=b"../../etc/passwd",
                execute=f"(call $workspace-read (i32.const {TEXT_AT}) (i32.const 16) (i32.const 256))"
                + _fail_if("(i32.load8_u (i32.const 256))") + "(call $ok)")),
    attack("ask-for-secrets", "asks whether secrets exist without a grant",
           Body(imports=("secret-exists",), text=b"openai_api_key",
                execute=_fail_if(f"(call $secret-exists (i32.const {TEXT_AT}) (i32.const 14))") + "(call $ok)")),
    attack("fine-clock", "looks for a clock finer than a millisecond", Body(imports=("now",),
                execute=_fail_if("(i64.ne (i64.rem_u (call $now) (i64.const 1000000)) (i64.const 0))") + "(call $ok)")),
    attack("state-between-calls", "searches its memory for data of an earlier call",
           Body(execute=_fail_if("(i32.load (i32.const 8192))")
                + "(i32.store (i32.const 8192) (i32.const 1)) (call $ok)")),
)  # fmt: skip


_HOUR = 3_600_000_000_000


def _loop_forever(body: str) -> str:
    return f"(loop $again {body} (br $again)) (unreachable)"


def _repeat(count: int, body: str) -> str:
    return f"""(loop $again {body} (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const {count})))) (call $ok)"""


def _create_and_poll(handles: int, listed: int) -> str:
    """Return code that creates `handles` pollables that are due in an hour, and polls `listed` of them at once."""
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
    attack("sleep-an-hour", "sleeps for an hour inside a host call", Body(imports=("subscribe-duration", "block"),
                execute=f"(call $block (call $subscribe-duration (i64.const {_HOUR}))) (call $ok)"),
           DeadlineExceededError),
    attack("sleep-for-ever", "sleeps for the longest time there is", Body(imports=("subscribe-duration", "block"),
                execute="(call $block (call $subscribe-duration (i64.const -1))) (call $ok)"), DeadlineExceededError),
    attack("poll-an-hour", "polls a thousand pollables that are an hour away",
           Body(imports=("subscribe-duration", "poll"), execute=_create_and_poll(1000, 1000)), DeadlineExceededError),
    attack("ten-thousand-pollables", "makes ten thousand pollables",
           Body(imports=("subscribe-duration", "poll"), execute=_create_and_poll(10_000, 10_000)), BudgetExceededError),
    attack("poll-one-a-million-times", "polls a list that names one pollable a million times",
           Body(imports=("subscribe-duration", "poll"), execute=_create_and_poll(1, 1_000_000)), TrapError),
    attack("poll-nothing", "polls an empty list",
           Body(imports=("poll",), execute="(call $poll (i32.const 0) (i32.const 0) (i32.const 256)) (call $ok)"),
           TrapError),
    attack("import-in-a-loop", "calls an import for ever",
           Body(imports=("now-millis",), execute=_loop_forever("(drop (call $now-millis))")), DeadlineExceededError,
           BudgetExceededError),
    attack("hundred-thousand-handles", "opens standard output a hundred thousand times",
           Body(imports=("get-stdout",), execute=_repeat(100_000, "(drop (call $get-stdout))")), BudgetExceededError),
    attack("leaked-handles", "leaves a thousand handles open",
           Body(imports=("get-stdout",), execute=_repeat(1000, "(drop (call $get-stdout))"))),
    attack("dropped-twice", "drops a handle twice", Body(imports=("get-stdout", "drop-output"),
                execute="""(local.set $i (call $get-stdout)) (call $drop-output (local.get $i))
            (call $drop-output (local.get $i)) (call $ok)"""), TrapError),
    attack("forged-handle", "writes to a stream that it was never given",
           Body(imports=("write",),
                execute="(call $write (i32.const 7) (i32.const 512) (i32.const 4) (i32.const 256)) (call $ok)"),
           TrapError),
    attack("handle-of-another-kind", "passes a pollable where a stream belongs",
           Body(imports=("subscribe-duration", "write"),
                execute="""(call $write (call $subscribe-duration (i64.const 1)) (i32.const 512) (i32.const 4)
            (i32.const 256)) (call $ok)"""), TrapError),
    attack("log-flood", "logs twenty thousand lines",
           Body(imports=("log",), execute=_repeat(20_000, "(call $log (i32.const 2) (i32.const 512) (i32.const 11))"))),
    # The line is truncated to the size of a log entry, or refused because the string is too long to be passed.
    attack("log-of-fifty-megabytes", "logs one line of 50 MB",
           Body(imports=("log",), execute="""(drop (memory.grow (i32.const 900)))
            (call $log (i32.const 2) (i32.const 131072) (i32.const 50000000)) (call $ok)"""), BudgetExceededError,
           DeadlineExceededError, harmless=True),
    attack("stdout-flood", "writes 64 KiB to standard output for ever",
           Body(imports=("get-stdout", "write"), execute="(local.set $i (call $get-stdout))"
            + _loop_forever("(call $write (local.get $i) (i32.const 0) (i32.const 65536) (i32.const 256))")),
           DeadlineExceededError),
    attack("stdout-of-sixty-megabytes", "writes 60 MB of bytes to standard output at once",
           Body(imports=("get-stdout", "write"), execute="""(drop (memory.grow (i32.const 930)))
            (call $write (call $get-stdout) (i32.const 0) (i32.const 60000000) (i32.const 256)) (call $ok)"""),
           TrapError),
    attack("zeroes-without-end", "asks for 2^64 zeroes on standard output", Body(imports=("get-stdout", "write-zeroes"),
                execute="(call $write-zeroes (call $get-stdout) (i64.const -1) (i32.const 256)) (call $ok)")),
    attack("random-flood", "draws random bytes for ever",
           Body(imports=("get-random-bytes",),
                execute=_loop_forever("(call $get-random-bytes (i64.const 65536) (i32.const 256))")),
           BudgetExceededError),
    attack("random-without-end", "asks for 2^64 random bytes at once",
           Body(imports=("get-random-bytes",),
                execute="(call $get-random-bytes (i64.const -1) (i32.const 256)) (call $ok)"), BudgetExceededError),
    attack("method-of-fifty-megabytes", "sends an HTTP request with a method of 50 MB",
           Body(imports=("http-request",), execute=f"""(drop (memory.grow (i32.const 900)))
            (memory.fill (i32.const 131072) (i32.const 92) (i32.const 50000000))
            (call $http-request (i32.const 131072) (i32.const 50000000) {"(i32.const 512) (i32.const 0) " * 2}
              {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)"""), BudgetExceededError, DeadlineExceededError,
           harmless=True),
    attack("list-of-records", "passes a list of 400,000 headers",
           Body(imports=("fetch",), execute=f"""(drop (memory.grow (i32.const 900)))
            (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const 400000)
              {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)"""), DeadlineExceededError, BudgetExceededError),
    attack("exit", "exits before it answers", Body(imports=("exit",), execute="(call $exit (i32.const 1)) (call $ok)"),
           GuestError),
    attack("realloc-traps", "traps in the middle of a host call, while the host writes its answer",
           Body(imports=("get-random-bytes",),
                realloc="(if (i32.eq (local.get $size) (i32.const 16)) (then (unreachable))) (i32.const 65536)",
                execute="(call $get-random-bytes (i64.const 16) (i32.const 256)) (call $ok)"), TrapError),
    attack("realloc-points-outside", "gives the host an address outside its memory to write to",
           Body(realloc="(i32.const 0x7ffffff0)"), TrapError),
    attack("argument-outside-memory", "passes a string that lies outside its memory",
           Body(imports=("log",),
                execute="(call $log (i32.const 2) (i32.const 0x7fff0000) (i32.const 4096)) (call $ok)"), TrapError),
    attack("enum-out-of-range", "logs at a level that does not exist",
           Body(imports=("log",), execute="(call $log (i32.const 200) (i32.const 512) (i32.const 4)) (call $ok)"),
           TrapError),
    attack("invoke-without-grant", "calls other tools, five hundred times, without a grant",
           Body(imports=("tool-invoke",), execute=_repeat(
                500,
                """(call $tool-invoke (i32.const 512) (i32.const 11) (i32.const 512) (i32.const 11) (i32.const 256))
                (if (i32.eqz (i32.load8_u (i32.const 256))) (then (return (i32.const -1))))""",
            ))),
)  # fmt: skip
