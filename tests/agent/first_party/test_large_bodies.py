"""Large responses: a tool receives up to 10 MiB at once; more is a clear error, and no worker is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wasmrt.testing._server import http_response

from tests.agent.first_party.web import Web
from wasmrt import Capabilities, ResourceLimits, ToolError, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog import bundled
from wasmrt.core.limits import MIB

URL = "https://example.com/a"
LIMITS = ResourceLimits(fuel=20_000_000_000, timeout_seconds=120, output_bytes=32 * MIB)
GRANT = {"http": {"allowlist": [{"host": "example.com", "path_prefix": "/"}]}}
WIDER = {"http": GRANT["http"] | {"max_response_bytes": 20 * MIB}}
COMPONENT = Path(bundled.__file__).parent / "shipped" / "web.wasm"


@pytest.mark.ci("slow")
@pytest.mark.usefixtures("home")
def test_largest_body_reaches_the_tool_and_a_larger_one_is_an_error(whole_web: Web) -> None:
    with WasmToolRuntime(WasmRuntimeConfig(network=whole_web.network())) as runtime:
        fetch = runtime.prepare("web", COMPONENT, Capabilities.parse(json.dumps(GRANT)), LIMITS).tool("http")
        for size in (6_000_000, 10 * MIB):
            whole_web.pages[URL] = http_response(b"x" * size, headers=(("Content-Type", "text/plain"),))
            assert len(fetch.execute({"url": URL, "method": "GET"}).result["body"]) == size
        fetch = runtime.prepare("wider", COMPONENT, Capabilities.parse(json.dumps(WIDER)), LIMITS).tool("http")
        whole_web.pages[URL] = http_response(b"x" * (10 * MIB + 1), headers=(("Content-Type", "text/plain"),))
        with pytest.raises(ToolError, match="more than 10,485,760 bytes"):
            fetch.execute({"url": URL, "method": "GET"})
    whole_web.clear()
