"""Components that forward one import of a tool world, so that the test gets the host's reply to a guest.

A relay exports one function with the import's own parameters and result. Enums and records go out as the numbers and
tuples that lie in memory alike, because only named types can be records and no name is needed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import wasmtime

LIBC = """
  (core module $libc (memory (export "memory") 2)
    (global $top (mut i32) (i32.const 4096))
    (func (export "realloc") (param $from i32) (param $old i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get $size) (i32.const 16)))))))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
"""

_KINDS = '"auth-required" "input" "output-too-large" "executor" "network-denied" "client" "operation-failed"'
KINDS = tuple(_KINDS.replace('"', "").split())
_FAILURE = f"""
    (type $kind' (enum {_KINDS})) (export "failure-kind" (type $kind (eq $kind')))
    (type $failure' (record (field "kind" $kind) (field "code" (option string)) (field "message" string)))
    (export "failure" (type $failure (eq $failure')))"""
_HTTP_FAILURE = f"""
    (type $kind' (enum {_KINDS})) (export "failure-kind" (type $kind (eq $kind')))
    (type $failure' (record (field "kind" $kind) (field "code" (option string)) (field "message" (option string))
      (field "request-sent" bool)))
    (export "http-failure" (type $failure (eq $failure')))"""
_AGENT_RESPONSE = """
    (type $response' (record (field "status" u16) (field "headers-json" string) (field "body" (list u8))))
    (export "http-response" (type $response (eq $response')))"""
_HTTP = """
    (type $method' (enum "get" "head" "post" "put" "patch" "delete" "options"))
    (export "method" (type $method (eq $method')))
    (type $header' (record (field "name" string) (field "value" string)))
    (export "header" (type $header (eq $header')))
    (type $request' (record (field "method" $method) (field "url" string) (field "headers" (list $header))
      (field "body" (option (list u8))) (field "timeout-ms" (option u32))))
    (export "request" (type $request (eq $request')))
    (type $answer' (record (field "status" u16) (field "headers" (list $header)) (field "body" (list u8))))
    (export "response" (type $answer (eq $answer')))"""
_ENTRY = """
    (type $what' (enum "file" "directory")) (export "entry-kind" (type $what (eq $what')))
    (type $entry' (record (field "name" string) (field "kind" $what) (field "size" u64)))
    (export "entry" (type $entry (eq $entry')))"""
_AGENT_REQUEST = """(param "method" string) (param "url" string) (param "headers-json" string)
    (param "body" (option (list u8))) (param "timeout-ms" (option u32))"""
_FAILED = "(error (tuple u8 (option string) string))"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """One import, and the types of its export."""

    interface: str
    function: str
    types: str = ""
    params: str
    result: str
    shown_params: str = ""
    """The exported params if they differ from `params`, which need names."""
    shown_result: str = ""
    flat: str
    """Core parameters without the one for the result."""
    in_memory: bool = True
    """Whether the result is more than one core value."""

    def component(self) -> bytes:
        """The component, which exports `ask`."""
        count = len(self.flat.split())
        passed = " ".join(f"(local.get {n})" for n in range(count))
        call = f"(call $asked {passed} (i32.const 64)) (i32.const 64)" if self.in_memory else f"(call $asked {passed})"
        returned = "" if not self.result else "(result i64)" if self.result == "u64" else "(result i32)"
        wanted = f"(param {self.flat} i32)" if self.in_memory else f"(param {self.flat}) {returned}"
        options = "(memory $memory) (realloc $realloc)"
        return bytes(
            wasmtime.wat2wasm(f"""(component
  (import "{self.interface}" (instance $host {self.types}
    (export "{self.function}" (func {self.params} {_in_result(self.result)}))))
  {LIBC}
  (core func $asked (canon lower (func $host "{self.function}") {options}))
  (core module $main
    (import "host" "asked" (func $asked {wanted}))
    (func (export "ask") (param {self.flat}) {returned} {call}))
  (core instance $main (instantiate $main (with "host" (instance (export "asked" (func $asked))))))
  (func (export "ask") {self.shown_params or self.params} {_in_result(self.shown_result or self.result)}
    (canon lift (core func $main "ask") {options})))""")
        )


def _in_result(kind: str) -> str:
    return f"(result {kind})" if kind else ""


def agent_http(version: str) -> Relay:
    """near:agent's `http-request`: its failures are typed from 0.4.1 on."""
    typed = version == "@0.4.1"
    error = "(error $failure)" if typed else "(error string)"
    shown = "(error (tuple u8 (option string) (option string) bool))" if typed else error
    return Relay(
        interface=f"near:agent/host{version}",
        function="http-request",
        types=_AGENT_RESPONSE + (_HTTP_FAILURE if typed else ""),
        params=_AGENT_REQUEST,
        result=f"(result $response {error})",
        shown_result=f"(result (tuple u16 string (list u8)) {shown})",
        flat="i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32",
    )


def agent_read(version: str) -> Relay:
    """near:agent's `workspace-read`."""
    return Relay(
        interface=f"near:agent/host{version}",
        function="workspace-read",
        params='(param "path" string)',
        result="(option string)",
        flat="i32 i32",
    )


def agent_invoke(version: str) -> Relay:
    """near:agent's `tool-invoke`."""
    return Relay(
        interface=f"near:agent/host{version}",
        function="tool-invoke",
        params='(param "alias" string) (param "params-json" string)',
        result="(result string (error string))",
        flat="i32 i32 i32 i32",
    )


FETCH = Relay(
    interface="wasmrt:tool/http@0.1.0",
    function="fetch",
    types=_FAILURE + _HTTP,
    params='(param "request" $request)',
    result="(result $answer (error $failure))",
    shown_params="""(param "request" (tuple u8 string (list (tuple string string)) (option (list u8)) (option u32)))""",
    shown_result=f"(result (tuple u16 (list (tuple string string)) (list u8)) {_FAILED})",
    flat="i32 i32 i32 i32 i32 i32 i32 i32 i32 i32",
)
READ = Relay(
    interface="wasmrt:tool/workspace@0.1.0",
    function="read",
    types=_FAILURE,
    params='(param "path" string)',
    result="(result (list u8) (error $failure))",
    shown_result=f"(result (list u8) {_FAILED})",
    flat="i32 i32",
)
LIST = Relay(
    interface="wasmrt:tool/workspace@0.1.0",
    function="list",
    types=_FAILURE + _ENTRY,
    params='(param "path" string)',
    result="(result (list $entry) (error $failure))",
    shown_result=f"(result (list (tuple string u8 u64)) {_FAILED})",
    flat="i32 i32",
)
INVOKE = Relay(
    interface="wasmrt:tool/tools@0.1.0",
    function="invoke",
    types=_FAILURE,
    params='(param "alias" string) (param "params" string)',
    result="(result string (error $failure))",
    shown_result=f"(result string {_FAILED})",
    flat="i32 i32 i32 i32",
)
PROGRESS = Relay(
    interface="wasmrt:tool/progress@0.1.0",
    function="report",
    params='(param "done" u64) (param "total" (option u64)) (param "message" (option string))',
    result="",
    flat="i64 i32 i64 i32 i32 i32",
    in_memory=False,
)


def secret_asker(interface: str, function: str) -> Relay:
    """A question about a secret's name."""
    return Relay(
        interface=interface,
        function=function,
        params='(param "name" string)',
        result="bool",
        flat="i32 i32",
        in_memory=False,
    )


def reporter(after: str = "(i32.const 1)", times: int = 1) -> bytes:
    """A component whose `work` reports progress, which runs a function of the caller, and then does `after`."""
    return bytes(
        wasmtime.wat2wasm(f"""(component
  (import "wasmrt:tool/progress@0.1.0" (instance $progress (export "report"
    (func (param "done" u64) (param "total" (option u64)) (param "message" (option string))))))
  {LIBC}
  (core func $report (canon lower (func $progress "report") (memory $memory) (realloc $realloc)))
  (core module $main
    (import "host" "report" (func $report (param i64 i32 i64 i32 i32 i32)))
    (func (export "work") (result i32) (local $left i32)
      (local.set $left (i32.const {times}))
      (loop $again
        (call $report (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
        (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
      {after}))
  (core instance $main (instantiate $main (with "host" (instance (export "report" (func $report))))))
  (func (export "work") (result bool) (canon lift (core func $main "work"))))""")
    )
