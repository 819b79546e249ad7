"""Attacks on resources that are not granted: environment, arguments, files, network, secrets, tools, and the clock.

Each tool succeeds only if it got no resource. Otherwise it returns an address outside its memory.
"""

from __future__ import annotations

from wasmrt.authoring.testing.attacks._attack import attack
from wasmrt.authoring.testing.attacks._build import TEXT_AT, Body


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
