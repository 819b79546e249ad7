"""Spans and metrics of calls: their names, attributes, excluded data, and failures of the SDK."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from wasmrt.testing.attacks import Body
from wasmrt.testing.attacks import tool as wat_tool

from tests.interop.mcp_client.test_real_servers import looked_at, sdk
from tests.interop.mcp_server.world import META, World
from wasmrt import CallbackApprover, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, load_registry, tool
from wasmrt.agent.config import read_config_file
from wasmrt.core.errors import ConfigFileError, ConfigurationError, ToolError
from wasmrt.core.places import find_places
from wasmrt.core.telemetry import NAMES, Telemetry
from wasmrt.runtime.audit import Receipt
from wasmrt.sandbox.guest.engine import wat2wasm

from .conftest import Collected, attributes

CANARY = "canary-58c1"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@tool(effects=[])
def say(text: str) -> str:
    """Return a text."""
    if text.startswith("break"):
        raise ValueError(text)
    return f"{text}, {CANARY}-result"


@tool(effects=["external-write"])
def send(text: str) -> str:
    """Send a text."""
    return text


def registry(collected: Collected, **settings: Any) -> ToolRegistry:
    made = ToolRegistry(telemetry=collected.telemetry, **settings)
    made.register(say)
    made.register(send)
    return made


def test_a_call_has_a_span_and_a_duration_as_the_conventions_define(collected: Collected) -> None:
    receipts: list[Receipt] = []
    registry(collected, receipts=receipts.append).execute("say", {"text": "hi"}, trace="monday", user="ann")
    [span] = collected.spans
    assert (
        span.name == "execute_tool say"
        and span.kind is SpanKind.INTERNAL
        and span.status.status_code is StatusCode.UNSET
    )
    assert attributes(span) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "say",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": receipts[0].call_id,
        "gen_ai.conversation.id": "monday",
        "wasmrt.tool.source": "function",
    }
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "say", "wasmrt.tool.source": "function"}
    assert collected.points() == [("gen_ai.execute_tool.duration", said)]
    collected.check_names()


@pytest.mark.parametrize(
    ("name", "params", "code"),
    [
        ("say", {"text": 7, "more": CANARY}, "invalid-parameters"),
        ("say", f'{{"text": "{CANARY}', "malformed-arguments"),
        ("say", {"text": f"break {CANARY}"}, "execution-failed"),
        (f"say-{CANARY}", {}, "unknown-tool"),
        ("send", {"text": CANARY}, "approval-denied"),
    ],
)
def test_a_failed_call_exports_its_code_but_no_content(collected: Collected, name: str, params: Any, code: str) -> None:
    made = registry(collected, approver=CallbackApprover(lambda request: False))
    for trial in (made.execute, lambda *a, **k: asyncio.run(made.aexecute(*a, **k))):
        with pytest.raises(ToolError) as caught:
            trial(name, params, user=f"ann-{CANARY}", data={"x": CANARY})
        assert caught.value.code == code
    assert {attributes(span)["error.type"] for span in collected.spans} == {code}
    assert {span.status.status_code for span in collected.spans} == {StatusCode.ERROR}
    assert CANARY not in collected.text()


def test_content_is_never_exported(collected: Collected) -> None:
    made = registry(collected, approver=CallbackApprover(lambda request: True))
    made.answer({"id": CANARY, "name": "say", "arguments": {"text": CANARY}})
    made.execute_many([{"id": "1", "name": name, "arguments": {"text": CANARY}} for name in ("say", "send", "gone")])
    asyncio.run(made.aanswer({"id": "2", "name": "send", "arguments": {"text": CANARY}}))
    assert len(collected.spans) == 5 and all(not span.events for span in collected.spans)
    assert all(span.status.description is None for span in collected.spans)
    assert CANARY not in collected.text()
    collected.check_names()


@pytest.mark.parametrize("code", [f"tool:{CANARY}", CANARY])
def test_an_error_code_chosen_by_a_tool_is_not_exported(collected: Collected, code: str) -> None:
    @tool(effects=[])
    def leaks() -> str:
        """Fail with a code."""
        raise ToolError("no", code=code)

    made = registry(collected)
    made.register(leaks)
    with pytest.raises(ToolError):
        made.execute("leaks")
    assert attributes(collected.spans[0])["error.type"] == "tool_error"
    assert CANARY not in collected.text()


def test_a_component_call_is_exported_without_its_arguments(collected: Collected) -> None:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        made = ToolRegistry(runtime, telemetry=collected.telemetry)
        made.register(runtime.prepare_installed("echo"), builtin=True)
        made.execute("echo", {"message": CANARY})
    assert attributes(collected.spans[0])["wasmrt.tool.source"] == "builtin"
    assert CANARY not in collected.text()


def test_a_cancelled_call_ends_its_span(collected: Collected) -> None:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, isolation="in-process")) as runtime:
        made = ToolRegistry(runtime, telemetry=collected.telemetry)
        made.register(runtime.prepare("spin", wat2wasm(wat_tool(Body(execute="(loop (br 0)) (unreachable)")))))

        async def main() -> None:
            call = asyncio.ensure_future(made.aexecute("spin"))
            while not runtime.pipeline.admission.running:
                await asyncio.sleep(0.001)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        asyncio.run(main())
    assert attributes(collected.spans[0])["error.type"] == "cancelled"


def test_a_call_span_is_a_child_of_the_programs_span_and_a_parent_of_nested_calls(collected: Collected) -> None:
    made = registry(collected)

    @tool(effects=[])
    def outer(text: str) -> str:
        """Call another tool."""
        return str(made.execute("say", {"text": text}).result)

    made.register(outer)
    with collected.traces.get_tracer("program").start_as_current_span("turn"):
        made.execute("outer", {"text": "hi"})
        asyncio.run(made.aexecute("outer", {"text": "hi"}))
    by_name = {span.name: span for span in collected.spans}
    assert [span.name for span in collected.spans] == ["execute_tool say", "execute_tool outer"] * 2 + ["turn"]
    first, second, third, fourth, turn = collected.spans
    for inner, around in ((first, second), (third, fourth), (second, turn), (fourth, turn)):
        assert inner.parent is not None and inner.parent.span_id == around.context.span_id
    assert trace.get_current_span() is trace.INVALID_SPAN and by_name


class Broken(SpanExporter, SpanProcessor):
    """Raises an error wherever it can."""

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(CANARY)

    export = on_start = on_end = _raise

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Do nothing."""
        return True


@pytest.mark.parametrize("kind", ["exporter", "processor", "provider"])
def test_failing_telemetry_does_not_break_calls(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    provider: Any = TracerProvider()
    if kind == "provider":
        provider.get_tracer = lambda *_, **__: Broken()
        Broken.start_span = Broken._raise  # type: ignore[attr-defined]
    else:
        provider.add_span_processor(SimpleSpanProcessor(Broken()) if kind == "exporter" else Broken())
    made = ToolRegistry(telemetry=Telemetry(tracer_provider=provider))
    made.register(say)
    assert CANARY in made.execute("say", {"text": "hi"}).result
    assert CANARY in asyncio.run(made.aexecute("say", {"text": "hi"})).result
    with pytest.raises(ToolError, match="break it"):
        made.execute("say", {"text": "break it"})


@pytest.mark.ci("slow")
def test_opentelemetry_is_not_imported_without_telemetry() -> None:
    script = (
        "import sys; from wasmrt import ToolRegistry, tool\n"
        "@tool(effects=[])\ndef say(text: str) -> str:\n    'Say.'\n    return text\n"
        "made = ToolRegistry(); made.register(say); made.execute('say', {'text': 'x'})\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.ci("slow")
def test_telemetry_can_be_enabled_in_the_configuration_file() -> None:
    file = find_places().config
    file.parent.mkdir(parents=True, exist_ok=True)
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        with load_registry(runtime) as made:
            assert made.telemetry is None
        file.write_text("[telemetry]\nenabled = true\n")
        with load_registry(runtime) as made:
            assert made.telemetry is not None
    file.write_text("[telemetry]\nenabled = 1\nendpoint = 'x'\n")
    with pytest.raises(ConfigFileError, match="2 mistakes"):
        read_config_file(file)


def test_a_missing_package_is_reported_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match="telemetry needs a package") as caught:
        Telemetry()
    assert caught.value.hint == "pip install 'wasmrt[telemetry]'"


@pytest.fixture
def world(tmp_path: Path, collected: Collected) -> World:
    return World(tmp_path, telemetry=collected.telemetry)


def test_a_served_call_is_one_span_below_the_clients_span(world: World, collected: Collected) -> None:
    with world.serve() as line:
        meta = META | {"traceparent": PARENT, "tracestate": "a=b", "baggage": f"user={CANARY}"}
        line.call("tell", {"text": CANARY}, meta=meta)
        line.call("broken", {}, meta=META | {"traceparent": "00-zz"})
        assert "error" in line.until(line.request("tools/call", {"name": f"x-{CANARY}", "_meta": META}))
        assert "error" in line.until(line.request(f"no/{CANARY}", {"_meta": META}))
        line.ask("tools/list")
    first, second, third, fourth, fifth = collected.spans
    assert first.name == "tools/call tell" and first.kind is SpanKind.SERVER
    assert f"{first.context.trace_id:032x}-{first.parent.span_id:016x}" == PARENT[3:52]  # type: ignore[union-attr]
    said = attributes(first)
    assert said["mcp.method.name"] == "tools/call" and said["gen_ai.operation.name"] == "execute_tool"
    assert said["mcp.protocol.version"] == META["io.modelcontextprotocol/protocolVersion"]
    assert said["network.transport"] == "pipe" and "gen_ai.tool.call.id" in said
    assert second.parent is None and attributes(second)["error.type"] == "tool_error"
    assert third.name == "tools/call" and attributes(third)["rpc.response.status_code"] == "-32602"
    assert attributes(fourth)["mcp.method.name"] == "_OTHER" and fifth.name == "tools/list"
    assert {name for name, _ in collected.points()} == {"mcp.server.operation.duration", "gen_ai.execute_tool.duration"}
    assert CANARY not in collected.text()
    collected.check_names()


@pytest.mark.ci("slow")
def test_trace_context_but_not_baggage_is_sent_to_an_mcp_server(collected: Collected, monkeypatch: Any) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", collected.traces)  # the SDK would export its own spans there
    server = sdk(timeout_seconds=20.0)
    with looked_at(server) as there:
        there.registry._services.telemetry = collected.telemetry
        token = context.attach(baggage.set_baggage("user", CANARY))
        try:
            meta = there.call("get_meta", text=CANARY)
            with pytest.raises(ToolError):
                there.call("get_failure")
        finally:
            context.detach(token)
        there.registry._services.telemetry = None
        with collected.traces.get_tracer("program").start_as_current_span("turn"):
            assert "traceparent" not in there.call("get_meta", text="")
    spans = [span for span in collected.spans if span.name != "turn"]
    assert [span.name for span in spans] == ["execute_tool sdk_get_meta", "execute_tool sdk_get_failure"]
    assert f"{spans[0].context.trace_id:032x}-{spans[0].context.span_id:016x}" == meta["traceparent"][3:52]
    assert "baggage" not in meta
    said = attributes(spans[0])
    assert said["mcp.method.name"] == "tools/call" and said["network.transport"] == "pipe"
    points = [attrs for name, attrs in collected.points() if name == "mcp.client.operation.duration"]
    assert {each.get("error.type") for each in points} == {None, "tool_error"}
    assert CANARY not in collected.text() and "no such thing" not in collected.text()
    collected.check_names()


def test_every_name_in_the_table_is_exported_by_some_operation() -> None:
    source = "\n".join(
        path.read_text() for path in (Path(__file__).parents[3] / "wasmrt").rglob("*.py") if path.name != "names.py"
    )
    from wasmrt.core.telemetry import names

    used = [key for key, value in vars(names).items() if value in NAMES and value.kind != "span" and key in source]
    assert len(used) == sum(each.kind != "span" for each in NAMES) > 10


def test_a_cancelled_served_call_ends_its_span(world: World, collected: Collected) -> None:
    with world.serve() as line:
        number = line.request("tools/call", {"name": "wait", "arguments": {}, "_meta": META})
        assert world.started.wait(20)
        line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
        assert world.ended.wait(20)
        line.works()
    errors = [attributes(span).get("error.type") for span in collected.spans]
    assert errors == ["cancelled", None]
