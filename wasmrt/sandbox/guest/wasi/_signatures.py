"""The WIT type of every WASI function that answers, so that an import of another type is refused before it runs.

Source: the packages wasi:io, clocks, random, cli, filesystem, sockets and http at 0.2. Methods of resources that are
never given out need none: no guest can call them.
"""

from __future__ import annotations

from wasmrt.sandbox.guest.wasi._file_signatures import FILE_SIGNATURES
from wasmrt.sandbox.guest.wasi._http_signatures import HTTP_SIGNATURES

_STREAM_ERROR = "variant { last-operation-failed(error), closed }"
_DATETIME = "record { seconds: u64, nanoseconds: u32 }"
_SOCKET_ERROR = (
    "enum { unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict, "
    "not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, "
    "remote-unreachable, connection-refused, connection-reset, connection-aborted, datagram-too-large, "
    "name-unresolvable, temporary-resolver-failure, permanent-resolver-failure }"
)
_FAMILY = "enum { ipv4, ipv6 }"
_READ = f"func(self: borrow<input-stream>, len: u64) -> result<list<u8>, {_STREAM_ERROR}>"
_SKIP = f"func(self: borrow<input-stream>, len: u64) -> result<u64, {_STREAM_ERROR}>"
_WRITE = f"func(self: borrow<output-stream>, contents: list<u8>) -> result<_, {_STREAM_ERROR}>"
_FLUSH = f"func(self: borrow<output-stream>) -> result<_, {_STREAM_ERROR}>"
_ZEROES = f"func(self: borrow<output-stream>, len: u64) -> result<_, {_STREAM_ERROR}>"
_SPLICE = f"func(self: borrow<output-stream>, src: borrow<input-stream>, len: u64) -> result<u64, {_STREAM_ERROR}>"

SIGNATURES: dict[str, dict[str, str]] = {
    "wasi:io/error@0.2.0": {"[method]error.to-debug-string": "func(self: borrow<error>) -> string"},
    "wasi:io/poll@0.2.0": {
        "poll": "func(in: list<borrow<pollable>>) -> list<u32>",
        "[method]pollable.ready": "func(self: borrow<pollable>) -> bool",
        "[method]pollable.block": "func(self: borrow<pollable>)",
    },
    "wasi:io/streams@0.2.0": {
        "[method]input-stream.read": _READ,
        "[method]input-stream.blocking-read": _READ,
        "[method]input-stream.skip": _SKIP,
        "[method]input-stream.blocking-skip": _SKIP,
        "[method]input-stream.subscribe": "func(self: borrow<input-stream>) -> pollable",
        "[method]output-stream.check-write": f"func(self: borrow<output-stream>) -> result<u64, {_STREAM_ERROR}>",
        "[method]output-stream.write": _WRITE,
        "[method]output-stream.blocking-write-and-flush": _WRITE,
        "[method]output-stream.flush": _FLUSH,
        "[method]output-stream.blocking-flush": _FLUSH,
        "[method]output-stream.subscribe": "func(self: borrow<output-stream>) -> pollable",
        "[method]output-stream.write-zeroes": _ZEROES,
        "[method]output-stream.blocking-write-zeroes-and-flush": _ZEROES,
        "[method]output-stream.splice": _SPLICE,
        "[method]output-stream.blocking-splice": _SPLICE,
    },
    "wasi:clocks/monotonic-clock@0.2.0": {
        "now": "func() -> u64",
        "resolution": "func() -> u64",
        "subscribe-instant": "func(when: u64) -> pollable",
        "subscribe-duration": "func(when: u64) -> pollable",
    },
    "wasi:clocks/wall-clock@0.2.0": {"now": f"func() -> {_DATETIME}", "resolution": f"func() -> {_DATETIME}"},
    "wasi:clocks/timezone@0.2.0": {
        "display": f"func(when: {_DATETIME}) -> "
        "record { utc-offset: s32, name: string, in-daylight-saving-time: bool }",
        "utc-offset": f"func(when: {_DATETIME}) -> s32",
    },
    "wasi:random/random@0.2.0": {
        "get-random-bytes": "func(len: u64) -> list<u8>",
        "get-random-u64": "func() -> u64",
    },
    "wasi:random/insecure@0.2.0": {
        "get-insecure-random-bytes": "func(len: u64) -> list<u8>",
        "get-insecure-random-u64": "func() -> u64",
    },
    "wasi:random/insecure-seed@0.2.0": {"insecure-seed": "func() -> tuple<u64, u64>"},
    "wasi:cli/environment@0.2.0": {
        "get-environment": "func() -> list<tuple<string, string>>",
        "get-arguments": "func() -> list<string>",
        "initial-cwd": "func() -> option<string>",
    },
    "wasi:cli/exit@0.2.0": {"exit": "func(status: result)", "exit-with-code": "func(status-code: u8)"},
    "wasi:cli/stdin@0.2.0": {"get-stdin": "func() -> input-stream"},
    "wasi:cli/stdout@0.2.0": {"get-stdout": "func() -> output-stream"},
    "wasi:cli/stderr@0.2.0": {"get-stderr": "func() -> output-stream"},
    "wasi:cli/terminal-stdin@0.2.0": {"get-terminal-stdin": "func() -> option<terminal-input>"},
    "wasi:cli/terminal-stdout@0.2.0": {"get-terminal-stdout": "func() -> option<terminal-output>"},
    "wasi:cli/terminal-stderr@0.2.0": {"get-terminal-stderr": "func() -> option<terminal-output>"},
    "wasi:filesystem/types@0.2.0": FILE_SIGNATURES,
    "wasi:filesystem/preopens@0.2.0": {"get-directories": "func() -> list<tuple<descriptor, string>>"},
    "wasi:sockets/network@0.2.0": {"network-error-code": f"func(err: borrow<error>) -> option<{_SOCKET_ERROR}>"},
    "wasi:sockets/instance-network@0.2.0": {"instance-network": "func() -> network"},
    "wasi:sockets/ip-name-lookup@0.2.0": {
        "resolve-addresses": "func(network: borrow<network>, name: string) -> "
        f"result<resolve-address-stream, {_SOCKET_ERROR}>"
    },
    "wasi:sockets/tcp-create-socket@0.2.0": {
        "create-tcp-socket": f"func(address-family: {_FAMILY}) -> result<tcp-socket, {_SOCKET_ERROR}>"
    },
    "wasi:sockets/udp-create-socket@0.2.0": {
        "create-udp-socket": f"func(address-family: {_FAMILY}) -> result<udp-socket, {_SOCKET_ERROR}>"
    },
    **HTTP_SIGNATURES,
}
