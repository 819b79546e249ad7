"""A worker killed at any point of a call: a typed error or the result, one record, nothing done twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wasmrt.testing.attacks import Body

from tests.sandbox.isolation.conftest import ECHO, prepared, program_of
from tests.sandbox.isolation.processes import children, is_alive
from tests.tiers import examples
from wasmrt import Capabilities, PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import WorkerCrashedError
from wasmrt.sandbox.isolation.pool.control import unlimited_lifetime
from wasmrt.sandbox.isolation.pool.program import Program
from wasmrt.sandbox.isolation.wire import Channel

pytestmark = pytest.mark.ci("kills")

TWICE = Body(
    imports=("log", "tool-invoke"),
    text=b"on",
    execute="""
      (call $log (i32.const 2) (i32.const 1024) (i32.const 2))
      (call $tool-invoke (i32.const 1024) (i32.const 2) (local.get $params) (local.get $length) (i32.const 2048))
      (call $log (i32.const 2) (i32.const 1024) (i32.const 2))
      (call $tool-invoke (i32.const 1024) (i32.const 2) (local.get $params) (local.get $length) (i32.const 2048))
      (call $say (i32.load (i32.const 2052)) (i32.load (i32.const 2056)))""",
)
"""Invokes another tool twice; each invocation has its own record."""
LARGE = {"text": "x" * 1_000_000}
"""More than a socket buffer: a worker that returns it blocks within the frame."""


class Rig:
    """A tool, the records of its runtime, and the points at which its worker can be killed."""

    def __init__(self, runtime: WasmToolRuntime, records: list[dict[str, Any]]) -> None:
        self.runtime = runtime
        self.records = records
        grant = Capabilities.none().with_tool_invoke({"on": "done"})
        self.done = prepared(runtime, ECHO, name="done")
        self.asks = prepared(runtime, TWICE, name="asks", capabilities=grant)
        self.echo = prepared(runtime, ECHO, name="echo")

    def call(self, tool: PreparedTool, params: Any, point: int, *, after: bool, fresh: bool) -> tuple[Any, bool]:
        """Call a tool, and kill its worker before or after the host's `point`th message with any worker.

        Returns the answer or the error, and whether it came to that point.
        """
        program = program_of(tool)
        if fresh:
            program.unload_idle(unlimited_lifetime())
        else:
            tool.execute(params)
        self.records.clear()
        seen = 0
        receive, send = Channel.receive, Channel.send

        def killing(act: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(self: Channel, *arguments: Any) -> Any:
                nonlocal seen
                here, seen = seen == point, seen + 1
                if here and not after:
                    kill_workers(program)
                value = act(self, *arguments)
                if here and after:
                    kill_workers(program)
                return value

            return wrapped

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Channel, "receive", killing(receive))
            patch.setattr(Channel, "send", killing(send))
            try:
                ended: Any = tool.execute(params).result
            except WorkerCrashedError as error:
                ended = error
        return ended, seen > point


def kill_workers(program: Program) -> None:
    """Kill every worker of a program, and wait until they have exited."""
    template = program._template
    workers = children(template._pid) if template is not None and template._pid else set()  # 0: not started yet
    for worker in workers:
        if is_alive(worker):
            os.kill(worker, signal.SIGKILL)
    while any(map(is_alive, workers)):
        pass


@pytest.fixture
def rig() -> Iterator[Rig]:
    records: list[dict[str, Any]] = []
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=records.append)) as runtime:
        yield Rig(runtime, records)


@pytest.mark.parametrize("fresh", [False, True], ids=["a worker that waited", "a new worker and template"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_worker_killed_at_any_message_ends_the_call_once(rig: Rig, fresh: bool, after: bool) -> None:
    point, crashes = 0, 0
    while True:
        ended, reached = rig.call(rig.asks, {"n": point}, point, after=after, fresh=fresh)
        own = [record for record in rig.records if record["tool"] == "asks"]
        asked = [record for record in rig.records if record["tool"] == "done"]
        assert len(own) == 1
        if isinstance(ended, WorkerCrashedError):
            crashes += 1
            assert own[0]["outcome"] == "worker-crashed"
            assert ended.signal == signal.SIGKILL
            assert len(asked) <= 2
        else:
            assert ended == {"n": point}
            assert own[0]["outcome"] == "ok"
            assert len(asked) == 2
        assert [record["outcome"] for record in asked] == ["ok"] * len(asked)
        assert rig.runtime.pipeline.admission.running == 0
        if not reached:
            break
        point += 1
    assert point > 10  # params, two log lines, two requests with their replies, the result
    assert crashes > 5


@settings(max_examples=examples(12), deadline=None)
@given(point=st.integers(0, 3), after=st.booleans(), large=st.booleans(), fresh=st.booleans())
def test_a_worker_killed_within_a_frame_ends_the_call_with_a_typed_error(
    point: int, after: bool, large: bool, fresh: bool
) -> None:
    """Params and result of a megabyte are partly transferred when the worker is killed."""
    records: list[dict[str, Any]] = []
    params = LARGE if large else {}
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False, audit=records.append)) as runtime:
        rig = Rig(runtime, records)
        ended, _ = rig.call(rig.echo, params, point, after=after, fresh=fresh)
        assert [record["outcome"] for record in records] == [
            "worker-crashed" if isinstance(ended, WorkerCrashedError) else "ok"
        ]
        assert isinstance(ended, WorkerCrashedError) or ended == params
        assert rig.echo.execute({"again": 1}).result == {"again": 1}
