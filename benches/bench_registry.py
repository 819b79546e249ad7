"""The cost of the tool system compared with a prepared tool: the pipeline, a lookup among many tools, and definitions.

python -m benches.bench_registry [--quick]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benches import _ways as ways
from benches._guests import guests
from benches._measure import Line, Report, Table, clocked, in_turn, median, ratio, run, shown
from wasmrt import FunctionTool, PreparedTool, ToolCall, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime, tool

MANY = 1000


class Way:
    """One implementation of the same call."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self._work = work

    def times(self, count: int) -> list[int]:
        return clocked(self._work, count)


def measure(quick: bool) -> Report:
    report = Report()
    found, report.skipped = guests()
    echo = next((guest for guest in found if guest.key == "rust-echo"), None)
    rows: list[list[str]] = []
    if echo is not None:
        for isolation in ("process", "in-process"):
            with tempfile.TemporaryDirectory() as folder:
                config = WasmRuntimeConfig(audit=Path(folder) / "receipts", isolation=isolation)  # type: ignore[arg-type]
                with WasmToolRuntime(config) as runtime:
                    prepared = runtime.prepare("bench", echo.path.read_bytes(), ways.grant())
                    chosen = prepared.tool(echo.tool) if len(prepared.tools) > 1 else prepared
                    _calls(report, rows, runtime, chosen, echo.params, isolation, 40 if quick else 200)
    _many(report, rows, 20 if quick else 100)
    report.tables.append(Table("The tool system (Rust echo, receipts on)", ["what", "p50", "ratio"], rows))
    return report


def _calls(
    report: Report, rows: list[list[str]], runtime: WasmToolRuntime, prepared: PreparedTool, params: object,
    isolation: str, rounds: int,
) -> None:  # fmt: skip
    registry = ToolRegistry(runtime)
    registry.register(prepared)
    (name,) = registry.tool_names()
    call = ToolCall("call-1", name, params)
    whole = [
        Way("prepared", lambda: prepared.execute(params)),
        Way("execute", lambda: registry.execute(name, params)),
        Way("answer", lambda: registry.answer(call)),
    ]
    times = in_turn(whole, rounds)
    for way in whole:
        seen = ratio(times[way.name], times["prepared"])
        rows.append([f"{isolation}, {way.name}", shown(median(times[way.name])), f"{seen[0]:.2f}"])
    for way, target in (("execute", 1.6), ("answer", 1.6)):
        seen = ratio(times[way], times["prepared"])
        question = f"a call through the registry ({way}) over a prepared tool, {isolation}"
        report.lines.append(Line(question, seen[0], target if isolation == "process" else None, low=seen[1]))


def _many(report: Report, rows: list[list[str]], rounds: int) -> None:
    few, many = _registry(10), _registry(MANY)
    name = f"tool_{MANY // 2}"
    times = in_turn(
        [Way("of 10", lambda: few.execute("tool_5", {"a": 1})), Way("of 1000", lambda: many.execute(name, {"a": 1}))],
        rounds,
    )
    seen = ratio(times["of 1000"], times["of 10"])
    report.lines.append(Line("a call of a function among 1,000 tools over one among 10", seen[0], 1.1, low=seen[1]))
    many.definitions("openai")
    again = [_timed(lambda: many.definitions("openai")) for _ in range(max(5, rounds // 10))]
    first = _timed(lambda: _registry(MANY).definitions("anthropic"))
    rows.append(["definitions of 1,000 tools, again", shown(median(again)), ""])
    rows.append(["registering 1,000 tools and their first definitions", shown(first), ""])
    report.lines.append(Line("definitions of 1,000 tools after the first time, ms", median(again) / 1e6, 20.0))


def _registry(count: int) -> ToolRegistry:
    registry = ToolRegistry()
    for number in range(count):
        registry.register(_function(number))
    return registry


def _function(number: int) -> FunctionTool[..., int]:
    @tool(name=f"tool_{number}", effects=[])
    def add(a: int, b: int = 0, note: str | None = None) -> int:
        """Add two numbers.

        Args:
            a: The first.
            b: The second.
            note: Anything.
        """
        return a + b

    return add


def _timed(work: Callable[[], object]) -> int:
    started = time.perf_counter_ns()
    work()
    return time.perf_counter_ns() - started


if __name__ == "__main__":
    sys.exit(run(measure))
