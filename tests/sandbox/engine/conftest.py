"""A component with plain exports and two imports, and a minimal call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import wasmtime

from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import (
    Component,
    Export,
    HostInterface,
    Linker,
    Sandbox,
    StoreLimits,
)
from wasmrt.sandbox.guest.settings import EngineConfig

LIBC = """
  (core module $libc (memory (export "mem") 2 64)
    (global $p (mut i32) (i32.const 1024))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $r i32)
      (local.set $r (i32.and (i32.add (global.get $p) (i32.const 7)) (i32.const -8)))
      (global.set $p (i32.add (local.get $r) (local.get 3)))
      (if (i32.gt_u (global.get $p) (i32.mul (memory.size) (i32.const 65536)))
        (then (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get 3) (i32.const 16)))))))
      (local.get $r)))
  (core instance $libc (instantiate $libc))
  (alias core export $libc "mem" (core memory $mem))
  (alias core export $libc "realloc" (core func $realloc))
"""

HOST = """
  (import "near:agent/host@0.3.0" (instance $host
    (export "now-millis" (func (result u64)))
    (export "workspace-read" (func (param "path" string) (result (option string))))))
"""

PLAIN = f"""(component {HOST} {LIBC}
  (core func $now (canon lower (func $host "now-millis")))
  (core func $ws (canon lower (func $host "workspace-read") (memory $mem) (realloc $realloc)))
  (core module $m
    (import "l" "mem" (memory 1))
    (import "h" "now" (func $now (result i64)))
    (import "h" "ws" (func $ws (param i32 i32 i32)))
    (global $count (mut i32) (i32.const 0))
    (func (export "echo") (param i32 i32) (result i32)
      (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1)) (i32.const 16))
    (func (export "now") (result i64) (call $now))
    (func (export "ws") (param i32 i32) (result i32)
      (call $ws (local.get 0) (local.get 1) (i32.const 32)) (i32.const 32))
    (func (export "spin") (loop (br 0)))
    (func $recurse (export "recurse") (call $recurse))
    (func (export "unreachable") unreachable)
    (func (export "outside") (drop (i32.load (i32.const 99999999))))
    (func (export "divide") (drop (i32.div_u (i32.const 1) (i32.const 0))))
    (func (export "count") (result i32)
      (global.set $count (i32.add (global.get $count) (i32.const 1))) (global.get $count)))
  (core instance $i (instantiate $m
    (with "l" (instance $libc)) (with "h" (instance (export "now" (func $now)) (export "ws" (func $ws))))))
  (func (export "echo") (param "s" string) (result string)
    (canon lift (core func $i "echo") (memory $mem) (realloc $realloc)))
  (func (export "echo-bytes") (param "s" (list u8)) (result (list u8))
    (canon lift (core func $i "echo") (memory $mem) (realloc $realloc)))
  (func (export "echo-words") (param "s" (list u32)) (result (list u32))
    (canon lift (core func $i "echo") (memory $mem) (realloc $realloc)))
  (func (export "now") (result u64) (canon lift (core func $i "now")))
  (func (export "ws") (param "p" string) (result (option string))
    (canon lift (core func $i "ws") (memory $mem) (realloc $realloc)))
  (func (export "count") (result u32) (canon lift (core func $i "count")))
  (func (export "spin") (canon lift (core func $i "spin")))
  (func (export "recurse") (canon lift (core func $i "recurse")))
  (func (export "unreachable") (canon lift (core func $i "unreachable")))
  (func (export "outside") (canon lift (core func $i "outside")))
  (func (export "divide") (canon lift (core func $i "divide"))))
"""


def assembled(text: str) -> bytes:
    return bytes(wasmtime.wat2wasm(text))


class CountingCall:
    """The minimal call that the engine needs."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.deadline = time.monotonic() + seconds
        self.failure: BaseException | None = None
        self.host_calls = 0

    def enter_host(self) -> None:
        self.host_calls += 1

    def leave_host(self) -> None:
        pass

    def charge_values(self, count: int) -> None:
        pass

    def charge_text(self, size: int) -> None:
        pass

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error

    def interruption(self) -> BaseException | None:
        return TimeoutError("late") if time.monotonic() >= self.deadline else None


def limits(*, fuel: int | None = 50_000_000) -> StoreLimits:
    return StoreLimits(memory_bytes=64 << 20, memories=4, table_elements=1000, tables=8, instances=16, fuel=fuel)


LIMITS = limits()


@pytest.fixture
def compiler() -> Iterator[Compiler]:
    compiler = Compiler(EngineConfig(), keep=True, disk=None)
    yield compiler
    compiler.close()


@pytest.fixture
def component(compiler: Compiler) -> Component:
    return compiler.compile(assembled(PLAIN), "plain")


def agent_host(read: Callable[[Any, str], str | None]) -> HostInterface:
    return HostInterface("near:agent/host@0.3.0", {"now-millis": lambda call: 12345, "workspace-read": read})


class Guest:
    """A linked component, with a fresh sandbox for every call."""

    def __init__(self, component: Component, host: HostInterface, limits: StoreLimits = LIMITS) -> None:
        self.linker = Linker(component, [host])
        self.limits = limits
        self.exports = {name: Export(self.linker, (name,), kind) for name, kind in component.type.functions}

    def call(self, name: str, *values: Any, call: CountingCall | None = None) -> Any:
        with Sandbox(self.linker, self.limits, call or CountingCall()) as sandbox:
            sandbox.instantiate()
            return sandbox.call(self.exports[name], *values)


@pytest.fixture
def guest(component: Component) -> Guest:
    return Guest(component, agent_host(lambda call, path: None if path == "missing" else f"text of {path}"))
