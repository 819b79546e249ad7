"""Guests whose values take the engine long to convert: answered at the deadline, and put away afterwards."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

import pytest

from tests.call.conftest import Prepare, until
from tests.call.test_invoke import relay
from wasmrt import Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.egress import NetworkConfig
from wasmrt.errors import DeadlineExceededError, GuestError, RuntimeClosedError, ToolError
from wasmrt.guest.engine import wat2wasm
from wasmrt.limits import MIB
from wasmrt.testing.attacks import Body, tool

# Four hundred thousand headers, which the engine makes host values of before anybody can look at one.
RECORDS = Body(
    imports=("fetch",),
    execute=f"""(drop (memory.grow (i32.const 900)))
    (call $fetch (i32.const 0) (i32.const 512) (i32.const 1) (i32.const 65536) (i32.const 400000)
      {"(i32.const 0) " * 5} (i32.const 256)) (call $ok)""",
)

URL = b"https://slow.example/"
ASKS = Body(
    imports=("fetch",),
    text=URL,
    execute=f"""(call $fetch (i32.const 0) (i32.const 1024) (i32.const {len(URL)}) {"(i32.const 0) " * 7}
      (i32.const 256)) (call $ok)""",
)


@pytest.fixture
def isolation() -> Isolation:
    """Only a guest in this process is in nobody's hands but the engine's."""
    return Isolation.IN_PROCESS


def test_a_caller_is_answered_though_the_engine_has_not_let_go_of_the_guest(runtime: WasmToolRuntime) -> None:
    limits = ResourceLimits(timeout_seconds=0.005, memory_bytes=64 * MIB)
    slow = runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=limits)
    for _ in range(5):
        with pytest.raises(DeadlineExceededError) as caught:
            slow.execute({})
        assert caught.value.usage is not None
    until(lambda: runtime.pipeline.admission.running == 0)  # every guest was put away, and its permit given back
    honest = runtime.prepare("honest", wat2wasm(tool(Body(imports=("fetch",)))))
    assert honest.execute({}).result == {"ok": True}


def test_a_runtime_that_closes_waits_for_a_guest_that_nobody_waits_for() -> None:
    limits = ResourceLimits(timeout_seconds=0.005, memory_bytes=64 * MIB)
    with (
        WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS)) as runtime,
        pytest.raises(DeadlineExceededError),
    ):
        runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=limits).execute({})
    assert runtime.pipeline.admission.running == 0


def test_a_tool_behind_an_alias_holds_a_permit_for_as_long_as_the_engine_has_its_guest(
    runtime: WasmToolRuntime,
) -> None:
    limits = ResourceLimits(timeout_seconds=0.005, memory_bytes=64 * MIB)
    runtime.prepare("slow", wat2wasm(tool(RECORDS)), limits=limits)
    asker = relay(runtime, "asker", "slow")
    left: list[int] = []
    for _ in range(5):
        with pytest.raises(GuestError, match="deadline"):
            asker.execute({})
        left.append(runtime.pipeline.admission.running)
    assert max(left) > 0
    until(lambda: runtime.pipeline.admission.running == 0)


def test_a_runtime_that_closes_answers_a_caller_whose_guest_cannot_be_stopped() -> None:
    looking, found = threading.Event(), threading.Event()

    class Slow:
        def resolve(self, host: str, port: int, *, timeout_seconds: float) -> tuple[str, ...]:
            looking.set()
            found.wait(20)
            return ("127.0.0.1",)

    errors: list[BaseException] = []

    def ask(asker: PreparedTool) -> None:
        with pytest.raises(ToolError) as caught:
            asker.execute({})
        errors.append(caught.value)

    grant = Capabilities(http=HttpCapability(allowlist=(EndpointPattern("slow.example"),)))
    runtime = WasmToolRuntime(
        WasmRuntimeConfig(cache_compiled=False, isolation=Isolation.IN_PROCESS, network=NetworkConfig(resolver=Slow()))
    )
    caller = threading.Thread(target=ask, args=(runtime.prepare("asks", wat2wasm(tool(ASKS)), grant),))
    closer = threading.Thread(target=runtime.close)
    try:
        caller.start()
        assert looking.wait(20)
        closer.start()
        caller.join(20)
        assert not caller.is_alive()
        assert closer.is_alive()  # it waits for the guest a while longer
        assert isinstance(errors[0], RuntimeClosedError)
    finally:
        found.set()
        closer.join(20)
    assert runtime.pipeline.admission.running == 0


def test_a_time_beyond_what_threads_can_wait_is_as_good_as_any(prepare: Prepare) -> None:
    forever = prepare(Body(imports=("fetch",)), limits=ResourceLimits(timeout_seconds=2**60))
    assert forever.execute({}).result == {"ok": True}


def test_the_callers_context_variables_are_seen_by_its_callbacks(
    runtime: WasmToolRuntime, guest: Callable[[str], bytes]
) -> None:
    whose = contextvars.ContextVar("whose", default="nobody's")
    whose.set("the caller's")
    seen: list[str] = []
    tool_ = runtime.prepare("provider", guest("rust-tool")).tool("progress")
    tool_.execute({}, on_progress=lambda *_: seen.append(whose.get()))
    assert set(seen) == {"the caller's"}


def test_what_a_guest_raises_apart_reaches_its_caller(prepare: Prepare) -> None:
    failing = Body(imports=("fetch",), text=b"no", execute="(call $fail (i32.const 1024) (i32.const 2))")
    with pytest.raises(GuestError, match="no") as caught:
        prepare(failing).execute({})
    assert isinstance(caught.value, ToolError)
    assert caught.value.usage is not None
    assert caught.value.usage.fuel > 0
