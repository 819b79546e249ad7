from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import wasmrt
from wasmrt import WasmToolRuntime
from wasmrt.authoring.project import measure
from wasmrt.cli import cli
from wasmrt.core.errors import InstantiationError, MemoryLimitError
from wasmrt.core.limits import KIB, ResourceLimits
from wasmrt.sandbox.guest.engine import wat2wasm

ECHO = Path(wasmrt.__file__).parent / "catalog/shipped" / "echo.wasm"


def test_measured_limits_are_minimal() -> None:
    data = ECHO.read_bytes()
    with WasmToolRuntime() as runtime:
        least = measure(runtime, "echo", data)
        limits = replace(
            ResourceLimits(),
            memory_bytes=least.memory_bytes,
            instances=least.instances,
            table_elements=least.table_elements,
        )
        assert says_what_it_does(runtime, data, limits)
        for smaller in (
            replace(limits, memory_bytes=least.memory_bytes - 64 * KIB),
            replace(limits, table_elements=least.table_elements - 1),
        ):
            assert not says_what_it_does(runtime, data, smaller)


def says_what_it_does(runtime: WasmToolRuntime, data: bytes, limits: ResourceLimits) -> bool:
    try:
        return not runtime.prepare("echo", data, limits=limits).problems
    except (InstantiationError, MemoryLimitError):
        return False


def test_heavier_guest_needs_larger_limits(guest: Callable[[str], bytes]) -> None:
    with WasmToolRuntime() as runtime:
        small, large = measure(runtime, "small", ECHO.read_bytes()), measure(runtime, "large", guest("quickjs"))
    assert large.memory_bytes > small.memory_bytes
    assert large.instances > small.instances
    assert large.table_elements > small.table_elements
    assert large.fuel > small.fuel > 0


def test_inspect_shows_limits_and_measured_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path))
    result = CliRunner().invoke(cli, ["inspect", "echo", "--measure", "--json"], prog_name="wasmrt")
    assert result.exit_code == 0, result.stderr
    limits = json.loads(result.stdout)["limits"]
    assert limits.keys() == {"memory_bytes", "instances", "table_elements", "fuel"}
    for row in limits.values():
        assert 0 < row["to_start"] < row["limit"]
    words = CliRunner().invoke(cli, ["inspect", "echo", "--measure"], prog_name="wasmrt").stdout
    assert "of which" in words
    assert "limits" not in CliRunner().invoke(cli, ["inspect", "echo"], prog_name="wasmrt").stdout


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("core", "name", "at_least"),
    [("(memory 2000)", "memory_bytes", 2000 * 64 * KIB), ("(table 50000 funcref)", "table_elements", 50_000)],
)
def test_component_that_needs_wider_limits_is_measured(core: str, name: str, at_least: int, tmp_path: Path) -> None:
    text = f"""(component (core module $m {core} (func (export "f")))
      (core instance $i (instantiate $m)) (func (export "f") (canon lift (core func $i "f"))))"""
    (tmp_path / "large.wasm").write_bytes(wat2wasm(text))
    command = ["inspect", str(tmp_path / "large.wasm")]

    assert CliRunner().invoke(cli, command, prog_name="wasmrt").exit_code != 0
    measured = CliRunner().invoke(cli, [*command, "--measure", "--json"], prog_name="wasmrt")
    assert measured.exit_code == 0, measured.stderr
    row = json.loads(measured.stdout)["limits"][name]
    assert row["to_start"] == at_least > row["limit"]
    words = CliRunner().invoke(cli, [*command, "--measure"], prog_name="wasmrt").stdout
    assert f"{name}: " in words
    assert "too low: it needs" in words


def test_measuring_a_failing_component_is_an_error(tmp_path: Path) -> None:
    text = """(component (core module $m (func $s unreachable) (start $s) (func (export "f")))
      (core instance $i (instantiate $m)) (func (export "f") (canon lift (core func $i "f"))))"""
    (tmp_path / "broken.wasm").write_bytes(wat2wasm(text))
    result = CliRunner().invoke(cli, ["inspect", str(tmp_path / "broken.wasm"), "--measure"], prog_name="wasmrt")
    assert result.exit_code == 2
    assert "cannot be started" in result.stderr
