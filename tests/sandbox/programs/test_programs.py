"""Programs of `wasi:cli/command` as tools: arguments and input, output and exit code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import wasmtime

from tests.sandbox.programs.build import program
from wasmrt import Capabilities, Isolation, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import (
    FuelExhaustedError,
    GuestExitError,
    InvalidComponentError,
    InvalidParametersError,
    OutputLimitError,
    ToolError,
    TrapError,
)
from wasmrt.core.limits import MAX_CAPTURED_OUTPUT_BYTES, MAX_PARAMS_BYTES
from wasmrt.sandbox.component import ToolSpec, worlds

pytestmark = pytest.mark.ci("toolchain")


@pytest.fixture(scope="module", params=[Isolation.PROCESS, Isolation.IN_PROCESS])
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WasmToolRuntime]:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "notes").mkdir()
    (workspace / "notes/one.txt").write_text("one\n")
    (workspace / "secret.txt").write_text("not granted\n")
    config = WasmRuntimeConfig(workspace=workspace, isolation=request.param, cache_compiled=False)
    with WasmToolRuntime(config) as opened:
        yield opened


@pytest.fixture(scope="module")
def tool(runtime: WasmToolRuntime) -> PreparedTool:
    return runtime.prepare("program", program())


def run(tool: PreparedTool, *args: str, **params: Any) -> dict[str, Any]:
    result: dict[str, Any] = tool.execute({"args": list(args), **params}).result
    return result


def test_a_program_is_a_tool_with_arguments_and_input(tool: PreparedTool) -> None:
    assert worlds.exported_program([tool.world]) == tool.world
    types = [(name, said["type"]) for name, said in tool.schema["properties"].items()]
    assert types == [("args", "array"), ("stdin", "string"), ("check", "boolean")]
    assert tool.schema["properties"]["args"]["items"]["type"] == "string"
    assert (tool.name, len(tool.tools)) == ("program", 1)
    assert "stdout and stderr" in tool.description


def test_standard_output_is_the_result_and_not_logged(tool: PreparedTool) -> None:
    output = tool.execute({"args": ["both"], "stdin": "hello"})
    assert output.result == {"stdout": "HELLO", "stderr": "read 5 bytes", "exit_code": 0}
    assert output.logs == ()


def test_arguments_follow_the_tools_name_unchanged(tool: PreparedTool) -> None:
    assert run(tool, "args", "a b", "ü", "")["stdout"] == '["program", "args", "a b", "ü", ""]\n'


def test_without_params_a_program_gets_only_its_own_name_as_argument(tool: PreparedTool) -> None:
    with pytest.raises(GuestExitError, match='no such thing: ""'):
        tool.execute({})
    assert run(tool, "cat")["stdout"] == ""


def test_the_environment_is_empty(tool: PreparedTool) -> None:
    assert run(tool, "env")["stdout"] == "[]\n"


def test_invalid_utf8_output_is_replaced(tool: PreparedTool) -> None:
    assert run(tool, "bytes")["stdout"] == "a\ufffdb"


def test_exit_code_zero_is_a_result(tool: PreparedTool) -> None:
    assert run(tool, "exit", "0") == {"stdout": "last words\n", "stderr": "", "exit_code": 0}


def test_a_failed_program_is_an_error_with_its_stderr(tool: PreparedTool) -> None:
    with pytest.raises(GuestExitError) as caught:
        run(tool, "fail")
    error = caught.value
    assert (error.code, error.exit_code) == ("guest-exit", 1)
    assert error.message == "the program ended with exit code 1: it did not work"
    assert [entry.message for entry in error.logs] == ["an answer", "it did not work"]
    assert error.as_dict()["program_exit_code"] == 1


def test_without_stderr_the_output_describes_the_failure(tool: PreparedTool) -> None:
    with pytest.raises(GuestExitError, match="exit code 1: last words"):
        run(tool, "exit", "7")


def test_callers_can_accept_every_exit_code(tool: PreparedTool) -> None:
    assert run(tool, "fail", check=False) == {"stdout": "an answer\n", "stderr": "it did not work\n", "exit_code": 1}


def test_a_call_after_a_failed_one_has_fresh_state(tool: PreparedTool) -> None:
    with pytest.raises(GuestExitError):
        run(tool, "fail")
    assert run(tool, "cat", stdin="again")["stdout"] == "again"


def test_a_panic_is_a_trap_and_its_message_is_logged(tool: PreparedTool) -> None:
    with pytest.raises(TrapError) as caught:
        run(tool, "panic")
    assert "on purpose" in [entry.message for entry in caught.value.logs]


@pytest.mark.parametrize("stream", ["flood", "flood-errors"])
def test_endless_output_ends_at_the_result_limit(runtime: WasmToolRuntime, stream: str) -> None:
    small = runtime.prepare("program", program(), limits=ResourceLimits(output_bytes=100_000))
    with pytest.raises(OutputLimitError) as caught:
        run(small, stream)
    assert caught.value.limit == 100_000
    assert 0 < sum(len(entry.message) for entry in caught.value.logs) <= 100_000


def test_flooded_logs_are_limited_and_the_rest_counted(tool: PreparedTool) -> None:
    with pytest.raises(OutputLimitError) as caught:
        run(tool, "flood")
    error = caught.value
    assert error.usage is not None
    assert sum(len(entry.message) for entry in error.logs) <= MAX_CAPTURED_OUTPUT_BYTES
    assert error.usage.log_entries_dropped > 900


def test_an_endless_program_ends_with_its_fuel(runtime: WasmToolRuntime) -> None:
    small = runtime.prepare("program", program(), limits=ResourceLimits(fuel=5_000_000))
    with pytest.raises(FuelExhaustedError):
        run(small, "spin")


@pytest.mark.parametrize(
    "params",
    [
        {"args": ["x"] * 1025},
        {"args": ["x" * 32_769]},
        {"args": [1, 2, None]},
        {"args": "cat"},
        {"input": ""},
        {"stdin": ["a"]},
        {"check": "no"},
        {"stdin": "x" * MAX_PARAMS_BYTES},
        [],
    ],
)
def test_program_params_are_typed_and_limited(tool: PreparedTool, params: Any) -> None:
    with pytest.raises(InvalidParametersError):
        tool.execute(params)


@pytest.mark.parametrize("params", [{"stdin": 5}, {"args": 5}, {"args": [["x"]]}])
def test_a_packages_looser_schema_still_accepts_only_strings(runtime: WasmToolRuntime, params: Any) -> None:
    loose = ToolSpec("loose", schema={"type": "object", "properties": {"args": {}, "stdin": {}}})
    with pytest.raises(InvalidParametersError):
        runtime.prepare("loose", program(), tools=[loose]).execute(params)


def test_a_misspelled_param_suggests_the_nearest_one(tool: PreparedTool) -> None:
    with pytest.raises(InvalidParametersError, match=r"did you mean stdin\?"):
        tool.execute({"stdn": "x"})


def test_without_a_grant_no_file_is_visible(tool: PreparedTool) -> None:
    with pytest.raises(GuestExitError, match="No such file"):
        run(tool, "read", "notes/one.txt")


@pytest.mark.parametrize("folder", [None, "/workspace", "/srv/files"])
def test_the_workspace_is_mounted_at_the_callers_folder(runtime: WasmToolRuntime, folder: str | None) -> None:
    granted = runtime.prepare("program", program(), Capabilities.none().with_workspace_read(["notes/"]))
    context = None if folder is None else {"workspace": folder, "user": "alice"}
    path = f"{folder or ''}/notes"
    assert granted.execute({"args": ["read", f"{path}/one.txt"]}, context).result["stdout"] == "one\n"
    assert granted.execute({"args": ["list", path]}, context).result["stdout"] == "one.txt\n"
    with pytest.raises(GuestExitError):
        granted.execute({"args": ["read", f"{folder or ''}/secret.txt"]}, context)


@pytest.mark.parametrize("folder", ["workspace", "", 7, "/a\0b", "/" + "x" * 5000])
def test_a_folder_without_an_absolute_path_is_refused(tool: PreparedTool, folder: Any) -> None:
    with pytest.raises(InvalidParametersError, match="not an absolute path"):
        tool.execute({"args": ["cat"]}, {"workspace": folder})


def test_a_refused_write_is_recorded(runtime: WasmToolRuntime) -> None:
    granted = runtime.prepare("program", program(), Capabilities.none().with_workspace_read(["notes/"]))
    with pytest.raises(GuestExitError) as caught:
        run(granted, "write", "notes/one.txt")
    (decision,) = (one for one in caught.value.decisions if not one.allowed)
    assert (decision.rule, decision.capability) == ("no workspace_write section", "workspace_write")


def test_a_printed_secret_is_redacted_from_results_and_errors(tool: PreparedTool) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    assert token not in run(tool, "cat", stdin=f"it is {token} here")["stdout"]
    with pytest.raises(ToolError) as caught:
        run(tool, token)
    assert token not in caught.value.message
    assert all(token not in entry.message for entry in caught.value.logs)


@pytest.mark.parametrize(
    ("exports", "is_program"),
    [
        (["wasi:cli/run@0.2.0"], True),
        (["wasi:cli/run@0.2.12"], True),
        (["wasi:cli/run@0.3.0"], False),
        (["wasi:cli/run@0.2.0-rc"], False),
        (["wasi:cli/run@0.2.0", "more"], False),
        (["run"], False),
        ([], False),
    ],
)
def test_a_program_exports_only_its_start_function(exports: list[str], is_program: bool) -> None:
    assert (worlds.exported_program(exports) is not None) is is_program


def test_a_start_function_with_a_wrong_type_is_refused(runtime: WasmToolRuntime) -> None:
    text = """(component
      (core module $m (func (export "run")))
      (core instance $i (instantiate $m))
      (func $f (canon lift (core func $i "run")))
      (instance $r (export "run" (func $f)))
      (export "wasi:cli/run@0.2.0" (instance $r)))"""
    with pytest.raises(InvalidComponentError) as caught:
        runtime.prepare("odd", bytes(wasmtime.wat2wasm(text)))
    assert caught.value.hint == "export run: func() -> result"


def test_a_program_file_is_checked_before_it_is_compiled(tool: PreparedTool) -> None:
    world = WasmValidator().validate(program().read_bytes()).world
    assert world == tool.world
