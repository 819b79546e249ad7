"""Values that the followed specifications state, and that no other test compares: see docs/mission.md."""

from __future__ import annotations

from typing import Any

import pytest

from wasmrt import (
    HttpCapability,
    RateLimitConfig,
    ResourceLimits,
    WasmRuntimeConfig,
    tool,
)
from wasmrt.agent.policy import ToolPolicy
from wasmrt.core.limits import KIB, MAX_HTTP_REQUESTS, MCP_IDLE_SECONDS, MIB
from wasmrt.runtime.config_values import ShellSettings
from wasmrt.sandbox.guest.engine._ticker import TICK_SECONDS
from wasmrt.sandbox.guest.settings import OptLevel


@tool(effects=[])
def quiet() -> str:
    """Do nothing."""
    return ""


_TESTING = WasmRuntimeConfig.for_testing()
_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "timeout of a tool": (quiet.timeout_seconds, 60.0),
    "sanitization of a tool": (quiet.requires_sanitization, True),
    "requests a minute": (RateLimitConfig().requests_per_minute, 60),
    "requests an hour": (RateLimitConfig().requests_per_hour, 1000),
    "timeout of a request": (HttpCapability().timeout_seconds, 30.0),
    "idle time of an MCP session": (MCP_IDLE_SECONDS, 30 * 60),
    "requests of a call": (MAX_HTTP_REQUESTS, 50),
    "bytes of an answer": (ToolPolicy().max_output_bytes, 16 * KIB),
    "time of a command": (ShellSettings().timeout_seconds, 120),
    "memory of a command": (ShellSettings().memory_mib, 2048),
    "memory of a call": (ResourceLimits().memory_bytes, 64 * MIB),
    "seconds between two ticks": (TICK_SECONDS, 0.01),
    "caching and optimization": (
        (WasmRuntimeConfig().cache_compiled, WasmRuntimeConfig().optimization_level), (True, OptLevel.SPEED)
    ),
    "memory, fuel and time of tests": (
        (_TESTING.default_limits.memory_bytes, _TESTING.default_limits.fuel, _TESTING.default_limits.timeout_seconds),
        (1 * MIB, 100_000, 5.0),
    ),
    "caching and optimization of tests": (
        (_TESTING.cache_compiled, _TESTING.optimization_level), (False, OptLevel.NONE)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(_DEFAULTS))
def test_a_default_is_as_stated(name: str) -> None:
    value, stated = _DEFAULTS[name]
    assert value == stated
