"""A component of TinyGo for WASI 0.2 with the world of Wassette's example in Go: plain functions that send requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from wasmrt.testing import http_response

from tests.agent.first_party.web import ADDRESSES, Web, serve_web
from wasmrt import Capabilities, PreparedTool, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.capabilities import EndpointPattern, HttpCapability
from wasmrt.core.errors import GuestError
from wasmrt.core.model import Reason

HOST = "proxy.golang.org"
GRANT = Capabilities.none().with_http(HttpCapability(allowlist=(EndpointPattern(HOST),)))
RECORD = {"Version": "v1.10.1", "Time": "2025-05-13T20:29:16Z"}

Prepare = Callable[[Capabilities], PreparedTool]


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    with serve_web(tmp_path_factory.mktemp("web")) as served:
        yield served


@pytest.fixture
def prepare(web: Web, guest: Callable[[str], bytes]) -> Iterator[Prepare]:
    web.clear()
    long = RECORD | {"Origin": "x" * 200_000}
    web.pages[f"https://{HOST}/github.com/gin-gonic/gin/@latest"] = http_response(json.dumps(RECORD).encode())
    web.pages[f"https://{HOST}/golang.org/x/net/@latest"] = http_response(json.dumps(long).encode())
    with WasmToolRuntime(WasmRuntimeConfig(network=web.network(ADDRESSES))) as runtime:
        yield lambda grant: runtime.prepare("go-modules", guest("tinygo-wasip2"), grant)


def test_both_functions_of_a_component_in_tinygo_send_requests(prepare: Prepare, web: Web) -> None:
    tool = prepare(GRANT)
    assert [each.name for each in tool.tools] == ["modules-latest-versions", "modules-module-info"]
    names = {"names": "github.com/gin-gonic/gin, golang.org/x/net"}
    output = tool.tool("modules-latest-versions").execute(names)
    assert json.loads(output.result) == {"github.com/gin-gonic/gin": "v1.10.1", "golang.org/x/net": "v1.10.1"}
    assert output.usage.http_requests == 2
    info = json.loads(tool.tool("modules-module-info").execute(names).result)
    assert info["github.com/gin-gonic/gin"] == RECORD
    assert len(info["golang.org/x/net"]["Origin"]) == 200_000
    assert [request.target for request in web.asked[:2]] == [
        "/github.com/gin-gonic/gin/@latest", "/golang.org/x/net/@latest",
    ]  # fmt: skip


def test_a_component_in_tinygo_gets_the_status_of_the_response(prepare: Prepare) -> None:
    with pytest.raises(GuestError, match=r"example\.com/none: status 404"):
        prepare(GRANT).tool("modules-module-info").execute({"names": "example.com/none"})


def test_a_component_in_tinygo_sends_nothing_without_a_grant(prepare: Prepare, web: Web) -> None:
    with pytest.raises(GuestError, match="request not sent") as caught:
        prepare(Capabilities.none()).tool("modules-latest-versions").execute({"names": "golang.org/x/net"})
    assert [decision.reason for decision in caught.value.decisions] == [Reason.NOT_GRANTED]
    assert web.asked == []
