"""Implementations of the same call: C, raw wasmtime-py, Extism, and wasmrt bare and whole."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wasmrt.testing import MemorySecrets

from benches._guests import PROVIDER, Guest
from benches._measure import clocked, resident_mib
from wasmrt import PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import (
    Capabilities,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    HttpCapability,
    RateLimitConfig,
)
from wasmrt.core.component_bytes import digest_of
from wasmrt.egress.secrets import DEFAULT_USER, Secret
from wasmrt.sandbox.guest.compiler import Compiler
from wasmrt.sandbox.guest.engine import Component
from wasmrt.sandbox.guest.settings import EngineConfig

FUEL = 500_000_000
MEMORY_BYTES = 64 * 1024 * 1024
NO_LIMIT_IN_PRACTICE = RateLimitConfig(10**6, 10**6)


class Here:
    """An implementation that is a function in this process."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self.name = name
        self.call = call

    def times(self, count: int) -> list[int]:
        return clocked(self.call, count)


class Floor:
    """The C program, waiting for its next turn."""

    def __init__(self, program: Path, guest: Guest, allocator: str) -> None:
        self.name = f"C, {allocator}"
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as params:
            params.write(guest.text)
        self._params = Path(params.name)
        self._process = subprocess.Popen(
            [program, guest.path, "-", allocator, guest.interface, guest.tool or "-", f"@{params.name}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip

    def times(self, count: int) -> list[int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        times = []
        while line := self._process.stdout.readline().strip():
            times.append(int(line))
        if len(times) != count:
            raise RuntimeError(f"the C program ended with {self._process.wait(timeout=10)}")
        return times

    @property
    def resident_mib(self) -> float:
        return resident_mib(self._process.pid)

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()
        self._params.unlink()


@contextlib.contextmanager
def floor_program() -> Iterator[Path | None]:
    """Yield the compiled C program, or None without a compiler."""
    compiler = shutil.which("cc")
    spec = find_spec("wasmtime")
    if compiler is None or spec is None or not spec.submodule_search_locations:
        yield None
        return
    library = next(Path(spec.submodule_search_locations[0]).glob("*/_libwasmtime.*"))
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "floor")
        source = Path(__file__).with_name("floor.c")
        command: list[str | Path] = [compiler, "-O2", "-o", program, source, library, f"-Wl,-rpath,{library.parent}"]
        subprocess.run(command, check=True)
        yield program


def raw(guest: Guest) -> Here:
    """Call with wasmtime-py's classes as documented: each call has a store with fuel, epochs and limits."""
    from wasmtime import Config, Engine, Store
    from wasmtime.component import Component, Linker, Record

    config = Config()
    config.wasm_component_model = True
    config.wasm_tail_call = True
    config.consume_fuel = True
    config.epoch_interruption = True
    engine = Engine(config)
    component = Component(engine, guest.path.read_bytes())
    linker = Linker(engine)
    linker.define_unknown_imports_as_traps(component)
    provider = guest.interface == PROVIDER
    interface = component.get_export_index(guest.interface)
    index = component.get_export_index("call" if provider else "execute", interface)
    assert index is not None
    text = guest.text

    def call() -> Any:
        store = Store(engine)
        store.set_fuel(FUEL)
        store.set_epoch_deadline(1000)
        store.set_limits(memory_size=MEMORY_BYTES, table_elements=20_000, instances=64, tables=16, memories=8)
        function = linker.instantiate(store, component).get_func(store, index)
        assert function is not None
        if provider:
            answer = function(store, guest.tool, text, None)
        else:
            request = Record()
            setattr(request, "params", text)  # noqa: B010 - its records are objects without declared fields
            setattr(request, "context", None)  # noqa: B010
            answer = function(store, request)
        function.post_return(store)
        store.close()
        return answer

    check(call(), guest)
    return Here("raw wasmtime-py", call)


class NoCall:
    """The engine's call interface without budget and deadline."""

    def enter_host(self) -> None: ...
    def leave_host(self) -> None: ...
    def charge_values(self, count: int) -> None: ...
    def charge_text(self, size: int) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def interruption(self) -> BaseException | None:
        return None


def bare(guest: Guest) -> Here:
    """Only the engine: fresh store, fuel, epochs, limits, linked imports, lower, call, lift, drop.

    Compiled here with a separate cache, because compiling some guests takes long.
    """
    from wasmrt.sandbox.guest import worlds as host
    from wasmrt.sandbox.guest.engine import Export, Linker, Sandbox, StoreLimits

    component = compiled(guest.path.read_bytes())
    linker = Linker(component, host.interfaces())
    function = "call" if guest.interface == PROVIDER else "execute"
    interface = component.type.export(guest.interface)
    kind = interface.function(function) if interface is not None else None
    assert kind is not None
    export = Export(linker, (guest.interface, function), kind)
    limits = StoreLimits(
        memory_bytes=MEMORY_BYTES, memories=8, table_elements=20_000, tables=16, instances=64, fuel=FUEL
    )
    text, nobody = guest.text, NoCall()
    values: tuple[Any, ...] = (guest.tool, text, None)
    if guest.interface != PROVIDER:
        values = ({"params": text, "context": None},)

    def call() -> Any:
        sandbox = Sandbox(linker, limits, nobody)
        try:
            sandbox.instantiate()
            return sandbox.call(export, *values)
        finally:
            sandbox.close()

    check(call(), guest)
    return Here("wasmrt bare", call)


@cache
def compiled(data: bytes) -> Component:
    """Compile a component for the engine of this process."""
    return Compiler(EngineConfig(), keep=False, disk=None).compile(data, digest_of(data))


def grant() -> Capabilities:
    """Return the grant of a tool that uses one API with a token."""
    mapping = CredentialMapping(
        secret_name="bench_token", location=CredentialLocation.bearer(), host_patterns=("api.example.com",)
    )
    pattern = EndpointPattern.host("api.example.com").with_path_prefix("/v1/").with_methods("GET", "POST")
    mib = 1024 * 1024
    http = HttpCapability(
        allowlist=(pattern,),
        credentials=(mapping,),
        rate_limit=NO_LIMIT_IN_PRACTICE,
        max_request_bytes=2 * mib,
        max_response_bytes=2 * mib,
    )
    return Capabilities.none().with_http(http).with_workspace_read(["context/"])


@contextlib.contextmanager
def runtime(**more: Any) -> Iterator[WasmToolRuntime]:
    """Yield a runtime with all features: secrets, a workspace, a rate limit of calls, and receipts in a folder."""
    secrets = MemorySecrets()
    secrets.set(DEFAULT_USER, "bench_token", Secret("bench-" + "value-" * 4))
    with tempfile.TemporaryDirectory() as folder:
        options: dict[str, Any] = {
            "secrets": secrets,
            "workspace": Path(folder),
            "call_rate_limit": NO_LIMIT_IN_PRACTICE,
            "audit": Path(folder, "receipts"),
            "cache_dir": Path(folder, "cache"),
        }
        with WasmToolRuntime(WasmRuntimeConfig(**options | more)) as made:
            yield made


def whole(tool: PreparedTool, guest: Guest, *, name: str = "wasmrt whole") -> Here:
    """`execute`: schema check, rate limit, grant, budgets, leak scan, receipt."""
    if len(tool.tools) > 1:
        tool = tool.tool(guest.tool)
    params = guest.params

    def call() -> Any:
        return tool.execute(params).result

    check(call(), guest)
    return Here(name, call)


EXTISM_ECHO = """(module
  (import "extism:host/env" "input_length" (func $length (result i64)))
  (import "extism:host/env" "input_load_u8" (func $input (param i64) (result i32)))
  (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
  (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
  (import "extism:host/env" "output_set" (func $output (param i64 i64)))
  (memory (export "memory") 1)
  (func (export "echo") (result i32)
    (local $size i64) (local $at i64) (local $done i64)
    (local.set $size (call $length))
    (local.set $at (call $alloc (local.get $size)))
    (block $end
      (loop $more
        (br_if $end (i64.ge_u (local.get $done) (local.get $size)))
        (call $store (i64.add (local.get $at) (local.get $done)) (call $input (local.get $done)))
        (local.set $done (i64.add (local.get $done) (i64.const 1)))
        (br $more)))
    (call $output (local.get $at) (local.get $size))
    (i32.const 0)))"""


def extism(guest: Guest) -> list[Here]:
    """Extism with a tiny core module; it has no components, so this is its best case."""
    from extism.extism import CompiledPlugin, Plugin  # type: ignore[import-untyped]

    from wasmrt.sandbox.guest.engine import wat2wasm

    module, data = bytes(wat2wasm(EXTISM_ECHO)), guest.text.encode()
    compiled = CompiledPlugin(module, functions=[])
    kept = Plugin(compiled)

    def fresh() -> bytes:
        with Plugin(compiled) as plugin:
            return bytes(plugin.call("echo", data))

    def from_bytes() -> bytes:
        with Plugin(module, functions=[]) as plugin:
            return bytes(plugin.call("echo", data))

    def reused() -> bytes:
        return bytes(kept.call("echo", data))

    assert fresh() == from_bytes() == reused() == data
    return [
        Here("Extism, fresh plugin", from_bytes),
        Here("Extism, fresh plugin, compiled before", fresh),
        Here("Extism, reused plugin (no isolation)", reused),
    ]


def check(answer: Any, guest: Guest) -> None:
    """Refuse to measure an implementation with a wrong result."""
    wanted = "item number 7" if guest.key == "rust-json" else "hi"
    if wanted not in str(getattr(answer, "payload", "")) + str(getattr(answer, "output", "")) + str(answer):
        raise RuntimeError(f"{guest.title} answered {answer!r:.200} in {sys._getframe(1).f_code.co_name}")
