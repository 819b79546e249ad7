from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

import wasmrt
from wasmrt import WasmToolRuntime
from wasmrt.authoring import measure
from wasmrt.cli import cli
from wasmrt.errors import InstantiationError, MemoryLimitError
from wasmrt.limits import KIB, ResourceLimits

ECHO = Path(wasmrt.__file__).parent / "_tools" / "echo.wasm"


def test_the_measured_limits_start_it_and_anything_less_does_not() -> None:
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


def test_a_heavier_guest_measures_heavier(guest: Callable[[str], bytes]) -> None:
    with WasmToolRuntime() as runtime:
        small, large = measure(runtime, "small", ECHO.read_bytes()), measure(runtime, "large", guest("quickjs"))
    assert large.memory_bytes > small.memory_bytes
    assert large.instances > small.instances
    assert large.table_elements > small.table_elements
    assert large.fuel > small.fuel > 0


def test_inspect_tells_limits_beside_what_starting_takes() -> None:
    result = CliRunner().invoke(cli, ["inspect", "echo", "--measure", "--json"], prog_name="wasmrt")
    assert result.exit_code == 0, result.stderr
    limits = json.loads(result.stdout)["limits"]
    assert limits.keys() == {"memory_bytes", "instances", "table_elements", "fuel"}
    for row in limits.values():
        assert 0 < row["to_start"] < row["limit"]
    words = CliRunner().invoke(cli, ["inspect", "echo", "--measure"], prog_name="wasmrt").stdout
    assert "of which" in words
    assert "limits" not in CliRunner().invoke(cli, ["inspect", "echo"], prog_name="wasmrt").stdout
