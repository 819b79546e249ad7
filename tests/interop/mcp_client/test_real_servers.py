"""Servers by other authors: with the official SDK, and from PyPI and npm if those packages are installed."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from tests.interop.mcp_client import sdk_server
from tests.interop.mcp_client.world import World, processes_of
from tests.interop.mcp_peers.fixtures import NodePeers
from wasmrt.core.errors import DeadlineExceededError, ToolError
from wasmrt.interop.mcp.client import (
    McpClient,
    McpServerConfig,
    Transport,
    Trust,
    offer_tools,
    refused_tools,
    trust_server,
)

SDK = Path(sdk_server.__file__).resolve()


def sdk(**settings: Any) -> McpServerConfig:
    command = (sys.executable, str(SDK), f"marker-{os.urandom(8).hex()}")
    root = str(SDK.parents[3])
    given = {"name": "sdk", "command": command, "env": {"PYTHONPATH": root}, "trust": Trust.LOCAL, "read": (root,)}
    return McpServerConfig(**given | settings)  # type: ignore[arg-type]


def looked_at(server: McpServerConfig) -> World:
    """A registry with the server's current tools, over the same connection."""
    world = World(server, [])
    world.client.trusted = trust_server(server, world.client.look().tools)
    assert refused_tools(server, world.client.trusted.tools.values()) == {}
    offer_tools(world.registry, world.client)
    return world


@pytest.fixture(params=["streamable-http", "sse"])
def site(request: pytest.FixtureRequest) -> Iterator[McpServerConfig]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = uvicorn.Config(sdk_server.app(request.param), port=port, log_config=None, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    ends = time.monotonic() + 20
    while not server.started and time.monotonic() < ends:
        time.sleep(0.02)
    path = "sse" if request.param == "sse" else "mcp"
    yield McpServerConfig(name="sdk", url=f"http://127.0.0.1:{port}/{path}", trust=Trust.LOCAL)
    server.should_exit = True
    server.force_exit = True
    thread.join(20)


@pytest.mark.ci("slow")
def test_a_server_of_the_sdk_is_called_confined(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (work / "a.txt").write_text("hello")
    (other / "b.txt").write_text("secret")
    server = sdk(workspace=str(work), timeout_seconds=20.0)
    with looked_at(server) as world:
        assert world.call("get_sum", a=1, b=2) == {"result": 3}
        assert world.call("list_words", text="a b") == {"result": ["a", "b"]}
        assert world.call("get_progress") == {"result": "done"}
        assert world.call("read_here", path="a.txt") == {"result": "hello"}
        with pytest.raises(ToolError, match="no such thing"):
            world.call("get_failure")
        with pytest.raises(ToolError, match="ermission denied"):
            world.call("read_here", path=str(other / "b.txt"))
        with pytest.raises(ToolError, match="ermission denied"):
            world.call("write_here", path=str(work / "c.txt"), text="x")
        with pytest.raises(ToolError, match="a: expected an integer"):
            world.call("get_sum", a="x", b=2)
    assert processes_of(server) == []


@pytest.mark.ci("slow")
def test_a_server_writes_to_its_granted_folder(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with looked_at(sdk(workspace=str(work), write=(str(work),))) as world:
        assert world.call("write_here", path="c.txt", text="x") == {"result": str(work)}
    assert (work / "c.txt").read_text() == "x"


@pytest.mark.ci("slow")
def test_a_server_survives_a_call_that_times_out() -> None:
    server = sdk(timeout_seconds=2.0)
    with looked_at(server) as world:
        with pytest.raises(DeadlineExceededError):
            world.call("get_slow")
        assert world.call("get_sum", a=2, b=2) == {"result": 4}


def test_an_http_server_is_called_in_its_own_protocol_version(site: McpServerConfig) -> None:
    with looked_at(site) as world:
        assert world.call("get_sum", a=1, b=2) == {"result": 3}
        assert world.call("get_progress") == {"result": "done"}
        with pytest.raises(ToolError, match="no such thing"):
            world.call("get_failure")


def test_only_sse_is_used_if_it_is_configured(site: McpServerConfig) -> None:
    server = McpServerConfig(name="sdk", url=site.url, transport=Transport.SSE, trust=Trust.LOCAL, timeout_seconds=5.0)
    if not site.url.endswith("/sse"):
        with McpClient(server, trust_server(server, [])) as client, pytest.raises(Exception, match="sdk"):
            client.look()
        return
    with looked_at(server) as world:
        assert world.call("get_sum", a=1, b=2) == {"result": 3}


# Name, the fixture of the package registry, the program with its arguments, a call, and a part of its result.
REGISTRY: list[tuple[str, str, tuple[str, ...], str, dict[str, Any], str]] = [
    ("time", "python_peers", ("mcp-server-time",), "get_current_time", {"timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
    ("git", "python_peers", ("mcp-server-git",), "git_status", {"repo_path": "{work}"}, "branch"),
    ("fetch", "python_peers", ("mcp-server-fetch",), "fetch", {"url": "http://127.0.0.1:9/"}, "fetch"),
    ("everything", "node_peers", ("mcp-server-everything",), "echo", {"message": "hi"}, "Echo: hi"),
    ("files", "node_peers", ("mcp-server-filesystem", "{work}"), "list_directory", {"path": "{work}"}, "a.txt"),
    ("memory", "node_peers", ("mcp-server-memory",), "read_graph", {}, "entities"),
    ("thinking", "node_peers", ("mcp-server-sequential-thinking",), "sequentialthinking",
     {"thought": "x", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtNumber"),
]  # fmt: skip


@pytest.mark.ci("peers")
@pytest.mark.parametrize(
    ("name", "registry", "command", "tool", "params", "part"), REGISTRY, ids=[row[0] for row in REGISTRY]
)
def test_a_server_from_a_package_registry_runs_confined(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, registry: str, command: tuple[str, ...], tool: str,
    params: dict[str, Any], part: str,
) -> None:  # fmt: skip
    found = request.getfixturevalue(registry)
    program = found.command(f".bin/{command[0]}") if isinstance(found, NodePeers) else [str(found / command[0])]
    work = tmp_path / "work"
    (work / ".git" / "objects").mkdir(parents=True)
    (work / ".git" / "refs" / "heads").mkdir(parents=True)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (work / "a.txt").write_text("x")

    def here(text: Any) -> Any:
        return text.replace("{work}", str(work)) if isinstance(text, str) else text

    server = McpServerConfig(
        name=name, command=(*program, *map(here, command[1:])), workspace=str(work), trust=Trust.LOCAL,
        env={"GIT_CONFIG_NOSYSTEM": "1"},
    )  # fmt: skip
    with looked_at(server) as world:
        try:
            answer = str(world.call(tool, **{key: here(value) for key, value in params.items()}))
        except ToolError as error:
            answer = error.message
        assert part in answer
