"""Tests of installed WASI programs, called directly and through the registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.sandbox.programs.build import program
from wasmrt import WasmToolRuntime
from wasmrt.agent.registry import ToolRegistry
from wasmrt.core.errors import InvalidParametersError
from wasmrt.runtime.config import WasmRuntimeConfig

pytestmark = pytest.mark.ci("toolchain")

Run = Callable[..., Result]
CAT = '{"args": ["cat"], "stdin": "hello"}'
WAYS = [("run",), ("tools", "run")]


@pytest.fixture
def installed(wasmrt: Run, home: Path) -> Run:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text("[tools.filter]\nallow_external = true\n")
    wasmrt("install", program(), "--name", "program", "--yes")
    return wasmrt


@pytest.mark.parametrize("way", WAYS)
def test_program_output_is_its_result_not_a_log(installed: Run, way: tuple[str, ...]) -> None:
    assert json.loads(installed(*way, "program", CAT).stdout)["stdout"] == "hello"
    whole = json.loads(installed(*way, "program", CAT, "--json").stdout)
    assert whole["result"]["stdout"] == "hello"
    assert whole["logs"] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_misspelt_param_is_named_with_the_nearest_known_one(installed: Run, way: tuple[str, ...]) -> None:
    told = installed(*way, "program", '{"args": [], "stdn": "x"}', code=2).stderr
    assert "unknown field stdn (did you mean stdin?); the fields are args, stdin, check" in told


def test_registry_call_has_the_same_result() -> None:
    registry = ToolRegistry()
    with WasmToolRuntime(WasmRuntimeConfig()) as runtime:
        registry.register(runtime.prepare("program", program()))
        assert registry.execute("program", json.loads(CAT)).result["stdout"] == "hello"
        with pytest.raises(InvalidParametersError, match=r"did you mean stdin\?"):
            registry.execute("program", {"args": [], "stdn": "x"})
