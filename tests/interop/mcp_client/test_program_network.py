"""A server program reaches only approved hosts, and its connections are recorded in receipts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.interop.mcp_client.world import HOSTILE, hostile_server, processes_of
from tests.interop.mcp_client.world import World as McpWorld
from tests.sandbox.isolation.conftest import STANDING, needs_landlock, needs_seccomp
from tests.sandbox.isolation.outlet_world import GRANTED, World, made
from wasmrt.capabilities import read_program_network
from wasmrt.cli import cli
from wasmrt.core.effects import Effect
from wasmrt.interop.mcp.client._definition import possible_effects
from wasmrt.sandbox.isolation.confine import OUTLET_LAYER

pytestmark = [
    needs_seccomp,
    needs_landlock,
    pytest.mark.skipif(OUTLET_LAYER not in STANDING, reason="this machine gives no network of its own"),
]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(tmp_path / "home"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made(tmp_path) as world:
        yield world


def test_connections_to_granted_hosts_are_in_the_receipt(world: World) -> None:
    urls = (
        f"https://{GRANTED}:{world.scene['tls']}/a",
        "https://evil.example/",
        f"http://127.0.0.1:{world.scene['plain']}/",
    )
    server = hostile_server(
        "fetch", *urls, hosts=read_program_network(world.entries()), read=(str(world.ca),),
        env={"SSL_CERT_FILE": str(world.ca)},
    )  # fmt: skip
    assert {Effect.NETWORK, Effect.EXTERNAL_WRITE} <= possible_effects(server)
    with McpWorld(server, network=world.network) as mcp:
        first, second = (json.loads(mcp.call()) for _ in range(2))
    assert first == second == ["served /a", "URLError", "HTTPError"]
    for receipt in mcp.receipts:
        subjects = {
            each.subject: each.allowed for each in receipt.decisions if each.subject.startswith(("CONNECT", "GET"))
        }
        assert subjects == {
            f"CONNECT https://{GRANTED}:{world.scene['tls']}": True,
            "CONNECT https://evil.example": False,
            f"GET http://127.0.0.1:{world.scene['plain']}/": False,
        }
    assert processes_of(server) == []


def test_mcp_add_shows_granted_hosts_before_consent() -> None:
    runner = CliRunner()
    hosts = ["--host", "a.example", "--host", "b.example:8443"]
    add = ["mcp", "add", "a", *hosts, "--no-connect", "--json"]
    program = ["--", "python3", str(HOSTILE)]
    refused = runner.invoke(cli, [*add, *program])
    shown = refused.output + refused.stderr
    assert refused.exit_code != 0
    assert "it reaches a.example (https on port 443" in shown and "it reaches b.example (https on port 8443" in shown
    done = runner.invoke(cli, [*add, "--yes", *program])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["network"] == [{"host": "a.example"}, {"host": "b.example", "port": 8443}]
    wrong = runner.invoke(cli, ["mcp", "add", "b", "--host", "https://a.example/", *program])
    assert wrong.exit_code != 0 and "network[0].host" in wrong.output
