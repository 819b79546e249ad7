"""The imports that an attack may use, as component text: a block per interface, a line per function.

Flattened signatures follow the component model's canonical ABI: a string or list is two i32, and a result that does not
fit in one core value is written to a pointer, which is the last parameter.
"""

from __future__ import annotations

# name -> (required blocks, component text)
BLOCKS: dict[str, tuple[tuple[str, ...], str]] = {
    "host": (
        (),
        """(import "near:agent/host@0.3.0" (instance $host
          (type $level' (enum "trace" "debug" "info" "warn" "error"))
          (export "log-level" (type $level (eq $level')))
          (export "log" (func (param "level" $level) (param "message" string)))
          (export "now-millis" (func (result u64)))
          (export "workspace-read" (func (param "path" string) (result (option string))))
          (type $answer' (record (field "status" u16) (field "headers-json" string) (field "body" (list u8))))
          (export "http-response" (type $answer (eq $answer')))
          (export "http-request" (func (param "method" string) (param "url" string) (param "headers-json" string)
            (param "body" (option (list u8))) (param "timeout-ms" (option u32))
            (result (result $answer (error string)))))
          (export "tool-invoke" (func (param "alias" string) (param "params-json" string)
            (result (result string (error string)))))
          (export "secret-exists" (func (param "name" string) (result bool)))))""",
    ),
    "tool-http": (
        (),
        """(import "wasmrt:tool/types@0.1.0" (instance $tooltypes
          (type $kind' (enum "auth-required" "input" "output-too-large" "executor" "network-denied" "client"
            "operation-failed"))
          (export "failure-kind" (type $kind (eq $kind')))
          (type $failure' (record (field "kind" $kind) (field "code" (option string)) (field "message" string)))
          (export "failure" (type (eq $failure')))))
        (alias export $tooltypes "failure" (type $toolfailure))
        (import "wasmrt:tool/http@0.1.0" (instance $toolhttp
          (alias outer 1 $toolfailure (type $f'))
          (export "failure" (type $f (eq $f')))
          (type $method' (enum "get" "head" "post" "put" "patch" "delete" "options"))
          (export "method" (type $method (eq $method')))
          (type $header' (record (field "name" string) (field "value" string)))
          (export "header" (type $header (eq $header')))
          (type $request' (record (field "method" $method) (field "url" string) (field "headers" (list $header))
            (field "body" (option (list u8))) (field "timeout-ms" (option u32))))
          (export "request" (type $request (eq $request')))
          (type $response' (record (field "status" u16) (field "headers" (list $header)) (field "body" (list u8))))
          (export "response" (type $response (eq $response')))
          (export "fetch" (func (param "request" $request) (result (result $response (error $f)))))))""",
    ),
    "poll": (
        (),
        """(import "wasi:io/poll@0.2.0" (instance $poll
          (export "pollable" (type $pollable (sub resource)))
          (export "[method]pollable.block" (func (param "self" (borrow $pollable))))
          (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
        (alias export $poll "pollable" (type $pollable))""",
    ),
    "clock": (
        ("poll",),
        """(import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
          (alias outer 1 $pollable (type $p'))
          (export "pollable" (type $p (eq $p')))
          (export "now" (func (result u64)))
          (export "subscribe-duration" (func (param "when" u64) (result (own $p))))))""",
    ),
    "random": (
        (),
        """(import "wasi:random/random@0.2.0" (instance $random
          (export "get-random-bytes" (func (param "len" u64) (result (list u8))))
          (export "get-random-u64" (func (result u64)))))""",
    ),
    "streams": (
        (),
        """(import "wasi:io/error@0.2.0" (instance $ioerror (export "error" (type (sub resource)))))
        (alias export $ioerror "error" (type $ioerror))
        (import "wasi:io/streams@0.2.0" (instance $streams
          (export "output-stream" (type $output (sub resource)))
          (export "input-stream" (type $input (sub resource)))
          (alias outer 1 $ioerror (type $e'))
          (export "error" (type $e (eq $e')))
          (type $failure' (variant (case "last-operation-failed" (own $e)) (case "closed")))
          (export "stream-error" (type $failure (eq $failure')))
          (export "[method]output-stream.blocking-write-and-flush" (func (param "self" (borrow $output))
            (param "contents" (list u8)) (result (result (error $failure)))))
          (export "[method]output-stream.write-zeroes" (func (param "self" (borrow $output))
            (param "len" u64) (result (result (error $failure)))))
          (export "[method]input-stream.blocking-read" (func (param "self" (borrow $input)) (param "len" u64)
            (result (result (list u8) (error $failure)))))))
        (alias export $streams "output-stream" (type $output))
        (alias export $streams "input-stream" (type $input))""",
    ),
    "stdout": (
        ("streams",),
        """(import "wasi:cli/stdout@0.2.0" (instance $stdout
          (alias outer 1 $output (type $o'))
          (export "output-stream" (type $o (eq $o')))
          (export "get-stdout" (func (result (own $o))))))""",
    ),
    "stdin": (
        ("streams",),
        """(import "wasi:cli/stdin@0.2.0" (instance $stdin
          (alias outer 1 $input (type $i'))
          (export "input-stream" (type $i (eq $i')))
          (export "get-stdin" (func (result (own $i))))))""",
    ),
    "environment": (
        (),
        """(import "wasi:cli/environment@0.2.0" (instance $environment
          (export "get-environment" (func (result (list (tuple string string)))))
          (export "get-arguments" (func (result (list string))))))""",
    ),
    "exit": (
        (),
        """(import "wasi:cli/exit@0.2.0" (instance $exit
          (export "exit" (func (param "status" (result))))))""",
    ),
    "files": (
        (),
        """(import "wasi:filesystem/types@0.2.0" (instance $files
          (export "descriptor" (type (sub resource)))))
        (alias export $files "descriptor" (type $descriptor))
        (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
          (alias outer 1 $descriptor (type $d'))
          (export "descriptor" (type $d (eq $d')))
          (export "get-directories" (func (result (list (tuple (own $d) string)))))))""",
    ),
    "sockets": (
        (),
        """(import "wasi:sockets/network@0.2.0" (instance $net
          (export "network" (type (sub resource)))
          (type $code' (enum "unknown" "access-denied" "not-supported" "invalid-argument" "out-of-memory" "timeout"
            "concurrency-conflict" "not-in-progress" "would-block" "invalid-state" "new-socket-limit"
            "address-not-bindable" "address-in-use" "remote-unreachable" "connection-refused" "connection-reset"
            "connection-aborted" "datagram-too-large" "name-unresolvable" "temporary-resolver-failure"
            "permanent-resolver-failure"))
          (export "error-code" (type (eq $code')))
          (type $family' (enum "ipv4" "ipv6"))
          (export "ip-address-family" (type (eq $family')))))
        (alias export $net "network" (type $network))
        (alias export $net "error-code" (type $code))
        (alias export $net "ip-address-family" (type $family))
        (import "wasi:sockets/instance-network@0.2.0" (instance $netinstance
          (alias outer 1 $network (type $n'))
          (export "network" (type $n (eq $n')))
          (export "instance-network" (func (result (own $n))))))
        (import "wasi:sockets/tcp@0.2.0" (instance $tcp (export "tcp-socket" (type (sub resource)))))
        (alias export $tcp "tcp-socket" (type $socket))
        (import "wasi:sockets/tcp-create-socket@0.2.0" (instance $create
          (alias outer 1 $code (type $c'))
          (export "error-code" (type $c (eq $c')))
          (alias outer 1 $family (type $f'))
          (export "ip-address-family" (type $f (eq $f')))
          (alias outer 1 $socket (type $s'))
          (export "tcp-socket" (type $s (eq $s')))
          (export "create-tcp-socket" (func (param "address-family" $f) (result (result (own $s) (error $c)))))))
        (import "wasi:sockets/ip-name-lookup@0.2.0" (instance $names
          (export "resolve-address-stream" (type $stream (sub resource)))
          (alias outer 1 $code (type $c'))
          (export "error-code" (type $c (eq $c')))
          (alias outer 1 $network (type $n'))
          (export "network" (type $n (eq $n')))
          (export "resolve-addresses" (func (param "network" (borrow $n)) (param "name" string)
            (result (result (own $stream) (error $c)))))))""",
    ),
}

# core name -> (block, instance, exported name, core signature)
FUNCTIONS: dict[str, tuple[str, str, str, str]] = {
    "log": ("host", "$host", "log", "(param i32 i32 i32)"),
    "now-millis": ("host", "$host", "now-millis", "(result i64)"),
    "workspace-read": ("host", "$host", "workspace-read", "(param i32 i32 i32)"),
    "http-request": ("host", "$host", "http-request", f"(param{' i32' * 12})"),
    "tool-invoke": ("host", "$host", "tool-invoke", "(param i32 i32 i32 i32 i32)"),
    "secret-exists": ("host", "$host", "secret-exists", "(param i32 i32) (result i32)"),
    "fetch": ("tool-http", "$toolhttp", "fetch", f"(param{' i32' * 11})"),
    "poll": ("poll", "$poll", "poll", "(param i32 i32 i32)"),
    "block": ("poll", "$poll", "[method]pollable.block", "(param i32)"),
    "now": ("clock", "$clock", "now", "(result i64)"),
    "subscribe-duration": ("clock", "$clock", "subscribe-duration", "(param i64) (result i32)"),
    "get-random-bytes": ("random", "$random", "get-random-bytes", "(param i64 i32)"),
    "get-random-u64": ("random", "$random", "get-random-u64", "(result i64)"),
    "write": ("streams", "$streams", "[method]output-stream.blocking-write-and-flush", "(param i32 i32 i32 i32)"),
    "write-zeroes": ("streams", "$streams", "[method]output-stream.write-zeroes", "(param i32 i64 i32)"),
    "read": ("streams", "$streams", "[method]input-stream.blocking-read", "(param i32 i64 i32)"),
    "get-stdout": ("stdout", "$stdout", "get-stdout", "(result i32)"),
    "get-stdin": ("stdin", "$stdin", "get-stdin", "(result i32)"),
    "get-environment": ("environment", "$environment", "get-environment", "(param i32)"),
    "get-arguments": ("environment", "$environment", "get-arguments", "(param i32)"),
    "exit": ("exit", "$exit", "exit", "(param i32)"),
    "get-directories": ("files", "$preopens", "get-directories", "(param i32)"),
    "instance-network": ("sockets", "$netinstance", "instance-network", "(result i32)"),
    "create-tcp-socket": ("sockets", "$create", "create-tcp-socket", "(param i32 i32)"),
    "resolve-addresses": ("sockets", "$names", "resolve-addresses", "(param i32 i32 i32 i32)"),
}

# core name -> (block, resource) of the built-in function that drops a handle
DROPS: dict[str, tuple[str, str]] = {"drop-pollable": ("poll", "$pollable"), "drop-output": ("streams", "$output")}
