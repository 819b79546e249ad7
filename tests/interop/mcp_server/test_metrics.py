"""`wasmrt serve --metrics`: what Prometheus reads, and nothing about the content of calls."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import pytest

from tests.interop.mcp_server.processes import wasmrt
from tests.interop.mcp_server.site import Site
from tests.interop.mcp_server.test_approvals import NAME
from tests.interop.mcp_server.world import World
from wasmrt.core.errors import ApprovalError, ConfigurationError
from wasmrt.core.telemetry import PENDING_APPROVALS, PrometheusMetrics
from wasmrt.interop.mcp.server.http import UserTokens, metrics_server


def fail() -> int:
    raise ApprovalError("cannot use the approvals database")


def test_calls_and_waiting_approvals_are_counted_without_content(tmp_path: Path) -> None:
    metrics, users = PrometheusMetrics(), UserTokens(tmp_path / "tokens.json")
    world = World(tmp_path, telemetry=metrics.telemetry(spans=False))
    metrics.add_gauge(PENDING_APPROVALS, lambda: len(world.pending()))
    with world.serve_http(users) as url:
        site = Site(world, url, users)
        with site.client:
            site.works()
            site.call("write_note", NAME)
            site.call("broken")
            site.ask("tools/call", {"name": "add", "arguments": {"a": "canary", "b": 2}})
            site.post(site.message("tools/canary"))
    text = metrics.write().decode()
    calls = re.findall(r"gen_ai_execute_tool_duration_seconds_count{(.*)} (\S+)", text)
    found = {(re.sub(r'otel_scope\w*="[^"]*",?', "", labels).strip(","), float(count)) for labels, count in calls}
    assert found == {
        ('error_type="",gen_ai_tool_name="add"', 1.0),
        ('error_type="invalid-parameters",gen_ai_tool_name="add"', 1.0),
        ('error_type="approval-denied",gen_ai_tool_name="write_note"', 1.0),
        ('error_type="execution-failed",gen_ai_tool_name="broken"', 1.0),
    }
    assert re.search(r"^wasmrt_approvals_pending\S* 1.0$", text, re.MULTILINE)
    assert "mcp_server_operation_duration_seconds_count" in text and "canary" not in text and "local" not in text
    metrics.close()


def test_a_gauge_that_cannot_be_read_is_absent() -> None:
    metrics = PrometheusMetrics()
    metrics.add_gauge(PENDING_APPROVALS, fail)
    assert b"wasmrt_approvals_pending{" not in metrics.write()
    metrics.close()


def test_the_address_serves_only_metrics_and_only_on_loopback() -> None:
    async def main() -> list[int]:
        async with (
            metrics_server(lambda: b"x 1\n", host="127.0.0.1", port=0) as server,
            httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
        ):
            got = await client.get("/metrics")
            assert (got.text, got.headers["content-type"].partition(";")[0]) == ("x 1\n", "text/plain")
            tried = [await client.post("/metrics"), await client.get("/mcp")]
            return [got.status_code, *(each.status_code for each in tried)]

    assert asyncio.run(main()) == [200, 405, 404]
    with pytest.raises(ConfigurationError):
        metrics_server(bytes, host="0.0.0.0", port=0)


@pytest.mark.ci("slow")
def test_the_options_for_http_are_refused_without_it(home: Path) -> None:
    for option in (("--metrics", "9464"), ("--drain", "5")):
        assert f"{option[0]} requires --http".encode() in wasmrt("serve", *option, code=2).stderr
