"""Hostile programs cannot get more access than their caller has, or block the caller."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.code_mode.conftest import Desk, Run, make_registry
from tests.postgres_server import on_a_file
from wasmrt import ReadOnlyToolWrapper, ToolRegistry, WasmToolRuntime, tool
from wasmrt.agent.builtin.host_tool import HostTool
from wasmrt.core.errors import (
    BudgetExceededError,
    CancelledError,
    GuestError,
    LimitError,
    NotAuthorizedError,
    RunReplayError,
    RunSuspendedError,
    ToolError,
    TrapError,
)
from wasmrt.core.limits import MAX_CODE_BYTES, MAX_CODE_CALLS, MAX_CODE_RUNS
from wasmrt.core.model import ToolOutput
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.guest.replies import HostFailure

SPELLINGS = (
    *("write_note", "WRITE_NOTE", "Write-Note", "write-note", "writenote", "write.note", " write_note", "write_note "),
    *("write_note\\u0000", "./write_note", "__proto__", "constructor", "wr\\u0456te_note", "builtin.write_note"),
)
CAUGHT = "try {{ return ['answered', await {call}] }} catch (e) {{ return ['refused', String(e.code)] }}"

pytestmark = on_a_file


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_tools_outside_the_view_cannot_be_called_by_any_spelling(
    registry: ToolRegistry, desk: Desk, spelling: str
) -> None:
    for view in (registry.read_only(), registry.for_subagent(), registry.only(["add", "run_code"])):
        output = view.execute("run_code", {"code": CAUGHT.format(call=f'tools["{spelling}"]({{text: "x"}})')})
        assert output.result["result"][0] == "refused"
    assert desk.done == [] and desk.asked == []


@pytest.mark.parametrize("name", ["run_code", "Run_Code", "RUN-CODE", "rewire"])
def test_programs_cannot_run_programs_or_change_tools(run: Run, desk: Desk, name: str) -> None:
    assert run(CAUGHT.format(call=f'tools["{name}"]({{code: "return 1"}})')) == ["refused", "not-in-view"]
    assert desk.done == [] and desk.asked == []


HARMLESS_TO_US = {
    "Object.prototype.polluted = 1; return [(await tools.add({a: 1, b: 1})), {}.polluted]": [2, 1],
    "JSON.stringify = () => '{\"a\":40,\"b\":2}'; return await tools.add({a: 1, b: 1})": 2,
    "JSON.parse = () => ({result: 'forged'}); return await tools.add({a: 1, b: 1})": 2,
    "Object.prototype.failure = {code: 'forged'}; return await tools.add({a: 1, b: 1})": 2,
    "Function.prototype.call = () => 'forged'; return await tools.add({a: 1, b: 1})": 2,
    "Object.prototype.hasOwnProperty = () => true; return await tools.add({a: 1, b: 1})": 2,
    "try { tools.add = () => 'forged' } catch {}; return await tools.add({a: 1, b: 1})": 2,
    "try { Object.defineProperty(tools, 'add', {value: () => 'x'}) } catch {}; return await tools.add({a: 1, b: 1})": 2,
    "try { tools.add.call = 1; Object.setPrototypeOf(tools, {add: 1}) } catch {}; return await tools.add({a: 1, b: 1})":
        2,
    "String.prototype.toString = () => 'write_note'; return await tools.add({a: 1, b: 1})": 2,
    "return [typeof require, typeof process, typeof fetch, typeof call, typeof std, typeof Deno, typeof wasmrt]":
        ["undefined"] * 7,
    "return (await tools.add({a: 1, b: 1, toJSON() { return {a: 2, b: 2} }}))": 4,
    "let n = 0; const p = {get a() { return n++ ? 'write' : 1 }, b: 1}; return await tools.add(p)": 2,
    "return typeof new Function('return this')().tools": "undefined",
}  # fmt: skip


@pytest.mark.parametrize("code", HARMLESS_TO_US)
def test_patched_globals_of_a_program_do_not_change_its_calls(run: Run, desk: Desk, code: str) -> None:
    assert run(code) == HARMLESS_TO_US[code]
    assert all(each.startswith("add") for each in desk.done) and desk.asked == []


@pytest.mark.parametrize(
    "code",
    [
        "for (const Error_ of [1]) throw {toString() { throw 1 }, valueOf() { throw 2 }}",
        "throw {toString() { while (false); return tools }}",
        "throw new Proxy({}, {get() { throw 3 }})",
        "return {toJSON() { throw new Error('x') }}",
        "const a = {}; a.a = a; return a",
        "return 10n",
        "throw undefined",
        "await tools.add(new Proxy({}, {ownKeys() { throw 4 }}))",
        "await tools.add(Symbol('x'))",
        "console.log({toString() { throw 5 }}, Symbol('x'), new Proxy({}, {get() { throw 6 }}))",
        "import('x.js')",
        "return await import('fs')",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0, 100000)",
    ],
)
def test_odd_exceptions_and_results_only_end_the_program(registry: ToolRegistry, code: str) -> None:
    try:
        output = registry.execute("run_code", {"code": code})
    except (GuestError, TrapError):
        pass
    else:
        assert isinstance(output.result, dict)
    assert registry.execute("run_code", {"code": "return 1"}).result == {"result": 1}


@pytest.mark.parametrize(
    "code",
    [
        "while (true);",
        "await (async function again() { await null; return again() })()",
        "let s = 'x'; while (true) s += s",
        "const all = []; while (true) all.push(new ArrayBuffer(16 << 20))",
        "return 'x'.repeat(2 ** 29).length",
        "return /(a+)+$/.test('a'.repeat(40) + 'b')",
        "JSON.parse('['.repeat(100000))",
        "eval('('.repeat(20000))",
        "return 'x'.repeat(5 << 20)",
    ],
)
def test_endless_programs_and_programs_that_use_all_memory_are_ended(registry: ToolRegistry, code: str) -> None:
    with pytest.raises((LimitError, TrapError, GuestError)):
        registry.execute("run_code", {"code": code})
    assert registry.execute("run_code", {"code": "return 1"}).result == {"result": 1}


def test_endless_output_is_truncated(registry: ToolRegistry) -> None:
    found = registry.execute("run_code", {"code": "for (let i = 0; i < 3000; i++) console.log('x'.repeat(100))"}).result
    assert found["printed_cut"] is True and len(found["printed"]) <= 64 * 1024


def test_run_ends_at_the_maximum_number_of_calls(run: Run, desk: Desk) -> None:
    with pytest.raises(BudgetExceededError, match="more than 256 times"):
        run("for (;;) { try { await tools.add({a: 1, b: 1}) } catch {} }")
    assert len(desk.done) == MAX_CODE_CALLS


def test_oversized_arguments_are_refused_before_the_tool_runs(run: Run, desk: Desk) -> None:
    huge = "'x'.repeat((1 << 20) + 1)"
    assert run(CAUGHT.format(call=f"tools.write_note({{text: {huge}}})")) == ["refused", "params-too-large"]
    with pytest.raises(LimitError):
        run(f"const x = {huge}; for (;;) {{ try {{ await tools.write_note({{text: x}}) }} catch {{}} }}")
    assert desk.done == [] and desk.asked == []


def test_program_beyond_the_size_limit_is_refused(registry: ToolRegistry) -> None:
    with pytest.raises(NotAuthorizedError, match="the program is longer than"):
        registry.execute("run_code", {"code": "//" + "x" * MAX_CODE_BYTES})


def test_denied_call_stays_denied_when_repeated(run: Run, desk: Desk) -> None:
    desk.answers = [False] * 3
    code = """
        const codes = [];
        for (let i = 0; i < 3; i++) try { await tools.write_note({text: 'x'}) } catch (e) { codes.push(e.code) }
        return codes
    """
    assert run(code) == ["approval-denied"] * 3
    assert desk.done == [] and len(desk.asked) == 3


def test_program_cannot_catch_a_pending_call(run: Run, desk: Desk) -> None:
    code = "try { await tools.write_note({text: 'x'}) } catch { await tools.add({a: 1, b: 1}) } finally { %s } return 1"
    with pytest.raises(RunSuspendedError):
        run(code % "await tools.add({a: 2, b: 2})")
    assert desk.done == []


def test_calls_after_the_end_of_a_program_are_not_made(registry: ToolRegistry, desk: Desk) -> None:
    kept: list[Any] = []
    tool_of_code = registry.get("run_code")
    execute = tool_of_code.execute

    def spying(params: Any, context: ToolContext) -> ToolOutput:
        kept.append(context.call_tool)
        output: ToolOutput = execute(params, context)
        return output

    tool_of_code.execute = spying
    output = registry.execute("run_code", {"code": "tools.add({a: 1, b: 1}); return 1"})
    assert output.result == {"result": 1} and desk.done == ["add 1 1"]

    class Guest:
        call_id, trace_id, lifetime = "x", "x", None

    with pytest.raises((CancelledError, HostFailure, ToolError)):
        kept[0]("add", '{"a": 3, "b": 3}', Guest())
    assert desk.done == ["add 1 1"]


# -- recordings ------------------------------------------------------------------------------------------------------

PROGRAM = "const a = await tools.add({a: 1, b: 1}); return await tools.write_note({text: String(a)})"


@pytest.fixture
def waiting(registry: ToolRegistry, desk: Desk, home: Path) -> Path:
    """Return the file of a run that is suspended at its second call."""
    with pytest.raises(RunSuspendedError):
        registry.execute("run_code", {"code": PROGRAM}, user="ann", trace="job-1")
    assert desk.done == ["add 1 1"]
    (file,) = (home / "data/code-runs").iterdir()
    return file


def _again(registry: Any, **other: str) -> Any:
    circumstances = {"user": "ann", "trace": "job-1"} | other
    return registry.execute("run_code", {"code": PROGRAM}, **circumstances)


def _edit(file: Path, change: Callable[[list[Any]], None]) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("other", [{"user": "bob"}, {"trace": "job-2"}, {"trace": ""}])
def test_run_cannot_be_continued_by_a_different_user_or_conversation(
    registry: ToolRegistry, desk: Desk, waiting: Path, other: dict[str, str]
) -> None:
    with pytest.raises(RunSuspendedError):
        _again(registry, **other)
    assert desk.done == ["add 1 1", "add 1 1"]  # a separate run, from its beginning


def test_stored_run_of_a_different_user_is_refused(registry: ToolRegistry, desk: Desk, waiting: Path) -> None:
    with pytest.raises(RunSuspendedError):
        _again(registry, user="bob")
    (bobs,) = (each for each in waiting.parent.iterdir() if each != waiting)
    bobs.write_bytes(waiting.read_bytes())
    with pytest.raises(RunReplayError, match="stored run is invalid"):
        _again(registry, user="bob")


def _swap(lines: list[Any]) -> None:
    lines[1]["answered"]["asked"] = "0" * 64


def _forge_type(lines: list[Any]) -> None:
    lines[1]["answered"]["surprise"] = 1


def _drop_owner(lines: list[Any]) -> None:
    del lines[0]["owner"]


@pytest.mark.parametrize(("change", "code"), [
    (_swap, "run-differs"), (_forge_type, "run-differs"), (_drop_owner, "run-differs"),
    (lambda lines: lines.clear(), "run-differs"),
])  # fmt: skip
def test_stored_run_with_changed_calls_or_format_is_refused(
    registry: ToolRegistry, desk: Desk, waiting: Path, change: Callable[[list[Any]], None], code: str
) -> None:
    _edit(waiting, change)
    desk.answers = [True]
    with pytest.raises(RunReplayError) as caught:
        _again(registry)
    assert caught.value.code == code and desk.done == ["add 1 1"]


def test_stored_run_that_is_readable_by_others_or_a_link_is_refused(
    registry: ToolRegistry, desk: Desk, waiting: Path, tmp_path: Path
) -> None:
    assert waiting.stat().st_mode & 0o777 == 0o600
    waiting.chmod(0o644)
    with pytest.raises(RunReplayError, match="cannot store the run"):
        _again(registry)
    waiting.chmod(0o600)
    waiting.rename(tmp_path / "elsewhere")
    waiting.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunReplayError, match="cannot store the run"):
        _again(registry)
    assert desk.done == ["add 1 1"]


def test_answers_are_not_replayed_if_the_view_no_longer_has_the_tool(
    registry: ToolRegistry, desk: Desk, waiting: Path
) -> None:
    desk.answers = [True]
    with pytest.raises(RunReplayError, match="would be denied now") as caught:
        _again(registry.only(["run_code", "write_note"]))
    assert caught.value.code == "run-refused" and desk.done == ["add 1 1"]


def test_interrupted_call_is_not_repeated(registry: ToolRegistry, desk: Desk, waiting: Path) -> None:
    asked = "x" * 64
    with waiting.open("a") as file:
        file.write(json.dumps({"begun": {"asked": asked, "reads": False}}) + "\n" + '{"answered": {"as')
    desk.answers = [True]
    with pytest.raises(RunReplayError, match="interrupted") as caught:
        _again(registry)
    assert caught.value.code == "run-interrupted" and desk.done == ["add 1 1"]


def test_run_cannot_be_continued_twice_at_the_same_time(registry: ToolRegistry, desk: Desk, waiting: Path) -> None:
    asked, answered = threading.Event(), threading.Event()
    desk_ask, failures = desk.ask, []

    def ask(request: Any) -> Any:
        asked.set()
        answered.wait(30)
        return desk_ask(request)

    desk.ask = ask  # type: ignore[method-assign]
    other = make_registry(registry.runtime, desk)  # type: ignore[arg-type]
    desk.answers = [True]
    outputs: list[Any] = []
    thread = threading.Thread(target=lambda: outputs.append(_again(other).result))
    thread.start()
    assert asked.wait(30)
    try:
        with pytest.raises(RunReplayError) as caught:
            _again(registry)
        failures.append(caught.value.code)
    finally:
        answered.set()
        thread.join(30)
    assert failures == ["run-under-way"] and outputs == [{"result": "wrote 2"}]
    assert desk.done == ["add 1 1", "write 2"] and not waiting.exists()


def test_number_of_suspended_programs_of_a_user_is_limited(registry: ToolRegistry, desk: Desk, waiting: Path) -> None:
    for number in range(MAX_CODE_RUNS - 1):
        (waiting.parent / f"{waiting.name[:17]}{number}.jsonl").touch(0o600)
    with pytest.raises(RunReplayError) as caught:
        registry.execute("run_code", {"code": "return await tools.write_note({text: 'y'})"}, user="ann")
    assert caught.value.code == "too-many-runs" and len(desk.asked) == 1
    with pytest.raises(RunSuspendedError):  # the limit is for each user
        registry.execute("run_code", {"code": "return await tools.write_note({text: 'y'})"}, user="bob")


def test_run_survives_its_process_and_expires(
    runtime: WasmToolRuntime, registry: ToolRegistry, desk: Desk, waiting: Path
) -> None:
    another = make_registry(runtime, desk)
    os.utime(waiting, (1, 1))
    with pytest.raises(RunSuspendedError):
        _again(another)
    assert desk.done == ["add 1 1", "add 1 1"]
    desk.answers = [True]
    assert _again(make_registry(runtime, desk)).result == {"result": "wrote 2"}
    assert desk.done == ["add 1 1", "add 1 1", "write 2"]
    assert list(waiting.parent.iterdir()) == []


def test_third_party_tools_cannot_get_the_tools_of_the_caller(registry: ToolRegistry, desk: Desk) -> None:
    seen: list[Any] = []

    @tool(effects=[])
    def innocent() -> str:
        """Look around."""
        return "x"

    innocent.runs_programs = True
    execute = innocent.execute

    def looking(params: Any, context: ToolContext) -> Any:
        seen.append((context.call_tool, context.tools))
        return execute(params, context)

    innocent.execute = looking  # type: ignore[method-assign]
    registry.register(innocent)
    registry.execute("innocent", {})
    assert seen == [(None, None)]


def test_wrapped_tool_is_still_excluded_from_programs(registry: ToolRegistry) -> None:
    apart = HostTool("apart", "Stand apart.", {}, lambda params, context: "done", in_programs=False)
    registry.register(ReadOnlyToolWrapper.wrap(apart) or apart, builtin=True)
    assert registry.execute("apart", {}).result == "done"
    code = "try { return await tools.apart({}) } catch (error) { return error.code }"
    assert registry.execute("run_code", {"code": code}).result == {"result": "not-in-view"}
