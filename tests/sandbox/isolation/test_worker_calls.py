"""Calls in worker processes: the end of a worker ends one call with a typed error, and affects no other call."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing.attacks import Body

from tests.sandbox.isolation.conftest import needs_landlock, prepared, process_of, program_of
from tests.sandbox.isolation.processes import children, is_alive, parent
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import (
    CancelledError,
    ComponentTooLargeError,
    ConfigurationError,
    ConfineError,
    DeadlineExceededError,
    FuelExhaustedError,
    GuestError,
    InvalidParametersError,
    RuntimeClosedError,
    ToolError,
    TrapError,
    WorkerCrashedError,
)
from wasmrt.sandbox.guest.engine import wat2wasm
from wasmrt.sandbox.isolation.confine import CORE, RUN_WORKER, prepare
from wasmrt.sandbox.isolation.pool import home
from wasmrt.sandbox.isolation.pool.control import unlimited_lifetime
from wasmrt.sandbox.isolation.pool.handle import Worker, WorkerGoneError
from wasmrt.sandbox.isolation.pool.launcher import Zygote
from wasmrt.sandbox.isolation.pool.memory import memory_file
from wasmrt.sandbox.isolation.pool.program import MAX_CALLS, MAX_UNCALLED
from wasmrt.sandbox.isolation.wire import Channel, Kind

SPIN = Body(execute="(loop $on (br $on)) (call $ok)")
TRAP = Body(execute="unreachable")
LOGS = Body(
    imports=("log",),
    text=b"seen before the end",
    execute="(call $log (i32.const 2) (i32.const 1024) (i32.const 19)) unreachable",
)


def test_a_worker_is_reused_only_for_its_own_user(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    assert echo.execute({"a": 1}, user="ann").result == {"a": 1}
    first = process_of(echo, "ann")
    assert echo.execute({"a": 2}, user="bob").result == {"a": 2}
    assert echo.execute({"a": 3}, user="ann").result == {"a": 3}
    assert process_of(echo, "ann") == first != process_of(echo, "bob")


def test_the_worker_that_described_a_tool_serves_only_its_first_user(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    ((_, _, told),) = program_of(echo)._idle_workers._idle
    first = told._process
    assert echo.execute({"a": 1}, user="ann").result == {"a": 1}
    assert echo.execute({"a": 2}, user="bob").result == {"a": 2}
    assert process_of(echo, "ann") == first != process_of(echo, "bob")


def test_a_worker_whose_component_failed_to_describe_itself_is_not_used(runtime: WasmToolRuntime) -> None:
    silent = prepared(runtime, Body(schema="unreachable"))
    assert program_of(silent)._idle_workers._idle == []


def test_few_workers_are_kept_for_first_calls_and_none_replaces_a_users(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    echo.execute({}, user="ann")
    kept = process_of(echo, "ann")
    loaded = [prepared(runtime, name=f"tool-{number}") for number in range(MAX_UNCALLED + 2)]
    waiting = [program for program, user, _ in program_of(echo)._idle_workers._idle if user is None]
    assert waiting == [program_of(tool) for tool in reversed(loaded[-MAX_UNCALLED:])]
    assert process_of(echo, "ann") == kept


def test_a_worker_that_exited_before_its_first_call_is_replaced(runtime: WasmToolRuntime) -> None:
    echo = prepared(runtime)
    ((_, _, told),) = program_of(echo)._idle_workers._idle
    os.kill(told._process, signal.SIGKILL)
    wait_for_end(told._process)
    assert echo.execute({"a": 1}).result == {"a": 1}


@pytest.mark.parametrize("kept", [True, False])
def test_a_new_worker_that_says_it_was_idle_has_broken_the_rules(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    echo = prepared(runtime)
    if not kept:
        echo.execute({"a": 0}, user="ann")  # takes the worker that described the tool
    calls = []

    def say_bye(worker: Worker, *_: object) -> str:
        calls.append(worker)
        raise WorkerGoneError("the worker has already exited", idle=True)

    monkeypatch.setattr(Worker, "run", say_bye)
    with pytest.raises(WorkerCrashedError, match="violated the protocol: it was new, but ended"):
        echo.execute({"a": 1}, user="bob")
    assert len(calls) == 1 + kept
    monkeypatch.undo()
    assert echo.execute({"a": 2}).result == {"a": 2}


def test_workers_that_end_at_once_hold_the_caller_no_longer_than_the_deadline(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    echo = prepared(runtime, limits=ResourceLimits(timeout_seconds=0.3))

    def end(worker: Worker, *_: object) -> str:
        raise WorkerGoneError("the worker has already exited", idle=False)

    monkeypatch.setattr(Worker, "run", end)
    with pytest.raises(DeadlineExceededError):
        echo.execute({"a": 1})


def test_a_template_exits_cleanly_within_its_seal(runtime: WasmToolRuntime) -> None:
    """A forbidden system call at exit would appear in the system's log, among those of attacks."""
    template = program_of(prepared(runtime))._template
    assert template is not None
    template._control.close()
    wait_for_end(template._pid)
    assert template._zygote.end(template._pid, unlimited_lifetime()) == 0


def test_a_compile_worker_exits_cleanly_within_its_seal(runtime: WasmToolRuntime) -> None:
    template = program_of(prepared(runtime))._template
    assert template is not None
    ours, theirs = socket.socketpair()
    engine = {"level": "none", "allocator": "on-demand", "metered": True, "required": False}
    with ours, theirs, memory_file(wat2wasm("(component)")) as source:
        process = template._zygote.fork(Kind.COMPILE, engine, [theirs.fileno(), source], unlimited_lifetime())
        theirs.close()
        assert Channel(ours).receive(1 << 20).kind == Kind.READY
    wait_for_end(process)
    assert template._zygote.end(process, unlimited_lifetime()) == 0


def wait_for_end(process: int) -> None:
    """Wait until a process has exited, whichever process reaps it."""
    handle = os.pidfd_open(process)
    select.select([handle], [], [])
    os.close(handle)


def test_a_worker_is_replaced_after_its_call_limit(runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wasmrt.sandbox.isolation.pool.program.MAX_CALLS", 3)
    echo = prepared(runtime)
    seen = []
    for _ in range(3):
        echo.execute({})
        seen.append(len(program_of(echo)._idle_workers._idle))
    assert seen == [1, 1, 0]
    assert MAX_CALLS > 3
    echo.execute({})


@pytest.mark.parametrize(
    ("body", "limits", "error"),
    [
        (TRAP, ResourceLimits(), TrapError),
        (SPIN, ResourceLimits(fuel=100_000), FuelExhaustedError),
        (SPIN, ResourceLimits(fuel=2**40, timeout_seconds=0.2), DeadlineExceededError),
    ],
)
def test_a_failed_guests_worker_is_not_reused(
    runtime: WasmToolRuntime, body: Body, limits: ResourceLimits, error: type[ToolError]
) -> None:
    bad = prepared(runtime, body, limits=limits)
    with pytest.raises(error) as caught:
        bad.execute({})
    assert caught.value.usage is not None
    assert caught.value.usage.fuel > 0
    assert program_of(bad)._idle_workers.take(program_of(bad), "local") is None


def test_a_tool_error_keeps_the_worker(runtime: WasmToolRuntime) -> None:
    says_no = prepared(runtime, Body(text=b"no", execute="(call $fail (i32.const 1024) (i32.const 2))"))
    for _ in range(2):
        with pytest.raises(GuestError, match="no"):
            says_no.execute({})
    process_of(says_no)


def test_params_are_validated_in_the_worker(runtime: WasmToolRuntime) -> None:
    echo = runtime.prepare_installed("echo")
    with pytest.raises(InvalidParametersError, match="message"):
        echo.execute({})
    with pytest.raises(InvalidParametersError, match="expected a string"):
        echo.execute({"message": 5})
    process_of(echo)  # it is kept for the next call


def test_log_lines_of_a_trapped_guest_are_kept(runtime: WasmToolRuntime) -> None:
    with pytest.raises(TrapError) as caught:
        prepared(runtime, LOGS).execute({})
    assert [entry.message for entry in caught.value.logs] == ["seen before the end"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSYS, signal.SIGABRT])
def test_a_killed_workers_signal_is_reported_and_the_next_call_works(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    echo = prepared(runtime)
    echo.execute({})
    process = process_of(echo)
    receive = Channel.receive

    def kill_first(self: Channel, most: int) -> Any:
        os.kill(process, number)
        monkeypatch.setattr(Channel, "receive", receive)
        return receive(self, most)

    spin = prepared(runtime, SPIN, limits=ResourceLimits(fuel=2**40))
    with pytest.raises(ToolError):  # the killed worker must be busy with a guest
        spin_until(spin, 0.01)
    monkeypatch.setattr(Channel, "receive", kill_first)
    try:
        echo.execute({})
    except WorkerCrashedError as error:
        assert error.signal == number
        assert error.code == "worker-crashed"
    monkeypatch.undo()
    while is_alive(process):
        pass  # the signal is on its way
    assert echo.execute({"again": True}).result == {"again": True}


def spin_until(spin: PreparedTool, seconds: float) -> None:
    program_of(spin)
    thread_error: list[BaseException] = []
    opened = threading.Event()

    def run() -> None:
        try:
            spin.execute({})
        except BaseException as error:
            thread_error.append(error)
        opened.set()

    thread = threading.Thread(target=run)
    thread.start()
    while not spin._runner.pipeline.admission._running:
        opened.wait(seconds)
    for call in list(spin._runner.pipeline.admission._running.values()):
        call.lifetime.cancel()
    thread.join(20)
    raise thread_error[0]


def test_a_call_that_is_cancelled_ends_its_guest(runtime: WasmToolRuntime) -> None:
    with pytest.raises(CancelledError):
        spin_until(prepared(runtime, SPIN, limits=ResourceLimits(fuel=2**40)), 0.01)


def refused(_process: int) -> int:
    """As in a container that forbids pidfds."""
    raise PermissionError


@pytest.mark.parametrize("handles", [True, False], ids=["by its handle", "by its number"])
def test_an_unresponsive_worker_is_killed_at_the_deadline(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch, handles: bool
) -> None:
    if not handles:
        monkeypatch.setattr(os, "pidfd_open", refused)
    echo = prepared(runtime, limits=ResourceLimits(timeout_seconds=0.2))
    echo.execute({})
    process = process_of(echo)
    os.kill(process, signal.SIGSTOP)  # as unresponsive as a worker whose engine hangs
    with pytest.raises(DeadlineExceededError):
        echo.execute({})
    while is_alive(process):
        pass  # it takes a moment to be gone
    assert echo.execute({}).result == {}


def stopped(process: int) -> bool:
    """Stop a process, as if its engine hung; return False if it has exited."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        return is_alive(process)
    return False


@pytest.mark.parametrize("end", ["closes", "cancels"])
def test_an_uninterruptible_guest_is_killed_on_cancel_and_close(end: str) -> None:
    errors: list[BaseException] = []
    runtime = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False))
    spin = prepared(runtime, SPIN, limits=ResourceLimits(fuel=2**60, timeout_seconds=120))
    program = program_of(spin)

    def call() -> None:
        with pytest.raises(ToolError) as caught:
            spin.execute({})
        errors.append(caught.value)

    caller = threading.Thread(target=call)
    caller.start()
    workers: set[int] = set()
    while not workers:
        threading.Event().wait(0.001)
        if program._calls and program._template is not None:
            workers = {worker for worker in children(program._template._pid) if stopped(worker)}
    if end == "closes":
        runtime.close()
    else:
        for running in list(runtime.pipeline.admission._running.values()):
            running.lifetime.cancel()
    caller.join(20)
    assert isinstance(errors[0], RuntimeClosedError if end == "closes" else CancelledError)
    assert runtime.pipeline.admission.running == 0
    runtime.close()
    while any(map(is_alive, workers)):
        pass  # the signal is on its way


@pytest.mark.parametrize("generation", [1, 2], ids=["the template", "the zygote"])
def test_a_killed_process_is_started_again(runtime: WasmToolRuntime, generation: int) -> None:
    echo = prepared(runtime)
    echo.execute({})
    worker = process_of(echo)
    ended = worker
    for _ in range(generation):
        ended = parent(ended)
    os.kill(ended, signal.SIGKILL)
    while is_alive(worker):
        pass  # the kernel ends it with its parent
    assert echo.execute({"again": 1}).result == {"again": 1}
    assert prepared(runtime, LOGS).name == "tool"
    assert echo.execute({"again": 2}).result == {"again": 2}


def test_an_unknown_isolation_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="in-process"):
        WasmRuntimeConfig(isolation="none")  # type: ignore[arg-type]


@needs_landlock
def test_a_runtime_can_require_all_available_layers() -> None:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.REQUIRED)) as runtime:
        assert prepared(runtime).execute({"a": 1}).result == {"a": 1}


def test_a_required_missing_layer_is_named() -> None:
    """As on a machine without it: require a layer that no machine has."""
    with pytest.raises(ConfineError, match="a-layer-of-tomorrow"):
        prepare(RUN_WORKER, required=(*CORE, "a-layer-of-tomorrow"))


@pytest.mark.ci("slow")
def test_a_closed_runtime_leaves_no_process_and_no_descriptor() -> None:
    config = WasmRuntimeConfig(cache_compiled=False, optimization_level="none")  # type: ignore[arg-type]
    before, opened = children(os.getpid()), len(os.listdir("/proc/self/fd"))
    with WasmToolRuntime(config) as runtime:
        echo = prepared(runtime)
        echo.execute({})
        process = process_of(echo)
        assert len(children(os.getpid())) == len(before) + 1  # the zygote, the parent of all other processes
    del echo, runtime
    gc.collect()
    assert children(os.getpid()) == before
    assert not Path(f"/proc/{process}").exists()
    assert len(os.listdir("/proc/self/fd")) <= opened


def test_a_forked_child_needs_its_own_runtime(runtime: WasmToolRuntime) -> None:
    """As under gunicorn or Celery: the parent's runtime is refused, a new one in the child works."""
    prepared(runtime).execute({})
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        answer = b"broken"
        try:
            with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as own:
                answer = str(prepared(own).execute({"in": "child"}).result).encode()
        finally:
            os.write(writing, answer)
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"{'in': 'child'}"
    os.waitpid(child, 0)
    assert prepared(runtime).execute({"in": "parent"}).result == {"in": "parent"}


SCHEMAS = [
    {"type": "string", "pattern": "^-?(0|[1-9][0-9]{0,19})$"},
    {"type": "string", "format": "email", "minLength": 1, "maxLength": 5},
    {"type": "string", "format": "ipv6"},
    {"type": "string", "format": "idn-hostname"},
    {"type": "string", "format": "uri-template"},
    {"type": "number", "multipleOf": 0.0001, "maximum": 1e300},
    {"type": "array", "uniqueItems": True, "items": {"enum": [1, "a", None]}, "minContains": 1, "contains": {}},
    {"oneOf": [{"type": "integer"}, {"type": "string", "pattern": "b+"}], "not": {"const": 3}},
    {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "propertyNames": {"pattern": "^[a-z]+$"}},
    {"type": "object", "unevaluatedProperties": False, "dependentRequired": {"a": ["b"]}},
    {"$ref": "#/properties/q"},
]
ANY = ["text", "5", 5, -1.5, None, True, [1, "a"], {"a": "b"}, {"ü": {}}, 10**30, "\U0001f600"]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: "+".join(schema))
def test_a_sealed_worker_validates_params_against_every_kind_of_schema(schema: dict[str, Any]) -> None:
    """The validator must not open files at first use, since a sealed worker cannot."""
    wanted = {"type": "object", "properties": {"p": schema, "q": {"type": "boolean"}}}
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        echo = prepared(runtime)
        program = program_of(echo)
        specs = {name: replace(spec, schema=wanted) for name, spec in program.description.specs.items()}
        program.description = program.description._replace(specs=specs)
        for value in ANY:
            try:
                assert echo.execute({"p": value}).result.keys() <= {"p"}  # a null may mean absent
            except InvalidParametersError as error:
                assert error.message.startswith(("p", "unknown", "params"))


def doubling(depth: int) -> str:
    """A component of two instances of a component of two instances, and so on."""
    parts = ['(component $c0 (core module $m (func (export "f"))) (core instance (instantiate $m)))']
    twice = "(instance (instantiate $p)) (instance (instantiate $p))"
    parts += [f"(component $c{n} (alias outer 1 $c{n - 1} (component $p)) {twice})" for n in range(1, depth)]
    return f"(component {' '.join(parts)} (instance (instantiate $c{depth - 1})))"


def keeping(calls: int) -> str:
    """Functions that store the result of each call: within every limit, but together over a compiler's memory."""
    body = "(call $f) " * calls + "i32.add " * (calls - 1) + "drop"
    functions = "".join(f"(func {body})" for _ in range(4))
    return f"(component (core module (func $f (result i32) unreachable) {functions}))"


@pytest.mark.ci("slow")
def test_excessive_compiler_memory_ends_only_the_compiler(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubles, keeps = wat2wasm(doubling(40)), wat2wasm(keeping(440_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ComponentTooLargeError, match="core instances once expanded"):
        runtime.prepare("doubles", doubles)
    with pytest.raises(ComponentTooLargeError, match="exceeded its memory or time limit"):
        runtime.prepare("keeps", keeps)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 64 * 1024  # KiB
    assert prepared(runtime).execute({"after": True}).result == {"after": True}


def test_compilation_over_its_deadline_names_the_deadline(
    runtime: WasmToolRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "COMPILE_SECONDS", 0.0)
    with pytest.raises(ComponentTooLargeError, match="took longer than 0 s") as caught:
        runtime.prepare("keeps", wat2wasm(keeping(40_000)))
    assert "less busy" in (caught.value.hint or "")
    monkeypatch.undo()
    assert prepared(runtime).execute({"after": True}).result == {"after": True}


@pytest.mark.ci("slow")
@pytest.mark.parametrize("writes", [True, False])
def test_bytecode_of_worker_only_modules_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: bool
) -> None:
    """Otherwise each runtime would compile it again; a host that writes no bytecode has a zygote that writes none."""
    monkeypatch.setattr(sys, "dont_write_bytecode", not writes)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    zygote = Zygote()
    try:
        assert zygote.version(unlimited_lifetime())
    finally:
        zygote.close()
    assert writes == any((tmp_path / "bytecode").rglob("zygote.*.pyc"))
