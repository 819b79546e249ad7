"""Tools that call tools: the guest passes its own params to the alias `on` and returns the result."""

from __future__ import annotations

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO
from wasmrt import (
    Capabilities,
    PreparedTool,
    RateLimitConfig,
    Reason,
    ResourceLimits,
    ToolError,
    ToolInvokeCapability,
    WasmToolRuntime,
)
from wasmrt.core.errors import GuestError
from wasmrt.core.limits import MAX_INVOKE_DEPTH, MAX_TOOL_INVOCATIONS
from wasmrt.sandbox.guest.engine import wat2wasm

RELAY = Body(
    imports=("tool-invoke",),
    text=b"on",
    execute="""
      (call $tool-invoke (i32.const 1024) (i32.const 2) (local.get $params) (local.get $length) (i32.const 2048))
      (if (result i32) (i32.load8_u (i32.const 2048))
        (then (call $fail (i32.load (i32.const 2052)) (i32.load (i32.const 2056))))
        (else (call $say (i32.load (i32.const 2052)) (i32.load (i32.const 2056)))))""",
)


def relay(runtime: WasmToolRuntime, name: str, to: str | None, limits: ResourceLimits | None = None) -> PreparedTool:
    grant = Capabilities.none() if to is None else Capabilities.none().with_tool_invoke({"on": to})
    return runtime.prepare(name, wat2wasm(tool(RELAY)), grant, limits)


def refusal(tool: PreparedTool) -> GuestError:
    with pytest.raises(GuestError) as caught:
        tool.execute({"a": 1})
    return caught.value


def test_a_tool_can_be_invoked_by_its_alias(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    output = relay(runtime, "asker", "echo").execute({"say": "otter"})
    assert output.result == {"say": "otter"}
    assert output.usage.tool_invocations == 1


def test_a_refused_invocation_names_the_missing_line(runtime: WasmToolRuntime) -> None:
    error = refusal(relay(runtime, "asker", None))
    assert error.decisions[-1].reason == Reason.NOT_GRANTED
    assert "tool_invoke" in (error.decisions[-1].hint or "")


def test_a_guest_does_not_see_the_name_behind_an_alias(runtime: WasmToolRuntime) -> None:
    error = refusal(relay(runtime, "asker", "a-telling-name"))
    assert error.decisions[-1].reason == Reason.NOT_FOUND
    assert "a-telling-name" not in error.message


def test_a_cycle_is_refused(runtime: WasmToolRuntime) -> None:
    relay(runtime, "b", "a")
    assert "invoke-cycle" in refusal(relay(runtime, "a", "b")).message


def test_a_chain_of_invocations_ends_at_the_depth_limit(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    relay(runtime, "t0", "echo")
    for depth in range(1, MAX_INVOKE_DEPTH):
        last = relay(runtime, f"t{depth}", f"t{depth - 1}")
    assert last.execute({"deep": True}).result == {"deep": True}
    assert "invoke-depth" in refusal(relay(runtime, "one-more", last.name)).message


def test_an_invoked_tool_has_its_callers_deadline(runtime: WasmToolRuntime) -> None:
    loop = Body(execute="(loop (br 0)) (unreachable)")
    runtime.prepare("loop", wat2wasm(tool(loop)), limits=ResourceLimits(fuel=2**60, timeout_seconds=100))
    with pytest.raises(ToolError) as caught:
        relay(runtime, "hasty", "loop", ResourceLimits(timeout_seconds=0.3)).execute({})
    assert caught.value.code == "deadline-exceeded"


def test_an_invoked_tool_runs_only_with_its_own_grant(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    relay(runtime, "powerless", None)
    assert "not-granted" in refusal(relay(runtime, "asker", "powerless")).message


def test_a_forgotten_tool_is_not_found(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    asker = relay(runtime, "asker", "echo")
    assert asker.execute({"a": 1}).result == {"a": 1}
    runtime.forget("echo")
    assert "not-found" in refusal(asker).message


def test_a_call_may_invoke_twenty_tools(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    budget = Body(
        imports=("tool-invoke",),
        text=b"twin{}",
        execute="""
          (local.set $i (i32.const 0))
          (loop $again
            (call $tool-invoke (i32.const 1024) (i32.const 4) (i32.const 1028) (i32.const 2) (i32.const 2048))
            (if (i32.load8_u (i32.const 2048)) (then (return (call $fail (i32.const 1024) (i32.const 4)))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $i) (i32.const 30))))
          (call $ok)""",
    )
    asker = runtime.prepare("asker", wat2wasm(tool(budget)), Capabilities.none().with_tool_invoke({"twin": "echo"}))
    with pytest.raises(ToolError) as caught:
        asker.execute({})
    assert caught.value.usage is not None
    assert caught.value.usage.tool_invocations == MAX_TOOL_INVOCATIONS
    assert caught.value.decisions[-1].reason == Reason.INVOKE_BUDGET


def test_the_grants_rate_of_invocations_is_enforced(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    rate = RateLimitConfig(requests_per_minute=2, requests_per_hour=2)
    grant = Capabilities.none().with_tool_invoke(ToolInvokeCapability((("on", "echo"),), rate))
    asker = runtime.prepare("asker", wat2wasm(tool(RELAY)), grant)
    for _ in range(2):
        assert asker.execute({"a": 1}).result == {"a": 1}
    assert "rate-limited" in refusal(asker).message


def test_usage_of_invoked_tools_counts_for_their_callers(runtime: WasmToolRuntime) -> None:
    runtime.prepare("echo", wat2wasm(tool(ECHO)))
    relay(runtime, "middle", "echo")
    assert relay(runtime, "first", "middle").execute({"a": 1}).usage.tool_invocations == 2
