"""Manifests: strict validation, arguments as JSON Schema, and loading a folder of plugins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.plugins.conftest import MANIFEST
from tests.sandbox.programs.build import echo_plugin, preview1_module, program
from wasmrt.agent.builtin.plugins import Plugins, load_plugins, read_manifest
from wasmrt.core.errors import (
    ConfigurationError,
    CoreModuleError,
    ManifestError,
    NotInstalledError,
    SourceError,
    UnknownWorldError,
    WasmrtError,
)
from wasmrt.runtime.runtime import WasmToolRuntime
from wasmrt.sandbox.schema import Validator

HEAD = 'tool_name = "it"\nversion = "1"\ndescription = "d"\n'
ARGS = '[args]\ntype = "object"\n'


def problems(text: str, name: str = "it") -> dict[str, str]:
    with pytest.raises(ManifestError) as caught:
        read_manifest(text.encode(), name=name)
    return dict(caught.value.problems)


def schema_of(argument: str) -> dict[str, Any]:
    read = read_manifest(f"{HEAD}{ARGS}[args.properties.x]\n{argument}".encode(), name="it")
    schema: dict[str, Any] = read.schema["properties"]["x"]
    return schema


def test_example_manifest_is_valid() -> None:
    manifest = read_manifest(MANIFEST.format(name="echo", more="").encode(), name="echo")
    assert manifest._replace(schema={}) == (
        *("echo", "0.1.0", "Echo back a text field", {}, False, False, 2000, 65536, 65536),
    )


def test_omitted_keys_have_the_protocol_defaults() -> None:
    manifest = read_manifest((HEAD + ARGS).encode(), name="it")
    assert manifest[4:] == (False, False, 2000, 65536, 65536)
    assert manifest.schema == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize(
    ("argument", "schema"),
    [
        ('type = "string"', {"type": "string"}),
        ('type = "string"\nmax_length = 3\nmin_length = 1', {"type": "string", "maxLength": 3, "minLength": 1}),
        ('type = "string"\nenum = ["a", "b"]', {"type": "string", "enum": ["a", "b"]}),
        ('type = "string"\npattern = "^a"', {"type": "string", "pattern": "^a"}),
        ('type = "integer"\nmin = -3\nmax = 0', {"type": "integer", "minimum": -3, "maximum": 0}),
        ('type = "number"\nmin = 0.5', {"type": "number", "minimum": 0.5}),
        ('type = "boolean"\ndescription = "d"', {"type": "boolean", "description": "d"}),
    ],
)
def test_arguments_are_converted_to_json_schema(argument: str, schema: dict[str, Any]) -> None:
    assert schema_of(argument) == schema


@given(low=st.integers(-1000, 1000), span=st.integers(0, 1000), value=st.integers(-3000, 3000))
def test_number_limits_are_inclusive(low: int, span: int, value: int) -> None:
    argument = f'[args.properties.x]\ntype = "integer"\nmin = {low}\nmax = {low + span}'
    manifest = read_manifest(f'{HEAD}{ARGS}required = ["x"]\n{argument}'.encode(), name="it")
    validator = Validator(manifest.schema)
    if low <= value <= low + span:
        assert validator.accept({"x": value}) == {"x": value}
    else:
        with pytest.raises(WasmrtError):
            validator.accept({"x": value})


def test_each_mistake_is_reported_with_its_key_and_a_suggestion() -> None:
    found = problems(
        """
tool_nme = "it"
version = 1
description = "d"
max_runtime_ms = 0
native = "yes"
[args]
type = "list"
require = []
[args.properties.x]
typ = "string"
[args.properties.y]
type = "text"
max_lenght = 3
"""
    )
    assert "did you mean 'tool_name'?" in found["tool_nme"]
    assert found["tool_name"] == "is missing"
    assert "must be text" in found["version"]
    assert "positive whole number" in found["max_runtime_ms"]
    assert "true or false" in found["native"]
    assert "must be one of object" in found["args.type"]
    assert "did you mean 'required'?" in found["args.require"]
    assert "did you mean 'type'?" in found["args.properties.x.typ"]
    assert "must be one of string, integer, number, boolean" in found["args.properties.y.type"]
    assert "did you mean 'max_length'?" in found["args.properties.y.max_lenght"]


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        ('type = "integer"\nmax_length = 3', "max_length"),
        ('type = "string"\nmin = 3', "min"),
        ('type = "integer"\nmax = 1.5', "max"),
        ('type = "integer"\nmin = 2\nmax = 1', "min"),
        ('type = "string"\nmin_length = 2\nmax_length = 1', "min_length"),
        ('type = "string"\nenum = ["a", 1]', "enum"),
        ('type = "integer"\nenum = [1, true]', "enum"),
        ('type = "string"\nenum = []', "enum"),
        ('type = "number"\nmax = nan', "max"),
        ('type = "integer"\nmin = true', "min"),
    ],
)
def test_a_limit_of_the_wrong_type_is_an_error(argument: str, key: str) -> None:
    assert list(problems(f"{HEAD}{ARGS}[args.properties.x]\n{argument}")) == [f"args.properties.x.{key}"]


def test_contradicting_keys_are_reported() -> None:
    assert "like the file name" in problems(HEAD + ARGS, name="other")["tool_name"]
    assert "'y' is not a property" in problems(f'{HEAD}{ARGS}required = ["y"]')["args.required"]
    assert "args" in problems(f'{HEAD}{ARGS}[args.properties.x]\ntype = "string"\npattern = "("')


@pytest.mark.parametrize("text", ["tool_name = ", "\xff", "x = " + "[" * 5000, "a" * (2 * 1024 * 1024), "x = 1\nx = 2"])
def test_invalid_toml_is_rejected(text: str) -> None:
    with pytest.raises(ManifestError):
        read_manifest(text.encode("latin-1"), name="it")


@pytest.mark.parametrize("name", ["../x", "A", "", "a b", "x" * 65])
def test_invalid_tool_name_is_rejected(name: str) -> None:
    assert "tool_name" in problems(f'tool_name = "{name}"\nversion = "1"\ndescription = "d"\n{ARGS}')


def test_additional_arguments_require_additional_properties() -> None:
    closed = read_manifest((HEAD + ARGS).encode(), name="it").schema
    opened = read_manifest(f"{HEAD}{ARGS}additional_properties = true".encode(), name="it").schema
    with pytest.raises(WasmrtError):
        Validator(closed).accept({"more": 1})
    assert Validator(opened).accept({"more": 1}) == {"more": 1}


@pytest.mark.ci("slow")
def test_unusable_plugin_does_not_affect_others(
    write: Callable[..., None], load: Callable[..., Plugins], folder: Path
) -> None:
    write("echo", program=echo_plugin("wasm32-wasip2"))
    write("native", "#!/bin/sh\n")
    write("absent")
    (folder / "broken.toml").write_text("nothing")
    plugins = load()
    assert [tool.name for tool in plugins] == ["echo"]
    assert len(plugins) == 1
    assert {name: type(error) for name, error in plugins.refused.items()} == {
        "absent": SourceError,
        "broken": ManifestError,
        "native": ConfigurationError,
    }
    with pytest.raises(ConfigurationError, match="native is a native plugin, and native plugins are disabled"):
        plugins["native"]
    with pytest.raises(NotInstalledError) as caught:
        plugins["ecko"]
    assert caught.value.hint == "did you mean echo?"


def test_component_without_run_export_is_refused(write: Callable[..., None], load: Callable[..., Plugins]) -> None:
    import wasmrt

    write("echo", program=Path(wasmrt.__file__).parent / "catalog/shipped/echo.wasm")
    assert isinstance(load().refused["echo"], UnknownWorldError)


@pytest.mark.ci("toolchain")
def test_preview_1_module_is_converted_by_the_given_adapter(
    write: Callable[..., None], load: Callable[..., Plugins]
) -> None:
    write("echo", program=preview1_module())
    assert isinstance(load().refused["echo"], CoreModuleError)
    seen: list[bytes] = []

    def adapt(module: bytes) -> bytes:
        seen.append(module)
        return program().read_bytes()

    assert load(adapt=adapt)["echo"].kind == "wasi"
    assert seen == [preview1_module().read_bytes()]


@pytest.mark.ci("slow")
def test_interrupted_loading_closes_the_runtime(
    write: Callable[..., None], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("echo", program=echo_plugin("wasm32-wasip2"))
    write("later", program=preview1_module())
    closed: list[WasmToolRuntime] = []
    close = WasmToolRuntime.close

    def noted(runtime: WasmToolRuntime) -> None:
        closed.append(runtime)
        close(runtime)

    def interrupt(_: bytes) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(WasmToolRuntime, "close", noted)
    with pytest.raises(KeyboardInterrupt):
        load_plugins(folder, adapt=interrupt)
    assert [runtime.closed for runtime in closed] == [True]


@pytest.mark.ci("toolchain")
def test_wasi_plugin_cannot_write_outside_or_use_the_network(
    write: Callable[..., None], load: Callable[..., Plugins], tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    write("echo", program=echo_plugin("wasm32-wasip2"), manifest="requires_network = true")
    assert load(write_paths=[tmp_path / "out"]).refused["echo"].code == "no-wasi-writing"
    assert load(allow_network=True).refused["echo"].code == "no-wasi-network"


@pytest.mark.ci("toolchain")
def test_links_out_of_the_plugins_folder_are_not_followed(
    write: Callable[..., None], load: Callable[..., Plugins], folder: Path, tmp_path: Path
) -> None:
    write("linked", "#!/bin/sh\n")
    (folder / "linked").rename(tmp_path / "elsewhere")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    write("echo", program=echo_plugin("wasm32-wasip2"))
    (folder / "echo.wasm").rename(tmp_path / "echo.wasm")
    (folder / "echo.wasm").symlink_to(tmp_path / "echo.wasm")
    assert sorted(load(unsafe_native_plugins=True).refused) == ["echo", "linked"]


@pytest.mark.parametrize("place", ["plugins", ".", "plugins/inside", "home/data"])
def test_plugins_cannot_get_write_access_to_their_own_permissions(folder: Path, tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ConfigurationError, match="files that control their permissions"):
        load_plugins(folder, write_paths=[tmp_path / place])


def test_unusable_folders_are_named_in_the_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a/out").mkdir(parents=True)
    (tmp_path / "b/out").mkdir(parents=True)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="plugins folder"):
        load_plugins(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match="the workspace is not a folder"):
        load_plugins(folder, workspace=tmp_path / "file")
    with pytest.raises(ConfigurationError, match="are named out"):
        load_plugins(folder, write_paths=[tmp_path / "a/out", tmp_path / "b/out"])


def test_folder_with_too_many_plugins_is_refused(folder: Path) -> None:
    for number in range(257):
        (folder / f"p{number}.toml").touch()
    with pytest.raises(SourceError, match="at most 256 plugins, got 257"):
        load_plugins(folder)
