from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.runtime.call.conftest import ECHO, Prepare, fails, says
from wasmrt import PreparedTool, ResourceLimits, ToolErrorKind, ToolRegistry, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.core.errors import (
    ComponentTooLargeError,
    CoreModuleError,
    DeadlineExceededError,
    FuelExhaustedError,
    GuestError,
    GuestOutputError,
    InvalidComponentError,
    InvalidNameError,
    InvalidParametersError,
    NotInstalledError,
    NotWasmError,
    OutputLimitError,
    RuntimeClosedError,
    SourceError,
    ToolError,
    TrapError,
    UnknownWorldError,
)
from wasmrt.core.limits import MAX_PARAMS_BYTES
from wasmrt.sandbox.guest.engine import wat2wasm


def test_a_call_returns_its_guests_result(prepare: Prepare) -> None:
    output = prepare().execute({"message": "grüße", "n": [1, 2.5, None]})
    assert output.result == {"message": "grüße", "n": [1, 2.5, None]}
    assert json.loads(output.raw or "") == output.result
    assert output.usage.fuel > 0
    assert output.usage.params_bytes == output.usage.output_bytes > 0
    assert output.duration > 0
    assert output.call_id


def test_params_may_be_json_text(prepare: Prepare) -> None:
    assert prepare().execute('{"a": 1}').result == {"a": 1}
    assert prepare().execute(b'{"a": 1}').result == {"a": 1}


@pytest.mark.parametrize(
    "params",
    [
        "{", "nonsense", b"\xff", "[" * 10_000 + "]" * 10_000, '{"a": NaN}', float("nan"), {"a": float("inf")},
        {1, 2}, object(), {"a": object()},
    ],
)  # fmt: skip
def test_params_that_are_not_json_are_refused_before_the_guest_runs(prepare: Prepare, params: object) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        prepare(fails("the guest ran")).execute(params)
    assert caught.value.kind == ToolErrorKind.INVALID_PARAMETERS


def test_params_nested_ten_thousand_deep_are_refused(prepare: Prepare) -> None:
    deep: list[object] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(InvalidParametersError, match="deep"):
        prepare().execute({"deep": deep})


@pytest.mark.parametrize("count", [1, 1_100_000])
def test_params_with_half_a_surrogate_pair_are_refused_whatever_their_size(prepare: Prepare, count: int) -> None:
    with pytest.raises(InvalidParametersError):
        prepare().execute({"text": "\udc80" * count})


def test_a_result_may_contain_escapes_and_exceed_the_params_limit(prepare: Prepare) -> None:
    quoted = MAX_PARAMS_BYTES + 2048
    large = Body(
        text=b'"\\u00e9',
        pages=MAX_PARAMS_BYTES // 65536 + 6,
        execute=f"""(memory.fill (i32.const 1031) (i32.const 120) (i32.const {quoted - 1031}))
        (i32.store8 (i32.const {quoted}) (i32.const 34))
        (call $say (i32.const 1024) (i32.const {quoted + 1 - 1024}))""",
    )
    limits = ResourceLimits(output_bytes=2 * MAX_PARAMS_BYTES)
    assert prepare(large, limits=limits).execute({}).result == "\u00e9" + "x" * (quoted - 1031)


def test_brackets_in_strings_do_not_count_as_depth(prepare: Prepare) -> None:
    params = {"text": '[{"\\' * 500}
    assert prepare().execute(params).result == params


def test_a_guests_error_message_is_kept_without_control_characters(prepare: Prepare) -> None:
    with pytest.raises(GuestError) as caught:
        prepare(fails("no such \x1b[31mcity\x07")).execute({})
    assert caught.value.message == "no such [31mcity"
    assert caught.value.kind == ToolErrorKind.EXECUTION_FAILED
    assert caught.value.usage is not None


@pytest.mark.parametrize("answer", ["{", '{"a": 1,}', "text", "NaN", "[" * 5000 + "]" * 5000, '{"a": 1} x'])
def test_a_result_that_is_almost_json_is_an_error(prepare: Prepare, answer: str) -> None:
    with pytest.raises(GuestOutputError):
        prepare(says(answer)).execute({})


def test_a_result_over_the_limit_names_the_setting(prepare: Prepare) -> None:
    with pytest.raises(OutputLimitError) as caught:
        prepare(says('"' + "x" * 200 + '"'), limits=ResourceLimits(output_bytes=100)).execute({})
    assert (caught.value.limit, caught.value.used, caught.value.setting) == (100, 202, "limits.output_bytes")


def test_a_trap_is_typed_and_the_next_call_works(prepare: Prepare) -> None:
    broken = prepare(Body(execute="unreachable"), name="broken")
    for _ in range(3):
        with pytest.raises(TrapError) as caught:
            broken.execute({})
    assert caught.value.code == "trap-unreachable"
    assert prepare().execute({"still": "here"}).result == {"still": "here"}


def test_exceeded_fuel_and_deadline_report_limit_usage_and_setting(prepare: Prepare) -> None:
    loop = Body(execute="(loop (br 0)) (unreachable)")
    with pytest.raises(FuelExhaustedError) as fuel:
        prepare(loop, limits=ResourceLimits(fuel=1_000_000)).execute({})
    assert fuel.value.setting == "limits.fuel"
    assert fuel.value.used is not None
    assert fuel.value.used >= 999_000
    with pytest.raises(DeadlineExceededError) as late:
        prepare(loop, limits=ResourceLimits(fuel=2**60, timeout_seconds=0.1)).execute({})
    assert late.value.setting == "limits.timeout_seconds"
    assert late.value.kind == ToolErrorKind.TIMEOUT
    assert late.value.usage is not None
    assert late.value.usage.wall_seconds >= 0.1


def test_the_deadline_applies_without_fuel_metering() -> None:
    from wasmrt import FuelConfig

    config = WasmRuntimeConfig(cache_compiled=False, fuel_config=FuelConfig(enabled=False))
    loop = wat2wasm(tool(Body(execute="(loop (br 0)) (unreachable)")))
    with WasmToolRuntime(config) as runtime:
        assert runtime.prepare("echo", wat2wasm(tool(ECHO))).execute({}).usage.fuel == 0
        with pytest.raises(DeadlineExceededError):
            runtime.prepare("loop", loop, limits=ResourceLimits(timeout_seconds=0.1)).execute({})


def test_the_fuel_configs_limit_is_the_default_budget() -> None:
    from wasmrt import FuelConfig

    config = WasmRuntimeConfig(cache_compiled=False, fuel_config=FuelConfig(limit=10))
    with WasmToolRuntime(config) as runtime:
        echo = runtime.prepare("echo", wat2wasm(tool(ECHO)))
        assert echo.limits.fuel == 10
        with pytest.raises(FuelExhaustedError):
            echo.execute({"message": "x"})


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", NotWasmError),
        (b"not wasm at all", NotWasmError),
        (b"\0asm\x01\0\0\0", CoreModuleError),
        (b"\0asm", InvalidComponentError),
        (b"\0asm\x0d\0\x01\0\xff\xff", InvalidComponentError),
        (b"\0asm\x0d\0\x01\0", UnknownWorldError),
        (b"\0" * (65 * 1024 * 1024), ComponentTooLargeError),
    ],
    ids=["nothing", "a text", "a core module", "cut short", "a broken section", "no exports", "65 MiB"],
)
def test_a_component_that_is_not_a_tool_has_its_own_error(
    runtime: WasmToolRuntime, data: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error):
        runtime.prepare("x", data)


def test_every_truncation_of_a_component_is_a_typed_error(runtime: WasmToolRuntime) -> None:
    whole = wat2wasm(tool(ECHO))
    for length in range(0, len(whole), 97):
        with pytest.raises((NotWasmError, InvalidComponentError, UnknownWorldError)):
            runtime.prepare("x", whole[:length])


def test_a_component_can_be_given_as_a_path(runtime: WasmToolRuntime, tmp_path: Path) -> None:
    path = tmp_path / "echo.wasm"
    path.write_bytes(wat2wasm(tool(ECHO)))
    assert runtime.prepare("echo", path).execute({"a": 1}).result == {"a": 1}
    with pytest.raises(SourceError, match=r"missing\.wasm"):
        runtime.prepare("echo", tmp_path / "missing.wasm")


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", "../x", ".hidden", "a\x00b", "a\nb", "x" * 65])
def test_names_that_are_paths_or_hidden_are_refused(runtime: WasmToolRuntime, name: str) -> None:
    with pytest.raises(InvalidNameError):
        runtime.prepare(name, wat2wasm(tool(ECHO)))


def test_an_invalid_description_is_flagged_and_the_tool_still_runs(prepare: Prepare) -> None:
    mute = prepare(Body(execute=ECHO.execute, description="(unreachable)"))
    assert "describing it failed" in mute.problems[0]
    assert mute.execute({"a": 1}).result == {"a": 1}


def test_calls_on_a_closed_runtime_raise_an_error(tmp_path: Path) -> None:
    runtime = WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False))
    echo = runtime.prepare("echo", wat2wasm(tool(ECHO)))
    runtime.close()
    runtime.close()
    with pytest.raises(RuntimeClosedError):
        echo.execute({})
    with pytest.raises(RuntimeClosedError):
        runtime.prepare("echo", wat2wasm(tool(ECHO)))


def test_an_asynchronous_context_closes_the_runtime_and_the_registry(tmp_path: Path) -> None:
    released: list[bool] = []

    async def main() -> PreparedTool:
        async with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
            async with ToolRegistry(runtime) as registry:
                registry.on_close(lambda: released.append(True))
                echo = runtime.prepare("echo", wat2wasm(tool(ECHO)))
                assert released == []
            return echo

    echo = asyncio.run(main())
    assert released == [True]
    with pytest.raises(RuntimeClosedError):
        echo.execute({})


def test_errors_become_json_with_kind_code_and_usage(prepare: Prepare) -> None:
    with pytest.raises(ToolError) as caught:
        prepare(Body(execute="unreachable")).execute({})
    data = json.loads(json.dumps(caught.value.as_dict()))
    assert data["kind"] == "sandbox"
    assert data["code"] == "trap-unreachable"
    assert data["usage"]["wall_seconds"] > 0
    assert data["call_id"] == caught.value.call_id


def test_a_secret_is_redacted_in_result_and_raw_output(prepare: Prepare) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    output = prepare().execute({"found": f"token {token} here", "list": [token]})
    assert token not in json.dumps(output.result)
    assert token not in (output.raw or "")
    assert "[REDACTED" in output.result["found"]
    assert json.loads(output.raw or "") == output.result


def test_a_secret_in_an_error_is_redacted(prepare: Prepare) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    with pytest.raises(GuestError) as caught:
        prepare(fails(f"denied for {token}")).execute({})
    assert token not in caught.value.message
    assert token not in str(caught.value)
    assert token not in repr(caught.value)


def test_bundled_tools_are_prepared_by_name_and_unknown_ones_are_not(runtime: WasmToolRuntime) -> None:
    assert runtime.prepare_installed("echo").execute({"message": "hi"}).result == "hi"
    assert "echo" in repr(runtime.prepare_installed("echo"))
    for name in ("nobody", "../echo", ""):
        with pytest.raises(NotInstalledError):
            runtime.prepare_installed(name)


def test_a_capability_file_becomes_a_grant() -> None:
    from wasmrt import Capabilities

    grant = Capabilities.parse('{"http": {"allowlist": [{"host": "api.example.com"}]}}')
    assert grant.explain_http("GET", "https://api.example.com/").allowed


@pytest.mark.parametrize("answer", ['{"a": 1e999}', "[-1e999]"])
def test_a_number_beyond_the_json_range_is_refused(prepare: Prepare, answer: str) -> None:
    with pytest.raises(GuestOutputError):
        prepare(says(answer)).execute({})


@pytest.mark.parametrize("user", ["", "a\x00b", "\ud800", "x" * 1000, b"bytes", None, ["list"]])
def test_an_invalid_username_is_refused(prepare: Prepare, user: object) -> None:
    with pytest.raises(InvalidParametersError, match="user"):
        prepare().execute({}, user=user)  # type: ignore[arg-type]


def test_json_with_too_many_parts_is_refused_before_it_is_walked(prepare: Prepare) -> None:
    with pytest.raises(InvalidParametersError, match="lists and objects"):
        prepare().execute("[" + "[]," * 200_000 + "[]]")


def test_sanitizing_a_result_ends_at_the_deadline(prepare: Prepare) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7h8"
    tool_ = prepare(limits=ResourceLimits(timeout_seconds=0.5))
    with pytest.raises(DeadlineExceededError):
        tool_.execute({"first": token, "rest": ["a"] * 900_000})


@pytest.mark.parametrize("provider", ["openai", "anthropic", "mcp"])
def test_a_tool_is_declared_to_a_provider(runtime: WasmToolRuntime, provider: str) -> None:
    declared = json.dumps(runtime.prepare_installed("json").definition(provider))  # type: ignore[arg-type]
    assert '"json"' in declared
    assert "operation" in declared


def test_a_call_leaves_one_audit_record_with_usage_and_without_texts() -> None:
    records: list[dict[str, object]] = []
    config = WasmRuntimeConfig(cache_compiled=False, audit=records.append)
    with WasmToolRuntime(config) as runtime:
        output = runtime.prepare("echo", wat2wasm(tool(ECHO))).execute({"say": "otter"}, user="alice")
        with pytest.raises(TrapError):
            runtime.prepare("broken", wat2wasm(tool(Body(execute="unreachable")))).execute({"say": "otter"})
    assert [record["outcome"] for record in records] == ["ok", "trap-unreachable"]
    assert records[0]["usage"] == output.usage.as_dict()
    assert records[0]["call_id"] == output.call_id
    assert "otter" not in json.dumps(records)
