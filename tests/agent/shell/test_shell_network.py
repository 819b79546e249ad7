"""Network access of the shell: only granted hosts are reachable, and refusals are explained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.isolation.conftest import STANDING, needs_landlock, needs_seccomp
from tests.sandbox.isolation.outlet_world import GRANTED, World, made
from wasmrt import CallbackApprover, ToolRegistry
from wasmrt.agent.builtin.shell import Backend, ShellSettings, ShellTool, _backend
from wasmrt.agent.config import read_config_file
from wasmrt.capabilities import read_program_network
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigFileError, DeadlineExceededError
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.isolation.confine import OUTLET_LAYER, Layer

pytestmark = [
    needs_seccomp,
    needs_landlock,
    pytest.mark.skipif(OUTLET_LAYER not in STANDING, reason="this machine gives no network of its own"),
]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made(tmp_path) as world:
        yield world


def shell_of(world: World, folder: Path, **more: Any) -> ShellTool:
    network = read_program_network(world.entries())
    settings = ShellSettings(network=network, read=(str(world.ca),), **more)
    return ShellTool(folder, settings, network=world.network)


def test_command_reaches_only_granted_hosts_and_refusals_are_reported(world: World, home: Path, folder: Path) -> None:
    shell = shell_of(world, folder)
    url = f"https://{GRANTED}:{world.scene['tls']}/a"
    output = shell.execute({"command": f"curl -s --cacert {world.ca} {url}; curl -s https://evil.example/ || true"})
    assert output.result["stdout"] == "served /a"
    assert output.result["stderr"] == (
        "wasmrt: CONNECT https://evil.example: no entry of network covers this host;"
        ' an operator can grant it in network: {"host": "evil.example"}\n'
    )
    assert [each.allowed for each in output.decisions] == [False, True]
    shell.close()


def test_receipt_has_network_decisions_even_after_a_timeout(world: World, home: Path, folder: Path) -> None:
    shell, receipts = shell_of(world, folder), []
    registry = ToolRegistry(approver=CallbackApprover(lambda _: True), receipts=receipts.append)
    registry.register(shell, builtin=True)
    registry.execute("shell", {"command": "curl -s https://evil.example/ || true"})
    with pytest.raises(DeadlineExceededError) as caught:
        registry.execute("shell", {"command": "curl -s https://evil.example/; sleep 99", "timeout": 2})
    for found in (receipts[0].as_dict(), receipts[1].as_dict()):
        assert "CONNECT https://evil.example" in json.dumps(found)
    assert any("evil.example" in each.subject for each in caught.value.decisions)


def test_proxy_credential_is_not_stored_in_the_session(world: World, home: Path, folder: Path) -> None:
    shell = shell_of(world, folder, session=True)
    context = ToolContext(trace_id="one")
    url = f"https://{GRANTED}:{world.scene['tls']}/a"
    show = "A=${HTTPS_PROXY#*wasmrt:}; echo ${A%@*} | rev"  # the unchanged token is redacted
    first = shell.execute({"command": f"cd /usr; {show}"}, context).result["stdout"]
    done = shell.execute({"command": f"curl -s --cacert {world.ca} {url}; echo; {show}"}, context)
    served, second = done.result["stdout"].splitlines()
    assert served == "served /a" and len(second) == 32 and second != first.strip()


def test_effects_and_description_include_the_network(world: World, home: Path, folder: Path) -> None:
    shell, plain = shell_of(world, folder), ShellTool(folder)
    assert {Effect.NETWORK, Effect.EXTERNAL_WRITE} <= shell.traits.effects
    assert Effect.NETWORK not in plain.traits.effects
    assert GRANTED in shell.description and "no network" in plain.description


def test_shell_is_disabled_if_the_network_cannot_be_confined(
    world: World, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("seccomp", "landlock", "no-new-privileges", "limits")
    monkeypatch.setattr(_backend, "layers", lambda: tuple(Layer(name, True, "") for name in names))
    _backend._list_missing_layers.cache_clear()
    try:
        shell = shell_of(world, folder)
        assert shell.backend is Backend.DISABLED and OUTLET_LAYER in shell.disabled_because
        assert ShellTool(folder).backend is Backend.CONFINED
    finally:
        _backend._list_missing_layers.cache_clear()


def test_configuration_grants_hosts_and_reports_all_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[shell]\nsession = true\nnetwork = ["b.example", {host = "a.example", port = 8443}]\n')
    settings = read_config_file(path).shell
    assert settings.session and [entry.host_pattern for entry in settings.network] == ["b.example", "a.example"]
    path.write_text('[shell]\nnetwork = [{host = "a.example", path_prefix = "/x/"}]\n')
    with pytest.raises(ConfigFileError, match="TLS hides paths"):
        read_config_file(path)
