"""The tool worlds, a table made of the WIT files under wit/ by `python tools/worlds_table.py --write`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

# ruff: noqa: E501 - a signature is one line
# fmt: off

class FailureKind(StrEnum):
    """Why a tool or a host function could not do what was asked; the set is closed."""

    AUTH_REQUIRED = "auth-required"
    """A credential is missing, expired or was refused."""
    INPUT = "input"
    """The caller's input is wrong; a model can correct it."""
    OUTPUT_TOO_LARGE = "output-too-large"
    """The answer is over a cap."""
    EXECUTOR = "executor"
    """The host could not run the request: a budget, a deadline, a missing part."""
    NETWORK_DENIED = "network-denied"
    """The grant does not cover it. The message says which line would."""
    CLIENT = "client"
    """The other side answered that the request is wrong (4xx)."""
    OPERATION_FAILED = "operation-failed"
    """Anything else that failed."""


INTERFACES: Mapping[str, Mapping[str, str]] = {
    "wasmrt:tool/provider@0.1.0": {
        "describe": "func() -> list<record { name: string, description: string, schema: string, annotations: record { read-only: bool, destructive: bool, network: bool } }>",
        "call": "func(name: string, params: string, context: option<string>) -> result<string, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
    },
    "wasmrt:tool/types@0.1.0": {},
    "wasmrt:tool/http@0.1.0": {
        "fetch": "func(request: record { method: enum { get, head, post, put, patch, delete, options }, url: string, headers: list<record { name: string, value: string }>, body: option<list<u8>>, timeout-ms: option<u32> }) -> result<record { status: u16, headers: list<record { name: string, value: string }>, body: list<u8> }, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
    },
    "wasmrt:tool/workspace@0.1.0": {
        "read": "func(path: string) -> result<list<u8>, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "read-text": "func(path: string) -> result<string, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "read-text-part": "func(path: string, offset: u64, length: u32) -> result<string, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "list": "func(path: string) -> result<list<record { name: string, kind: enum { file, directory }, size: u64 }>, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "stat": "func(path: string) -> result<record { name: string, kind: enum { file, directory }, size: u64 }, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "write": "func(path: string, content: list<u8>, new: bool) -> result<_, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "write-text": "func(path: string, content: string, new: bool) -> result<_, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "copy": "func(path: string, to: string) -> result<u64, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "make-directory": "func(path: string) -> result<_, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "remove": "func(path: string, kind: enum { file, directory }) -> result<_, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
        "rename": "func(path: string, to: string) -> result<_, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
    },
    "wasmrt:tool/secrets@0.1.0": {
        "exists": "func(name: string) -> bool",
    },
    "wasmrt:tool/tools@0.1.0": {
        "invoke": "func(alias: string, params: string) -> result<string, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: string }>",
    },
    "wasmrt:tool/log@0.1.0": {
        "log": "func(level: enum { trace, debug, info, warn, error }, message: string)",
    },
    "wasmrt:tool/clock@0.1.0": {
        "now": "func() -> u64",
        "monotonic": "func() -> u64",
    },
    "wasmrt:tool/progress@0.1.0": {
        "report": "func(done: u64, total: option<u64>, message: option<string>)",
    },
    "near:agent/tool": {
        "execute": "func(req: record { params: string, context: option<string> }) -> record { output: option<string>, error: option<string> }",
        "schema": "func() -> string",
        "description": "func() -> string",
    },
    "near:agent/host": {
        "log": "func(level: enum { trace, debug, info, warn, error }, message: string)",
        "now-millis": "func() -> u64",
        "workspace-read": "func(path: string) -> option<string>",
        "http-request": "func(method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>) -> result<record { status: u16, headers-json: string, body: list<u8> }, string>",
        "tool-invoke": "func(alias: string, params-json: string) -> result<string, string>",
        "secret-exists": "func(name: string) -> bool",
    },
    "near:agent/tool@0.2.0": {
        "execute": "func(req: record { params: string, context: option<string> }) -> record { output: option<string>, error: option<string> }",
        "schema": "func() -> string",
        "description": "func() -> string",
    },
    "near:agent/host@0.2.0": {
        "log": "func(level: enum { trace, debug, info, warn, error }, message: string)",
        "now-millis": "func() -> u64",
        "workspace-read": "func(path: string) -> option<string>",
        "http-request": "func(method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>) -> result<record { status: u16, headers-json: string, body: list<u8> }, string>",
        "tool-invoke": "func(alias: string, params-json: string) -> result<string, string>",
        "secret-exists": "func(name: string) -> bool",
    },
    "near:agent/tool@0.3.0": {
        "execute": "func(req: record { params: string, context: option<string> }) -> record { output: option<string>, error: option<string> }",
        "schema": "func() -> string",
        "description": "func() -> string",
    },
    "near:agent/host@0.3.0": {
        "log": "func(level: enum { trace, debug, info, warn, error }, message: string)",
        "now-millis": "func() -> u64",
        "workspace-read": "func(path: string) -> option<string>",
        "http-request": "func(method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>) -> result<record { status: u16, headers-json: string, body: list<u8> }, string>",
        "tool-invoke": "func(alias: string, params-json: string) -> result<string, string>",
        "secret-exists": "func(name: string) -> bool",
    },
    "near:agent/tool@0.4.1": {
        "execute": "func(req: record { params: string, context: option<string> }) -> variant { success(string), failure(record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: option<string> }) }",
        "schema": "func() -> string",
        "description": "func() -> string",
    },
    "near:agent/host@0.4.1": {
        "log": "func(level: enum { trace, debug, info, warn, error }, message: string)",
        "now-millis": "func() -> u64",
        "workspace-read": "func(path: string) -> option<string>",
        "http-request": "func(method: string, url: string, headers-json: string, body: option<list<u8>>, timeout-ms: option<u32>) -> result<record { status: u16, headers-json: string, body: list<u8> }, record { kind: enum { auth-required, input, output-too-large, executor, network-denied, client, operation-failed }, code: option<string>, message: option<string>, request-sent: bool }>",
        "tool-invoke": "func(alias: string, params-json: string) -> result<string, string>",
        "secret-exists": "func(name: string) -> bool",
    },
}
"""Every interface of the worlds: its functions, each with its type in WIT, written out."""

WORLDS: tuple[tuple[str, tuple[str, ...], bool], ...] = (
    ("wasmrt:tool/provider@0.1.0", ("wasmrt:tool/types@0.1.0", "wasmrt:tool/http@0.1.0", "wasmrt:tool/workspace@0.1.0", "wasmrt:tool/secrets@0.1.0", "wasmrt:tool/tools@0.1.0", "wasmrt:tool/log@0.1.0", "wasmrt:tool/clock@0.1.0", "wasmrt:tool/progress@0.1.0",), True),
    ("near:agent/tool", ("near:agent/host",), False),
    ("near:agent/tool@0.2.0", ("near:agent/host@0.2.0",), False),
    ("near:agent/tool@0.3.0", ("near:agent/host@0.3.0",), False),
    ("near:agent/tool@0.4.1", ("near:agent/host@0.4.1",), True),
)
"""Each world: the interface it exports, those it may import, and whether failures are typed."""
