"""The WIT types of wasi:http@0.2, as the engine spells them."""

from __future__ import annotations

_FIELD_SIZE = "record { field-name: option<string>, field-size: option<u32> }"
_ERROR = (
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
_HEADER_ERROR = "variant { invalid-syntax, forbidden, immutable }"
_METHOD = "variant { get, head, post, put, delete, connect, options, trace, patch, other(string) }"
_SCHEME = "variant { HTTP, HTTPS, other(string) }"

HTTP_SIGNATURES: dict[str, dict[str, str]] = {
    "wasi:http/types@0.2.0": {
        "[constructor]fields": "func() -> fields",
        "[static]fields.from-list": f"func(entries: list<tuple<string, list<u8>>>) -> result<fields, {_HEADER_ERROR}>",
        "[method]fields.get": "func(self: borrow<fields>, name: string) -> list<list<u8>>",
        "[method]fields.has": "func(self: borrow<fields>, name: string) -> bool",
        "[method]fields.set": "func(self: borrow<fields>, name: string, value: list<list<u8>>)"
        f" -> result<_, {_HEADER_ERROR}>",
        "[method]fields.delete": f"func(self: borrow<fields>, name: string) -> result<_, {_HEADER_ERROR}>",
        "[method]fields.append": "func(self: borrow<fields>, name: string, value: list<u8>)"
        f" -> result<_, {_HEADER_ERROR}>",
        "[method]fields.entries": "func(self: borrow<fields>) -> list<tuple<string, list<u8>>>",
        "[method]fields.clone": "func(self: borrow<fields>) -> fields",
        "[constructor]outgoing-request": "func(headers: fields) -> outgoing-request",
        "[method]outgoing-request.body": "func(self: borrow<outgoing-request>) -> result<outgoing-body>",
        "[method]outgoing-request.method": f"func(self: borrow<outgoing-request>) -> {_METHOD}",
        "[method]outgoing-request.set-method": f"func(self: borrow<outgoing-request>, method: {_METHOD}) -> result",
        "[method]outgoing-request.path-with-query": "func(self: borrow<outgoing-request>) -> option<string>",
        "[method]outgoing-request.set-path-with-query": "func("
        "self: borrow<outgoing-request>, path-with-query: option<string>) -> result",
        "[method]outgoing-request.scheme": f"func(self: borrow<outgoing-request>) -> option<{_SCHEME}>",
        "[method]outgoing-request.set-scheme": f"func(self: borrow<outgoing-request>, scheme: option<{_SCHEME}>)"
        " -> result",
        "[method]outgoing-request.authority": "func(self: borrow<outgoing-request>) -> option<string>",
        "[method]outgoing-request.set-authority": "func(self: borrow<outgoing-request>, authority: option<string>)"
        " -> result",
        "[method]outgoing-request.headers": "func(self: borrow<outgoing-request>) -> fields",
        "[constructor]request-options": "func() -> request-options",
        "[method]request-options.connect-timeout": "func(self: borrow<request-options>) -> option<u64>",
        "[method]request-options.set-connect-timeout": "func("
        "self: borrow<request-options>, duration: option<u64>) -> result",
        "[method]request-options.first-byte-timeout": "func(self: borrow<request-options>) -> option<u64>",
        "[method]request-options.set-first-byte-timeout": "func("
        "self: borrow<request-options>, duration: option<u64>) -> result",
        "[method]request-options.between-bytes-timeout": "func(self: borrow<request-options>) -> option<u64>",
        "[method]request-options.set-between-bytes-timeout": "func("
        "self: borrow<request-options>, duration: option<u64>) -> result",
        "[method]incoming-response.status": "func(self: borrow<incoming-response>) -> u16",
        "[method]incoming-response.headers": "func(self: borrow<incoming-response>) -> fields",
        "[method]incoming-response.consume": "func(self: borrow<incoming-response>) -> result<incoming-body>",
        "[method]incoming-body.stream": "func(self: borrow<incoming-body>) -> result<input-stream>",
        "[static]incoming-body.finish": "func(this: incoming-body) -> future-trailers",
        "[method]future-trailers.subscribe": "func(self: borrow<future-trailers>) -> pollable",
        "[method]future-trailers.get": "func(self: borrow<future-trailers>)"
        f" -> option<result<result<option<fields>, {_ERROR}>>>",
        "[constructor]outgoing-response": "func(headers: fields) -> outgoing-response",
        "[method]outgoing-body.write": "func(self: borrow<outgoing-body>) -> result<output-stream>",
        "[static]outgoing-body.finish": f"func(this: outgoing-body, trailers: option<fields>) -> result<_, {_ERROR}>",
        "[method]future-incoming-response.subscribe": "func(self: borrow<future-incoming-response>) -> pollable",
        "[method]future-incoming-response.get": "func(self: borrow<future-incoming-response>)"
        f" -> option<result<result<incoming-response, {_ERROR}>>>",
        "http-error-code": f"func(err: borrow<error>) -> option<{_ERROR}>",
    },
    "wasi:http/outgoing-handler@0.2.0": {
        "handle": "func(request: outgoing-request, options: option<request-options>)"
        f" -> result<future-incoming-response, {_ERROR}>",
    },
}
