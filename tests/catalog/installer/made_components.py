"""Components for these tests, and a sidecar with a request."""

from __future__ import annotations

import wasmtime

HTTP = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}]}}


def component(*imports: str, answer: int = 1, export: str = "run") -> bytes:
    """Return a component that imports instances with these names and exports one function."""
    lines = [f'(import "{name}" (instance))' for name in imports]
    core = f'(core module $m (func (export "run") (result i32) i32.const {answer})) (core instance $i (instantiate $m))'
    lift = '(func $run (result u32) (canon lift (core func $i "run")))'
    return bytes(wasmtime.wat2wasm(f'(component {" ".join(lines)} {core} {lift} (export "{export}" (func $run)))'))
