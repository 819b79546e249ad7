"""The strict servers file, and the file of approvals."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mcp_client.world import THING
from wasmrt.capabilities import read_program_network
from wasmrt.core.errors import ConfigFileError, ConfigurationError, NotInstalledError
from wasmrt.interop.mcp.client import (
    McpServerConfig,
    OAuthConfig,
    Trust,
    Trusted,
    consent_lines,
    find_program,
    read_servers,
    read_trusted,
    server_named,
    trust_server,
    write_servers,
    write_trusted,
)


def read(tmp_path: Path, data: Any) -> dict[str, McpServerConfig]:
    path = tmp_path / "mcp-servers.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return read_servers(path)


def test_the_first_servers_file_format_is_read(tmp_path: Path) -> None:
    login = {"client_id": "x", "authorization_url": None, "scopes": ["read_content"], "use_pkce": True}
    entry = {"name": "notion", "url": "https://mcp.notion.com/mcp", "enabled": True, "description": "x", "oauth": login}
    found = read(tmp_path, {"servers": [entry], "schema_version": 1})["notion"]
    assert found.oauth == OAuthConfig(client_id="x", scopes=("read_content",))
    assert (found.trust, found.enabled, found.requires_auth) == (Trust.COMMUNITY, True, True)


def test_written_servers_are_read_back(tmp_path: Path) -> None:
    servers = [
        McpServerConfig(name="a", url="http://localhost:1/mcp", bearer="token", trust=Trust.LOCAL, timeout_seconds=5.0),
        McpServerConfig(name="b", command=("x", "--y"), env={"A": "1"}, secret_env={"B": "b"}, workspace="/tmp",
                        read=("/a",), write=("/b",), network=True, enabled=False, description="d"),
        McpServerConfig(name="d", command=("x",), hosts=read_program_network(["a.test", {"host": "b", "port": 8443}])),
        McpServerConfig(name="c", url="https://a.test/", oauth=OAuthConfig(client_id="x", extra_params={"a": "b"})),
    ]  # fmt: skip
    write_servers(tmp_path / "f.json", servers)
    assert list(read_servers(tmp_path / "f.json").values()) == servers
    assert read_servers(tmp_path / "none.json") == {}


def test_all_mistakes_in_a_servers_file_are_reported_together(tmp_path: Path) -> None:
    servers = [
        {"name": "Upper", "url": "https://a.test/"},
        {"name": "a", "url": "http://a.test/"},
        {"name": "b", "url": "https://a.test/", "command": ["x"]},
        {"name": "c", "ulr": "https://a.test/"},
        {"name": "d", "command": ["x"], "trust": "complete"},
        {"name": "e", "command": ["x"], "env": {"LD_PRELOAD": "/x.so"}},
        {"name": "f", "url": "https://a.test/", "oauth": {"use_pkce": False}},
        {"name": "g", "command": ["x"], "workspace": "here"},
        {"url": "https://a.test/"},
        "h",
    ]
    with pytest.raises(ConfigFileError) as failure:
        read(tmp_path, {"servers": servers, "schema_version": 2, "more": 1})
    places = {place for place, _ in failure.value.problems}
    assert {f"servers.{n}" for n in (0, 1, 2, 5, 8, 9)} <= places
    assert {
        "servers.3.ulr",
        "servers.4.trust",
        "servers.6.oauth",
        "servers.7.workspace",
        "schema_version",
        "more",
    } <= places


@pytest.mark.parametrize(
    "text", ["", "[]", '{"servers": {}}', '{"servers": [], "servers": []}', "{", '{"servers": NaN}']
)
def test_a_malformed_servers_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigFileError):
        read(tmp_path, text)


def test_confusable_server_names_are_refused(tmp_path: Path) -> None:
    two = [{"name": "a-b", "url": "https://a.test/"}, {"name": "a_b", "url": "https://b.test/"}]
    with pytest.raises(ConfigFileError, match="is a duplicate"):
        read(tmp_path, {"servers": two})


def test_an_unknown_server_name_suggests_the_nearest_one() -> None:
    known = {"notion": McpServerConfig(name="notion", url="https://a.test/")}
    with pytest.raises(NotInstalledError) as failure:
        server_named(known, "notoin")
    assert failure.value.hint == "did you mean notion?"


@pytest.mark.parametrize("change", [
    {"command": ("x", "z")}, {"env": {"A": "2"}}, {"secret_env": {"S": "t"}}, {"read": ("/b",)}, {"write": ("/a",)},
    {"network": True}, {"hosts": read_program_network(["a.test"])}, {"workspace": "/w"},
])  # fmt: skip
def test_a_changed_command_variable_or_grant_needs_new_consent(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "a", "command": ("x", "y"), "env": {"A": "1"}, "secret_env": {"S": "s"}}
    before = McpServerConfig(**given)
    agreed = trust_server(before, [])
    assert agreed.covers(McpServerConfig(**given, description="another note", trust=Trust.LOCAL))
    assert not agreed.covers(McpServerConfig(**given | change))


def test_approvals_are_not_read_from_a_file_others_can_write(tmp_path: Path) -> None:
    path = tmp_path / "mcp-trust.json"
    entry = trust_server(
        McpServerConfig(name="a", url="https://a.test/"), [THING], Trusted(auth_hosts=("https://auth.test",))
    )
    write_trusted(path, {"a": entry})
    assert read_trusted(path) == {"a": entry}
    path.chmod(0o666)
    with pytest.raises(ConfigFileError, match="other users"):
        read_trusted(path)
    path.chmod(0o600)
    path.write_text('{"schema_version": 1, "servers": {"a": 7}}')
    with pytest.raises(ConfigFileError, match="not written by wasmrt"):
        read_trusted(path)


def test_consent_shows_the_whole_command_and_all_grants(tmp_path: Path) -> None:
    long = "x" * 5000
    server = McpServerConfig(name="a", command=(sys.executable, "-c", long), write=(str(tmp_path / "w"),), network=True)
    (tmp_path / "w").mkdir()
    lines = "\n".join(consent_lines(server, find_program(server)))
    assert long in lines
    assert f"it writes {tmp_path / 'w'}" in lines
    assert "it uses the network" in lines


def test_hosts_are_shown_with_invisible_characters_escaped() -> None:
    server = McpServerConfig(name="a", command=(sys.executable,), hosts=read_program_network(["a.test"]))
    *_, first, last, _ = consent_lines(server, find_program(server))
    assert first == "it reaches a.test (https on port 443, every path and method: TLS hides them)"
    assert last == "through a proxy, and nothing else of the network"


def test_network_and_hosts_are_mutually_exclusive() -> None:
    hosts = read_program_network(["a.test"])
    with pytest.raises(ConfigurationError, match="cannot both be set"):
        McpServerConfig(name="a", command=("x",), network=True, hosts=hosts)
    with pytest.raises(ConfigurationError, match="hosts is only for servers with a command"):
        McpServerConfig(name="a", url="https://a.test/", hosts=hosts)


def test_a_missing_program_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="was not found"):
        find_program(McpServerConfig(name="a", command=("no-such-program-here",)))


@pytest.mark.parametrize("part", ["workspace", "read", "write"])
def test_a_server_cannot_be_granted_wasmrts_own_folder(own_home: Path, part: str) -> None:
    (own_home / "data").mkdir(parents=True)
    for folder in (own_home / "data", own_home, Path("/")):
        given: Any = str(folder) if part == "workspace" else (str(folder),)
        with pytest.raises(ConfigurationError, match="a server may not access"):
            find_program(McpServerConfig(name="a", command=(sys.executable,), **{part: given}))
