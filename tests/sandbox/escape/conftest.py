"""One runtime for all attacks: later attacks meet whatever earlier ones leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wasmrt.testing import attacks
from wasmrt.testing.attacks import Body

from tests.shared_zygote import separate_zygotes
from wasmrt import PreparedTool, ResourceLimits, ToolError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.sandbox.guest.engine import wat2wasm

Make = Callable[..., PreparedTool]


@pytest.fixture(scope="package", autouse=True)
def _separate() -> Iterator[None]:
    with separate_zygotes():
        yield


@pytest.fixture(scope="package")
def runtime() -> Iterator[WasmToolRuntime]:
    with WasmToolRuntime(WasmRuntimeConfig(cache_compiled=False)) as runtime:
        yield runtime


@pytest.fixture(scope="package")
def honest(runtime: WasmToolRuntime) -> PreparedTool:
    return runtime.prepare("honest", wat2wasm(attacks.tool(Body())))


@pytest.fixture
def make(runtime: WasmToolRuntime) -> Make:
    """A tool with the given body, and the limits of an attack unless others are given."""

    def made(body: Body, limits: ResourceLimits = attacks.ONLY_THE_CLOCK, **options: Any) -> PreparedTool:
        return runtime.prepare("guest", wat2wasm(attacks.tool(body)), limits=limits, **options)

    return made


def ended(tool: PreparedTool, params: Any = None, **options: Any) -> ToolError:
    """The typed error that a call ends with."""
    with pytest.raises(ToolError) as caught:
        tool.execute({} if params is None else params, **options)
    return caught.value
