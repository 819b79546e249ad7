"""Embedding wasmrt: one list of tools with unique names, separate folders for users, one configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from wasmrt.testing.attacks import Body, tool

from tests.catalog.packages.desk_package import component, write_package
from tests.compiled import Installation
from tests.sandbox.border.relays import agent_http
from tests.sandbox.programs.test_program_writes import tool_with as program
from wasmrt import Capabilities, PreparedTool, ToolError, UnknownToolError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog import Catalog, ComponentInfo
from wasmrt.catalog.installer import Installer
from wasmrt.catalog.package import PackageSource, open_files, read_package
from wasmrt.catalog.sources import FileSource
from wasmrt.core.errors import ConfigFileError, ConfigurationError, InvalidParametersError, NotInstalledError
from wasmrt.egress.secrets import EnvironmentSecrets
from wasmrt.runtime.context import ToolContext
from wasmrt.runtime.workspace import UserFolders
from wasmrt.sandbox.guest.engine import wat2wasm

ECHO = wat2wasm(tool(Body(execute="(call $say (local.get $params) (local.get $length))")))


@pytest.fixture
def home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WASMRT_SECRETS_BACKEND", raising=False)
    return sharing_code(tmp_path / "home")


@pytest.fixture
def runtime(home: Path) -> Any:
    with WasmToolRuntime(WasmRuntimeConfig(isolation="in-process")) as opened:
        yield opened


def install(runtime: WasmToolRuntime, home: Path, source: Any, name: str) -> None:
    def read(name: str, data: Any, tools: Any) -> ComponentInfo:
        prepared = runtime.prepare(name, data, tools=tools)
        return ComponentInfo(world=prepared.world, tools=len(prepared.tools))

    installer = Installer(Catalog(home / "data"), prepare=read)
    installer.accept(installer.plan(source, name=name))
    runtime.forget(name)


@pytest.fixture
def desk(runtime: WasmToolRuntime, home: Path, tmp_path: Path) -> None:
    install(runtime, home, PackageSource(write_package(tmp_path / "desk", component())), "desk")


@pytest.mark.ci("toolchain")
def test_one_list_contains_every_installed_and_bundled_tool(runtime: WasmToolRuntime, desk: None) -> None:
    names = [each.name for each in runtime.installed()]

    assert {"echo", "json", "time", "desk.list_tickets", "desk.purge_tickets"} <= set(names)
    assert not any(each.has_several for each in runtime.installed())


@pytest.mark.ci("toolchain")
def test_tools_are_callable_by_the_name_shown_to_models(runtime: WasmToolRuntime, desk: None) -> None:
    offered = {each.name for each in runtime.installed()}
    providers: tuple[Any, ...] = ("openai", "anthropic", "gemini", "mcp")
    for provider in providers:
        declared = runtime.definitions(provider)
        names = [each["function"]["name"] if provider == "openai" else each["name"] for each in declared]
        assert len(set(names)) == len(names) == len(offered)
        assert "desk-list_tickets" in names
        assert {runtime.tool(name).name for name in names} == offered
    assert runtime.tool("echo").execute({"message": "hi"}).result

    reading = next(each for each in declared if each["name"] == "desk-list_tickets")
    assert reading["annotations"]["readOnlyHint"] is True, "the hints of MCP are part of a declaration"


@pytest.mark.ci("toolchain")
def test_two_tools_with_one_model_name_are_an_error_naming_both(
    runtime: WasmToolRuntime, home: Path, tmp_path: Path, desk: None
) -> None:
    file = tmp_path / "x.wasm"
    file.write_bytes(ECHO)
    install(runtime, home, FileSource(file), "desk-list_tickets")

    with pytest.raises(ConfigurationError, match="would both be offered") as caught:
        runtime.definitions("openai")
    assert "desk.list_tickets and desk-list_tickets" in str(caught.value) and "--name" in str(caught.value.hint)


@pytest.mark.ci("toolchain")
def test_a_component_with_several_tools_has_several_definitions(runtime: WasmToolRuntime, desk: None) -> None:
    several = runtime.prepare_installed("desk")

    with pytest.raises(NotInstalledError, match="has several tools") as caught:
        several.definition("openai")
    assert "list_tickets" in str(caught.value.hint)
    shown = [spec for spec in several.tools if not spec.hidden]
    assert len(several.definitions("openai")) == len(shown) == len(several.tools) - 1 > 1
    assert several.tool("list_tickets").definitions("mcp") == [several.tool("list_tickets").definition("mcp")]


@pytest.mark.ci("toolchain")
def test_an_unavailable_tool_is_omitted_with_its_reason(
    runtime: WasmToolRuntime, home: Path, tmp_path: Path, desk: None
) -> None:
    (stored,) = [
        path for path in (home / "data").rglob("*") if path.name.startswith(Catalog(home / "data").get("desk").digest)
    ]
    stored.chmod(0o600)
    stored.write_bytes(ECHO)

    assert "echo" in [each.name for each in runtime.installed()]
    assert list(runtime.problems) == ["desk"]


def test_an_unknown_name_suggests_the_nearest_one(runtime: WasmToolRuntime) -> None:
    runtime.prepare_installed("echo")

    with pytest.raises(NotInstalledError) as caught:
        runtime.tool("ecko")
    assert caught.value.hint == "did you mean echo?"


@pytest.mark.ci("toolchain")
@pytest.mark.parametrize(
    ("params", "user", "kind"),
    [("no json", "ann", InvalidParametersError), ({}, "", InvalidParametersError), ({}, "ann", UnknownToolError)],
)
def test_every_refused_call_is_a_tool_error_with_a_record(
    home: Path, tmp_path: Path, params: Any, user: str, kind: type[ToolError]
) -> None:
    records: list[dict[str, Any]] = []
    begun: list[int] = []
    terms = ToolContext(user=user, on_begin=lambda: begun.append(len(records)))
    package = read_package(open_files(write_package(tmp_path / "desk", component())))
    with WasmToolRuntime(WasmRuntimeConfig(audit=records.append, isolation="in-process")) as opened:
        several = opened.prepare("desk", package.component, tools=package.tools)
        called = several if kind is UnknownToolError else several.tool("list_tickets")
        with pytest.raises(kind) as caught:
            called.execute(params, user=user)
        (record,) = records
        assert record["outcome"] == caught.value.code and record["call_id"] == caught.value.call_id
        with pytest.raises(kind):
            called.execute(params, terms)
    assert begun == [1] and len(records) == 2, "whoever lets a call through is told before its receipt is written"


def test_models_do_not_see_how_to_widen_a_grant(runtime: WasmToolRuntime) -> None:
    fetch = runtime.prepare("fetch", agent_http("").component(), Capabilities.none().with_http([]))

    with pytest.raises(ToolError) as caught:
        fetch.execute({"method": "GET", "url": "https://a.org/", "headers-json": "{}"})
    told = caught.value.for_model()
    assert "empty" in told and '"host"' not in told and "wasmrt" not in told
    assert any("add to http.allowlist" in str(d.hint) for d in caught.value.decisions)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_component_may_be_any_kind_of_bytes(runtime: WasmToolRuntime, kind: Any) -> None:
    held = bytearray(ECHO)
    echo = runtime.prepare("echo", kind(held))
    held[:] = bytes(len(held))  # the checked bytes are the ones that run

    assert echo.execute({"a": 1}).result == {"a": 1}


def written(prepared: PreparedTool, text: str, **more: Any) -> None:
    prepared.execute({"args": ["change", "write", "out/a.txt", text]}, **more)


def test_each_user_has_a_separate_folder(home: Path, tmp_path: Path) -> None:
    folders = UserFolders(tmp_path)
    for user in ("ann", "bob"):
        (folders(user) / "out").mkdir()
    with WasmToolRuntime(WasmRuntimeConfig(workspace=folders, isolation="in-process")) as opened:
        tool = program(opened)
        for user in ("ann", "bob"):
            written(tool, user, user=user)

    assert [(folders(user) / "out/a.txt").read_text() for user in ("ann", "bob")] == ["ann", "bob"]


def test_a_call_may_use_its_own_folder(home: Path, tmp_path: Path) -> None:
    for name in ("all", "job"):
        (tmp_path / name / "out").mkdir(parents=True)
    with WasmToolRuntime(WasmRuntimeConfig(workspace=tmp_path / "all", isolation="in-process")) as opened:
        tool = program(opened)
        written(tool, "job", workspace=tmp_path / "job")
        assert not (tmp_path / "all/out/a.txt").exists()
        written(tool, "all")
        with pytest.raises(ToolError, match="not a directory"):
            written(tool, "none", workspace=tmp_path / "absent")

    assert [(tmp_path / name / "out/a.txt").read_text() for name in ("all", "job")] == ["all", "job"]


def test_no_username_leads_out_of_the_root_or_to_another_user(tmp_path: Path) -> None:
    users = ["..", ".", "../x", "/etc", "ann", "Ann", "a/b", "a%2fb", "x" * 250, "x" * 249 + "y", "\u00e9", "con.txt"]
    folders = [UserFolders(tmp_path)(user) for user in users]

    assert all(folder.parent == tmp_path for folder in folders)
    assert len({folder.name.lower() for folder in folders}) == len(users)


def test_one_file_configures_the_command_and_a_program(home: Path) -> None:
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "config.toml").write_text(
        "[limits]\nmemory_bytes = 1048576\nfuel = 1000\nmax_concurrent_calls = 3\n"
        '[rates]\ncalls_per_minute = 5\n[workspace]\npath = "files"\nper_user = true\n'
        '[secrets]\nbackend = "environment"\n[audit]\npath = "log"\n'
    )

    config = WasmRuntimeConfig.load()
    assert (config.default_limits.memory_bytes, config.default_limits.fuel) == (1048576, 1000)
    assert config.max_concurrent_calls == 3
    assert config.call_rate_limit is not None and config.call_rate_limit.requests_per_minute == 5
    assert isinstance(config.workspace, UserFolders) and config.workspace.root == home / "data" / "files"
    assert isinstance(config.secrets, EnvironmentSecrets)
    assert config.audit == home / "data" / "log"
    assert WasmRuntimeConfig.load(max_concurrent_calls=9).max_concurrent_calls == 9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\nfuel = 0", "limits.fuel"),
        ("[limits]\nmemory = 1", "limits.memory is not known"),
        ("[rates]\ncalls_per_minute = 'x'", "rates.calls_per_minute"),
        ("[workspace]\nper_user = true", "requires the key path"),
        ("[secrets]\nbackend = 'cloud'", "secrets.backend must be one of"),
        ("[explain]\nservices = 'absent.toml'", "cannot be read"),
    ],
)
def test_a_mistake_in_a_section_is_reported(home: Path, text: str, said: str) -> None:
    (home / "data").mkdir(exist_ok=True)
    (home / "data" / "config.toml").write_text(text)

    with pytest.raises(ConfigFileError, match=said.replace(".", r"\.")):
        WasmRuntimeConfig.load()


def test_an_exempted_internal_host_without_an_http_section_names_the_line(home: Path) -> None:
    from wasmrt import NetworkConfig

    network = NetworkConfig(unsafe_allowed_networks=("10.1.0.0/16",))
    with WasmToolRuntime(WasmRuntimeConfig(network=network, isolation="in-process")) as opened:
        fetch = opened.prepare("fetch", agent_http("").component())

        def hint(host: str) -> str:
            with pytest.raises(ToolError) as caught:
                fetch.execute({"method": "GET", "url": f"https://{host}/x", "headers-json": "{}"})
            return str(next(d.hint for d in caught.value.decisions if not d.allowed))

        assert hint("10.1.0.5").startswith('add "http": {"allowlist": [{"host": "10.1.0.5"')
        assert "network.unsafe_allowed_networks 10.2.0.5/32" in hint("10.2.0.5")
        assert json.dumps("desk.internal") in hint("desk.internal")
