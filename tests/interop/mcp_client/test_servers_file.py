"""The file of servers, read strictly, and the file of what was agreed to."""

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


def test_a_file_of_the_first_kind_of_client_is_read_as_it_is(tmp_path: Path) -> None:
    login = {"client_id": "x", "authorization_url": None, "scopes": ["read_content"], "use_pkce": True}
    entry = {"name": "notion", "url": "https://mcp.notion.com/mcp", "enabled": True, "description": "x", "oauth": login}
    found = read(tmp_path, {"servers": [entry], "schema_version": 1})["notion"]
    assert found.oauth == OAuthConfig(client_id="x", scopes=("read_content",))
    assert (found.trust, found.enabled, found.requires_auth) == (Trust.COMMUNITY, True, True)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
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


def test_every_mistake_of_a_file_is_told_at_once(tmp_path: Path) -> None:
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
def test_a_file_that_is_no_file_of_servers_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigFileError):
        read(tmp_path, text)


def test_two_servers_whose_names_are_taken_for_each_other_are_refused(tmp_path: Path) -> None:
    two = [{"name": "a-b", "url": "https://a.test/"}, {"name": "a_b", "url": "https://b.test/"}]
    with pytest.raises(ConfigFileError, match="is taken"):
        read(tmp_path, {"servers": two})


def test_a_name_that_is_not_there_is_told_with_the_nearest() -> None:
    known = {"notion": McpServerConfig(name="notion", url="https://a.test/")}
    with pytest.raises(NotInstalledError) as failure:
        server_named(known, "notoin")
    assert failure.value.hint == "did you mean notion?"


@pytest.mark.parametrize("change", [
    {"command": ("x", "z")}, {"env": {"A": "2"}}, {"secret_env": {"S": "t"}}, {"read": ("/b",)}, {"write": ("/a",)},
    {"network": True}, {"hosts": read_program_network(["a.test"])}, {"workspace": "/w"},
])  # fmt: skip
def test_a_changed_command_variable_or_grant_is_not_covered_by_an_older_consent(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "a", "command": ("x", "y"), "env": {"A": "1"}, "secret_env": {"S": "s"}}
    before = McpServerConfig(**given)
    agreed = trust_server(before, [])
    assert agreed.covers(McpServerConfig(**given, description="another note", trust=Trust.LOCAL))
    assert not agreed.covers(McpServerConfig(**given | change))


def test_what_was_agreed_to_is_read_back_and_not_from_a_file_that_others_can_write(tmp_path: Path) -> None:
    path = tmp_path / "mcp-trust.json"
    entry = trust_server(McpServerConfig(name="a", url="https://a.test/"), [THING], ("https://auth.test",))
    write_trusted(path, {"a": entry})
    assert read_trusted(path) == {"a": entry}
    path.chmod(0o666)
    with pytest.raises(ConfigFileError, match="other users"):
        read_trusted(path)
    path.chmod(0o600)
    path.write_text('{"schema_version": 1, "servers": {"a": 7}}')
    with pytest.raises(ConfigFileError, match="not what wasmrt wrote"):
        read_trusted(path)


def test_the_whole_command_is_shown_with_everything_that_it_is_given(tmp_path: Path) -> None:
    long = "x" * 5000
    server = McpServerConfig(name="a", command=(sys.executable, "-c", long), write=(str(tmp_path / "w"),), network=True)
    (tmp_path / "w").mkdir()
    lines = "\n".join(consent_lines(server, find_program(server)))
    assert long in lines
    assert f"it writes {tmp_path / 'w'}" in lines
    assert "it uses the network" in lines


def test_each_host_is_shown_with_what_cannot_be_seen() -> None:
    server = McpServerConfig(name="a", command=(sys.executable,), hosts=read_program_network(["a.test"]))
    *_, first, last = consent_lines(server, find_program(server))
    assert first == "it reaches a.test (https on port 443, every path and method: TLS hides them)"
    assert last == "through a proxy, and nothing else of the network"


def test_a_program_has_some_hosts_or_all_of_the_network() -> None:
    hosts = read_program_network(["a.test"])
    with pytest.raises(ConfigurationError, match="not both"):
        McpServerConfig(name="a", command=("x",), network=True, hosts=hosts)
    with pytest.raises(ConfigurationError, match="hosts is for a server that has a command"):
        McpServerConfig(name="a", url="https://a.test/", hosts=hosts)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigurationError, match="is not there"):
        find_program(McpServerConfig(name="a", command=("no-such-program-here",)))


@pytest.mark.parametrize("part", ["workspace", "read", "write"])
def test_no_server_is_given_wasmrts_own_folder_or_one_that_holds_it(own_home: Path, part: str) -> None:
    (own_home / "data").mkdir(parents=True)
    for folder in (own_home / "data", own_home, Path("/")):
        given: Any = str(folder) if part == "workspace" else (str(folder),)
        with pytest.raises(ConfigurationError, match="no server may have"):
            find_program(McpServerConfig(name="a", command=(sys.executable,), **{part: given}))
