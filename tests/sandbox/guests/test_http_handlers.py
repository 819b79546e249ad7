"""`wasi:http/incoming-handler` and `wasi:config/store` from a real guest: one request in, one response out."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from wasmrt import Capabilities, PreparedTool, ResourceLimits, WasmRuntimeConfig, WasmToolRuntime
from wasmrt.catalog.validator import WasmValidator
from wasmrt.core.errors import GuestError, InvalidParametersError, OutputLimitError

Prepare = Callable[..., PreparedTool]


@pytest.fixture(params=["in-process", "process"])
def handler(
    request: pytest.FixtureRequest, guest: Callable[[str], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Prepare]:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))
    with WasmToolRuntime(WasmRuntimeConfig(isolation=request.param)) as runtime:
        limits = ResourceLimits(output_bytes=1_000_000, fuel=5_000_000_000)
        yield lambda grant=None: runtime.prepare("site", guest("rust-handler"), grant, limits=limits)


def ask(tool: PreparedTool, path: str = "/", **more: Any) -> Any:
    return tool.execute({"path": path, **more}).result


def test_a_handler_gets_the_request_and_returns_the_response(handler: Prepare) -> None:
    site = handler()
    assert [tool.name for tool in site.tools] == ["site"]
    answer = ask(site, "/a?b=%20c", method="POST", headers={"X-Key": "ä"}, body="content")
    assert (answer["status"], answer["headers"]) == (201, {"content-type": "application/json", "x-part": "a, b"})
    for part in ('"method":"Method::Post"', '"path":"/a?b=%20c"', '["X-Key","ä"]', '"body":"content"', '"localhost"'):
        assert part in answer["body"]
    assert '"body_bytes":300000' in ask(site, body="x" * 300_000)["body"]
    assert '"method":"Method::Get"' in ask(site)["body"]


def test_responses_without_text_are_returned(handler: Prepare) -> None:
    site = handler()
    assert ask(site, "/empty") == {"status": 204, "headers": {}, "body": ""}
    assert ask(site, "/bytes")["body_base64"] == base64.b64encode(b"\xff\0").decode()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nothing", "set no response"),
        ("/error", "loop-detected"),
        ("/unfinished", "did not finish the body"),
        ("/wrong-length", "did not finish the body"),
    ],
)
def test_missing_and_incomplete_responses_are_failures(handler: Prepare, path: str, message: str) -> None:
    with pytest.raises(GuestError, match=message):
        ask(handler(), path)


def test_a_response_over_the_output_limit_ends_the_call(handler: Prepare) -> None:
    with pytest.raises(OutputLimitError):
        ask(handler(), "/flood")


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"path": "x"},
        {"path": "/a b"},
        {"path": "/\n"},
        {"path": "/", "method": "BREW"},
        {"path": "/", "headers": {"a b": "c"}},
        {"path": "/", "headers": {"a": "b\r\nc: d"}},
        {"path": "/", "headers": {"host": "evil.example"}},
        {"path": "/", "headers": {f"h{number}": "x" for number in range(200)}},
        {"path": "/", "headers": {"a": 1}},
        {"path": "/" + "a" * 10_000},
    ],
)
def test_invalid_requests_are_refused(handler: Prepare, params: dict[str, Any]) -> None:
    with pytest.raises(InvalidParametersError):
        handler().execute(params)


def test_a_handler_reads_the_configuration_of_its_grant(handler: Prepare) -> None:
    grant = Capabilities.none().with_config_store(["units=metric", "place=Oslo"])
    assert ask(handler(grant), "/config")["body"] == '{"all":[["place","Oslo"],["units","metric"]],"units":"metric"}'
    assert ask(handler(), "/config")["body"] == '{"all":[],"units":null}'


def test_a_handler_can_be_installed(guest: Callable[[str], bytes]) -> None:
    found = WasmValidator().validate(guest("rust-handler"))
    assert found.problems == () and str(found.world).startswith("wasi:http/incoming-handler@0.2.")
