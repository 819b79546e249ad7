"""Guests that hand an import's answer out, and a runtime around them, for the decisions at the border."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import wasmtime

from wasmrt import Capabilities, PreparedTool, WasmRuntimeConfig, WasmToolRuntime

LIBC = """
  (core module $libc (memory (export "memory") 2)
    (global $top (mut i32) (i32.const 4096))
    (func (export "realloc") (param $from i32) (param $old i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get $size)))
      (local.get $at)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "memory" (core memory $memory))
  (alias core export $libc "realloc" (core func $realloc))
"""


def secret_asker(interface: str, function: str) -> bytes:
    """A component whose `ask` returns what the import answered about a secret's name."""
    return bytes(
        wasmtime.wat2wasm(f"""(component
  (import "{interface}" (instance $host (export "{function}" (func (param "name" string) (result bool)))))
  {LIBC}
  (core func $exists (canon lower (func $host "{function}") (memory $memory) (realloc $realloc)))
  (core module $main
    (import "host" "exists" (func $exists (param i32 i32) (result i32)))
    (func (export "ask") (param i32 i32) (result i32) (call $exists (local.get 0) (local.get 1))))
  (core instance $main (instantiate $main (with "host" (instance (export "exists" (func $exists))))))
  (func (export "ask") (param "name" string) (result bool)
    (canon lift (core func $main "ask") (memory $memory) (realloc $realloc))))""")
    )


def reporter(after: str = "(i32.const 1)") -> bytes:
    """A component whose `work` reports progress, so that a function of the caller runs, and then does `after`."""
    return bytes(
        wasmtime.wat2wasm(f"""(component
  (import "wasmrt:tool/progress@0.1.0" (instance $progress (export "report"
    (func (param "done" u64) (param "total" (option u64)) (param "message" (option string))))))
  {LIBC}
  (core func $report (canon lower (func $progress "report") (memory $memory) (realloc $realloc)))
  (core module $main
    (import "host" "report" (func $report (param i64 i32 i64 i32 i32 i32)))
    (func (export "work") (result i32)
      (call $report (i64.const 1) (i32.const 0) (i64.const 0) (i32.const 0) (i32.const 0) (i32.const 0))
      {after}))
  (core instance $main (instantiate $main (with "host" (instance (export "report" (func $report))))))
  (func (export "work") (result bool) (canon lift (core func $main "work"))))""")
    )


Start = Callable[..., WasmToolRuntime]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Makes runtimes that are closed when the test ends."""
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    with ExitStack() as stack:

        def make(**config: Any) -> WasmToolRuntime:
            return stack.enter_context(WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, **config)))

        yield make


def only_tool(
    runtime: WasmToolRuntime, component: bytes, grant: Capabilities | None = None, **more: Any
) -> PreparedTool:
    """The one tool of a component."""
    prepared = runtime.prepare("tool", component, grant, **more)
    return prepared.tool(prepared.tools[0].name)
