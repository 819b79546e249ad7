"""The WIT types of WASI functions. A component that imports a function with a different type is rejected early.

Source: the packages wasi:io, clocks, random, cli, filesystem, sockets, http and config at 0.2, as the engine formats
types. Methods of resources that guests never receive have no entry, because no guest can call them.
"""

from __future__ import annotations

_STREAM_ERROR = "variant { last-operation-failed(error), closed }"
_DATETIME = "record { seconds: u64, nanoseconds: u32 }"
_SOCKET_ERROR = (
    "enum { unknown, access-denied, not-supported, invalid-argument, out-of-memory, timeout, concurrency-conflict, "
    "not-in-progress, would-block, invalid-state, new-socket-limit, address-not-bindable, address-in-use, "
    "remote-unreachable, connection-refused, connection-reset, connection-aborted, datagram-too-large, "
    "name-unresolvable, temporary-resolver-failure, permanent-resolver-failure }"
)
_FAMILY = "enum { ipv4, ipv6 }"
_FILE_ERROR = (
    "enum { access, would-block, already, bad-descriptor, busy, deadlock, quota, exist, file-too-large, "
    "illegal-byte-sequence, in-progress, interrupted, invalid, io, is-directory, loop, too-many-links, message-size, "
    "name-too-long, no-device, no-entry, no-lock, insufficient-memory, insufficient-space, not-directory, not-empty, "
    "not-recoverable, unsupported, no-tty, no-such-device, overflow, not-permitted, pipe, read-only, invalid-seek, "
    "text-file-busy, cross-device }"
)
_KIND = "enum { unknown, block-device, character-device, directory, fifo, symbolic-link, regular-file, socket }"
_FLAGS = "flags { read, write, file-integrity-sync, data-integrity-sync, requested-write-sync, mutate-directory }"
_PATH_FLAGS = "flags { symlink-follow }"
_STATUS = (
    f"record {{ type: {_KIND}, link-count: u64, size: u64, data-access-timestamp: option<{_DATETIME}>, "
    f"data-modification-timestamp: option<{_DATETIME}>, status-change-timestamp: option<{_DATETIME}> }}"
)
_HASH = "record { lower: u64, upper: u64 }"
_NEW = f"variant {{ no-change, now, timestamp({_DATETIME}) }}"
_TIMES = f"data-access-timestamp: {_NEW}, data-modification-timestamp: {_NEW}"
_DONE = f"result<_, {_FILE_ERROR}>"
_FIELD_SIZE = "record { field-name: option<string>, field-size: option<u32> }"
_HTTP_ERROR = (
    "variant { DNS-timeout, DNS-error(record { rcode: option<string>, info-code: option<u16> }), "
    "destination-not-found, destination-unavailable, destination-IP-prohibited, "
    "destination-IP-unroutable, connection-refused, connection-terminated, connection-timeout, "
    "connection-read-timeout, connection-write-timeout, connection-limit-reached, TLS-protocol-error, "
    "TLS-certificate-error, TLS-alert-received(record { alert-id: option<u8>, alert-message: "
    "option<string> }), HTTP-request-denied, HTTP-request-length-required, "
    "HTTP-request-body-size(option<u64>), HTTP-request-method-invalid, HTTP-request-URI-invalid, "
    "HTTP-request-URI-too-long, HTTP-request-header-section-size(option<u32>), "
    f"HTTP-request-header-size(option<{_FIELD_SIZE}>), HTTP-request-trailer-section-size(option<u32>), "
    f"HTTP-request-trailer-size({_FIELD_SIZE}), HTTP-response-incomplete, "
    f"HTTP-response-header-section-size(option<u32>), HTTP-response-header-size({_FIELD_SIZE}), "
    "HTTP-response-body-size(option<u64>), HTTP-response-trailer-section-size(option<u32>), "
    f"HTTP-response-trailer-size({_FIELD_SIZE}), HTTP-response-transfer-coding(option<string>), "
    "HTTP-response-content-coding(option<string>), HTTP-response-timeout, HTTP-upgrade-failed, "
    "HTTP-protocol-error, loop-detected, configuration-error, internal-error(option<string>) }"
)
_CONFIG_ERROR = "variant { upstream(string), io(string) }"
_HEADER_ERROR = "variant { invalid-syntax, forbidden, immutable }"
_METHOD = "variant { get, head, post, put, delete, connect, options, trace, patch, other(string) }"
_SCHEME = "variant { HTTP, HTTPS, other(string) }"

# Methods are written as `RESOURCE.NAME`, and their types omit `func` and the `self` parameter.
_TABLE: dict[str, dict[str, str]] = {
    "wasi:io/error@0.2.0": {"error.to-debug-string": "() -> string"},
    "wasi:io/poll@0.2.0": {
        "poll": "func(in: list<borrow<pollable>>) -> list<u32>",
        "pollable.ready": "() -> bool",
        "pollable.block": "()",
    },
    "wasi:io/streams@0.2.0": {
        "input-stream.read": f"(len: u64) -> result<list<u8>, {_STREAM_ERROR}>",
        "input-stream.blocking-read": f"(len: u64) -> result<list<u8>, {_STREAM_ERROR}>",
        "input-stream.skip": f"(len: u64) -> result<u64, {_STREAM_ERROR}>",
        "input-stream.blocking-skip": f"(len: u64) -> result<u64, {_STREAM_ERROR}>",
        "input-stream.subscribe": "() -> pollable",
        "output-stream.check-write": f"() -> result<u64, {_STREAM_ERROR}>",
        "output-stream.write": f"(contents: list<u8>) -> result<_, {_STREAM_ERROR}>",
        "output-stream.blocking-write-and-flush": f"(contents: list<u8>) -> result<_, {_STREAM_ERROR}>",
        "output-stream.flush": f"() -> result<_, {_STREAM_ERROR}>",
        "output-stream.blocking-flush": f"() -> result<_, {_STREAM_ERROR}>",
        "output-stream.subscribe": "() -> pollable",
        "output-stream.write-zeroes": f"(len: u64) -> result<_, {_STREAM_ERROR}>",
        "output-stream.blocking-write-zeroes-and-flush": f"(len: u64) -> result<_, {_STREAM_ERROR}>",
        "output-stream.splice": f"(src: borrow<input-stream>, len: u64) -> result<u64, {_STREAM_ERROR}>",
        "output-stream.blocking-splice": f"(src: borrow<input-stream>, len: u64) -> result<u64, {_STREAM_ERROR}>",
    },
    "wasi:clocks/monotonic-clock@0.2.0": {
        "now": "func() -> u64",
        "resolution": "func() -> u64",
        "subscribe-instant": "func(when: u64) -> pollable",
        "subscribe-duration": "func(when: u64) -> pollable",
    },
    "wasi:clocks/wall-clock@0.2.0": {"now": f"func() -> {_DATETIME}", "resolution": f"func() -> {_DATETIME}"},
    "wasi:clocks/timezone@0.2.0": {
        "display": f"func(when: {_DATETIME}) -> record {{ "
        "utc-offset: s32, name: string, in-daylight-saving-time: bool }",
        "utc-offset": f"func(when: {_DATETIME}) -> s32",
    },
    "wasi:random/random@0.2.0": {"get-random-bytes": "func(len: u64) -> list<u8>", "get-random-u64": "func() -> u64"},
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
    "wasi:config/store@0.2.0": {
        "get": f"func(key: string) -> result<option<string>, {_CONFIG_ERROR}>",
        "get-all": f"func() -> result<list<tuple<string, string>>, {_CONFIG_ERROR}>",
    },
    "wasi:cli/exit@0.2.0": {"exit": "func(status: result)", "exit-with-code": "func(status-code: u8)"},
    "wasi:cli/stdin@0.2.0": {"get-stdin": "func() -> input-stream"},
    "wasi:cli/stdout@0.2.0": {"get-stdout": "func() -> output-stream"},
    "wasi:cli/stderr@0.2.0": {"get-stderr": "func() -> output-stream"},
    "wasi:cli/terminal-stdin@0.2.0": {"get-terminal-stdin": "func() -> option<terminal-input>"},
    "wasi:cli/terminal-stdout@0.2.0": {"get-terminal-stdout": "func() -> option<terminal-output>"},
    "wasi:cli/terminal-stderr@0.2.0": {"get-terminal-stderr": "func() -> option<terminal-output>"},
    "wasi:filesystem/types@0.2.0": {
        "filesystem-error-code": f"func(err: borrow<error>) -> option<{_FILE_ERROR}>",
        "descriptor.read-via-stream": f"(offset: u64) -> result<input-stream, {_FILE_ERROR}>",
        "descriptor.write-via-stream": f"(offset: u64) -> result<output-stream, {_FILE_ERROR}>",
        "descriptor.append-via-stream": f"() -> result<output-stream, {_FILE_ERROR}>",
        "descriptor.advise": f"(offset: u64, length: u64, "
        f"advice: enum {{ normal, sequential, random, will-need, dont-need, no-reuse }}) -> {_DONE}",
        "descriptor.sync-data": f"() -> {_DONE}",
        "descriptor.get-flags": f"() -> result<{_FLAGS}, {_FILE_ERROR}>",
        "descriptor.get-type": f"() -> result<{_KIND}, {_FILE_ERROR}>",
        "descriptor.set-size": f"(size: u64) -> {_DONE}",
        "descriptor.set-times": f"({_TIMES}) -> {_DONE}",
        "descriptor.read": f"(length: u64, offset: u64) -> result<tuple<list<u8>, bool>, {_FILE_ERROR}>",
        "descriptor.write": f"(buffer: list<u8>, offset: u64) -> result<u64, {_FILE_ERROR}>",
        "descriptor.read-directory": f"() -> result<directory-entry-stream, {_FILE_ERROR}>",
        "descriptor.sync": f"() -> {_DONE}",
        "descriptor.create-directory-at": f"(path: string) -> {_DONE}",
        "descriptor.stat": f"() -> result<{_STATUS}, {_FILE_ERROR}>",
        "descriptor.stat-at": f"(path-flags: {_PATH_FLAGS}, path: string) -> result<{_STATUS}, {_FILE_ERROR}>",
        "descriptor.set-times-at": f"(path-flags: {_PATH_FLAGS}, path: string, {_TIMES}) -> {_DONE}",
        "descriptor.link-at": f"(old-path-flags: {_PATH_FLAGS}, old-path: string, "
        f"new-descriptor: borrow<descriptor>, new-path: string) -> {_DONE}",
        "descriptor.open-at": f"(path-flags: {_PATH_FLAGS}, path: string, "
        f"open-flags: flags {{ create, directory, exclusive, truncate }}, flags: {_FLAGS}) -> "
        f"result<descriptor, {_FILE_ERROR}>",
        "descriptor.readlink-at": f"(path: string) -> result<string, {_FILE_ERROR}>",
        "descriptor.remove-directory-at": f"(path: string) -> {_DONE}",
        "descriptor.rename-at": f"(old-path: string, new-descriptor: borrow<descriptor>, new-path: string) -> {_DONE}",
        "descriptor.symlink-at": f"(old-path: string, new-path: string) -> {_DONE}",
        "descriptor.unlink-file-at": f"(path: string) -> {_DONE}",
        "descriptor.is-same-object": "(other: borrow<descriptor>) -> bool",
        "descriptor.metadata-hash": f"() -> result<{_HASH}, {_FILE_ERROR}>",
        "descriptor.metadata-hash-at": f"(path-flags: {_PATH_FLAGS}, path: string) -> result<{_HASH}, {_FILE_ERROR}>",
        "directory-entry-stream.read-directory-entry": "() -> result<option<"
        f"record {{ type: {_KIND}, name: string }}>, {_FILE_ERROR}>",
    },
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
    "wasi:http/types@0.2.0": {
        "[constructor]fields": "func() -> fields",
        "[static]fields.from-list": f"func(entries: list<tuple<string, list<u8>>>) -> result<fields, {_HEADER_ERROR}>",
        "[constructor]outgoing-request": "func(headers: fields) -> outgoing-request",
        "[constructor]request-options": "func() -> request-options",
        "[static]incoming-body.finish": "func(this: incoming-body) -> future-trailers",
        "[constructor]outgoing-response": "func(headers: fields) -> outgoing-response",
        "[static]outgoing-body.finish": "func(this: outgoing-body, trailers: option<fields>) -> "
        f"result<_, {_HTTP_ERROR}>",
        "http-error-code": f"func(err: borrow<error>) -> option<{_HTTP_ERROR}>",
        "fields.get": "(name: string) -> list<list<u8>>",
        "fields.has": "(name: string) -> bool",
        "fields.set": f"(name: string, value: list<list<u8>>) -> result<_, {_HEADER_ERROR}>",
        "fields.delete": f"(name: string) -> result<_, {_HEADER_ERROR}>",
        "fields.append": f"(name: string, value: list<u8>) -> result<_, {_HEADER_ERROR}>",
        "fields.entries": "() -> list<tuple<string, list<u8>>>",
        "fields.clone": "() -> fields",
        "outgoing-request.body": "() -> result<outgoing-body>",
        "outgoing-request.method": f"() -> {_METHOD}",
        "outgoing-request.set-method": f"(method: {_METHOD}) -> result",
        "outgoing-request.path-with-query": "() -> option<string>",
        "outgoing-request.set-path-with-query": "(path-with-query: option<string>) -> result",
        "outgoing-request.scheme": f"() -> option<{_SCHEME}>",
        "outgoing-request.set-scheme": f"(scheme: option<{_SCHEME}>) -> result",
        "outgoing-request.authority": "() -> option<string>",
        "outgoing-request.set-authority": "(authority: option<string>) -> result",
        "outgoing-request.headers": "() -> fields",
        "request-options.connect-timeout": "() -> option<u64>",
        "request-options.set-connect-timeout": "(duration: option<u64>) -> result",
        "request-options.first-byte-timeout": "() -> option<u64>",
        "request-options.set-first-byte-timeout": "(duration: option<u64>) -> result",
        "request-options.between-bytes-timeout": "() -> option<u64>",
        "request-options.set-between-bytes-timeout": "(duration: option<u64>) -> result",
        "incoming-response.status": "() -> u16",
        "incoming-response.headers": "() -> fields",
        "incoming-response.consume": "() -> result<incoming-body>",
        "incoming-body.stream": "() -> result<input-stream>",
        "future-trailers.subscribe": "() -> pollable",
        "future-trailers.get": f"() -> option<result<result<option<fields>, {_HTTP_ERROR}>>>",
        "outgoing-body.write": "() -> result<output-stream>",
        "future-incoming-response.subscribe": "() -> pollable",
        "future-incoming-response.get": f"() -> option<result<result<incoming-response, {_HTTP_ERROR}>>>",
        "incoming-request.method": f"() -> {_METHOD}",
        "incoming-request.path-with-query": "() -> option<string>",
        "incoming-request.scheme": f"() -> option<{_SCHEME}>",
        "incoming-request.authority": "() -> option<string>",
        "incoming-request.headers": "() -> fields",
        "incoming-request.consume": "() -> result<incoming-body>",
        "outgoing-response.status-code": "() -> u16",
        "outgoing-response.set-status-code": "(status-code: u16) -> result",
        "outgoing-response.headers": "() -> fields",
        "outgoing-response.body": "() -> result<outgoing-body>",
        "[static]response-outparam.set": "func(param: response-outparam, response: "
        f"result<outgoing-response, {_HTTP_ERROR}>)",
    },
    "wasi:http/outgoing-handler@0.2.0": {
        "handle": "func(request: outgoing-request, options: option<request-options>) -> "
        f"result<future-incoming-response, {_HTTP_ERROR}>"
    },
}


def _expand(name: str, signature: str) -> tuple[str, str]:
    resource, dot, _ = name.partition(".")
    if not dot or name.startswith("["):
        return name, signature
    rest = signature.removeprefix("(")
    return f"[method]{name}", f"func(self: borrow<{resource}>{'' if rest.startswith(')') else ', '}{rest}"


SIGNATURES = {
    interface: dict(_expand(name, signature) for name, signature in functions.items())
    for interface, functions in _TABLE.items()
}
