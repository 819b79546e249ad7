"""An installed program answers with what it prints, and names a misspelt param, whichever way it is called."""

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
def test_what_a_program_prints_is_its_result_and_no_log(installed: Run, way: tuple[str, ...]) -> None:
    assert json.loads(installed(*way, "program", CAT).stdout)["stdout"] == "hello"
    whole = json.loads(installed(*way, "program", CAT, "--json").stdout)
    assert whole["result"]["stdout"] == "hello"
    assert whole["logs"] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_misspelt_param_is_named_with_the_nearest_known_one(installed: Run, way: tuple[str, ...]) -> None:
    told = installed(*way, "program", '{"args": [], "stdn": "x"}', code=2).stderr
    assert "unknown field stdn (did you mean stdin?); the fields are args, stdin, check" in told


def test_the_registry_says_the_same() -> None:
    registry = ToolRegistry()
    with WasmToolRuntime(WasmRuntimeConfig()) as runtime:
        registry.register(runtime.prepare("program", program()))
        assert registry.execute("program", json.loads(CAT)).result["stdout"] == "hello"
        with pytest.raises(InvalidParametersError, match=r"did you mean stdin\?"):
            registry.execute("program", {"args": [], "stdn": "x"})
