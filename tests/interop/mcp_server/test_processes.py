"""`wasmrt serve` as clients start it: a separate process with messages on its standard streams."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from tests.agent.first_party.names import SERVED
from tests.interop.mcp_client.world import THING, hostile_server, processes_of
from tests.interop.mcp_server.processes import BUNDLED, OPEN, WASMRT, configure, lines, served, serving, wasmrt
from tests.interop.mcp_server.world import META, Line
from wasmrt.catalog.bundled import REGISTRY_TOOLS
from wasmrt.cli import cli
from wasmrt.core.places import find_places
from wasmrt.interop.mcp.client import trust_server, write_servers, write_trusted

pytestmark = [pytest.mark.ci("slow"), pytest.mark.usefixtures("unmeasured")]


def test_the_process_answers_piped_messages_and_exits(home: Path) -> None:
    done = wasmrt(
        "serve",
        stdin=lines(
            {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}},
            {
                "jsonrpc": "2.0",
                "id": 2,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": {"message": "hi"}, "_meta": META},
            },
        ),
    )
    answers = {each["id"]: each["result"] for each in map(json.loads, done.stdout.splitlines())}
    assert answers[1]["capabilities"] == {"tools": {"listChanged": True}}
    assert answers[2]["structuredContent"] == "hi" and answers[2]["content"] == [{"type": "text", "text": "hi"}]
    assert len(done.stderr.splitlines()) == 1 and b"to offer them, pass --manage" in done.stderr


def test_a_file_is_read_like_a_pipe(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "messages"
    file.write_bytes(lines({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
    with file.open("rb") as source:
        done = subprocess.run([*WASMRT, "serve"], stdin=source, capture_output=True, timeout=60, check=True)
    assert json.loads(done.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_at_once(home: Path, number: signal.Signals) -> None:
    with serving() as (line, process):
        line.ask("tools/list")
        process.send_signal(number)
        assert process.wait(20) == 0


@pytest.mark.ci("slow")
def test_changes_by_other_processes_update_the_offered_tools(home: Path, tmp_path: Path) -> None:
    configure(home, OPEN)
    tool = tmp_path / "parrot.wasm"
    tool.write_bytes((BUNDLED / "echo.wasm").read_bytes())
    with serving() as (line, _):
        assert "parrot" not in names(line)
        line.initialize()
        subscribed = line.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}, "_meta": META})
        assert line.read()["params"]["notifications"] == {"toolsListChanged": True}
        wasmrt("install", str(tool), "--yes")
        heard(line, subscribed)
        assert "parrot" in names(line)
        assert line.call("parrot", {"message": "hi"})["structuredContent"] == "hi"
        tool.write_bytes((BUNDLED / "time.wasm").read_bytes())
        wasmrt("install", str(tool), "--yes")
        heard(line, subscribed)
        (parrot,) = (each for each in line.ask("tools/list")["tools"] if each["name"] == "parrot")
        assert "operation" in parrot["inputSchema"]["properties"]
        wasmrt("remove", "parrot", "--yes")
        heard(line, subscribed)
        assert "parrot" not in names(line)
        assert line.error("tools/call", {"_meta": META, "name": "parrot"})["code"] == -32602


def names(line: Line) -> list[str]:
    return [each["name"] for each in line.ask("tools/list")["tools"]]


def heard(line: Line, subscribed: int) -> None:
    """Check that a change is reported in both eras: to the session, and to the subscription."""
    told = [line.read() for _ in range(2)]
    assert {each["method"] for each in told} == {"notifications/tools/list_changed"}
    assert sorted(bool(each.get("params")) for each in told) == [False, True]


def test_a_pending_call_runs_after_approval_by_the_command(home: Path) -> None:
    configure(home, '[tools.rules.echo]\npermission = "ask"\n')
    with serving() as (line, _):
        text = line.call("echo", {"message": "hi"})["content"][0]["text"]
        (waiting,) = json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"]
        assert waiting["id"] in text
        wasmrt("approvals", "approve", waiting["id"])
        assert line.call("echo", {"message": "hi"})["structuredContent"] == "hi"


@pytest.mark.ci("slow")
def test_ending_the_server_withdraws_its_pending_requests(home: Path) -> None:
    configure(home, '[tools.rules.echo]\npermission = "ask"\n')
    with serving() as (line, _):
        line.call("echo", {"message": "hi"})
        (waiting,) = json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"]
    assert json.loads(wasmrt("approvals", "list", "--json").stdout)["pending"] == []
    assert b"withdrawn" in wasmrt("approvals", "approve", waiting["id"], code=1).stderr


def test_served_tools_are_selected_by_preset_and_name(home: Path) -> None:
    configure(home, '[presets.small]\ntools = ["echo", "json"]\n')
    shown = wasmrt("serve", "--check", "--json", "--preset", "small", "--tool", "e*", "--tool", "time")
    assert [each["name"] for each in json.loads(shown.stdout)["tools"]] == ["echo"]
    assert shown.stderr.count(b" is not offered: ") == 1, "the preset keeps it back; what no --tool names is no news"


@pytest.mark.parametrize(
    ("arguments", "config", "added"),
    [
        ((), "", set()),
        (("--manage",), "", set(REGISTRY_TOOLS)),
        ((), "[skills]\nserve = true\n", {name for name in REGISTRY_TOOLS if name.startswith("skill_")}),
    ],
)
def test_tools_that_manage_tools_are_offered_only_if_they_are_turned_on(
    home: Path, arguments: tuple[str, ...], config: str, added: set[str]
) -> None:
    configure(home, config)
    found = wasmrt("serve", "--check", "--json", *arguments)
    assert {each["name"] for each in json.loads(found.stdout)["tools"]} == {*SERVED, *added}
    assert (b"to offer them, pass --manage" in found.stderr) == (added != set(REGISTRY_TOOLS))


def test_an_unselected_tool_cannot_be_called(home: Path) -> None:
    with serving("--tool", "echo") as (line, _):
        assert line.error("tools/call", {"_meta": META, "name": "time", "arguments": {}})["code"] == -32602
        assert line.call("echo", {"message": "hi"})["structuredContent"] == "hi"


@pytest.mark.ci("slow")
def test_configured_servers_are_offered_and_end_with_the_process(home: Path) -> None:
    configure(home, OPEN + '[tools.rules."bad_*"]\npermission = "allow"\n')
    server, places = hostile_server("fine"), find_places()
    write_servers(places.mcp_servers, [server])
    write_trusted(places.mcp_trust, {server.name: trust_server(server, [THING])})
    with serving() as (line, _):
        assert "bad_get_thing" in names(line)
        assert processes_of(server) == [], "no server is started before it is called"
        assert line.call("bad_get_thing", {})["structuredContent"] == "fine"
        assert processes_of(server) != []
    assert processes_of(server) == []
    listed = json.loads(wasmrt("tools", "list", "--json").stdout)
    assert "bad_get_thing" in json.dumps(listed)


def test_the_check_reports_tools_and_protocol_versions(home: Path) -> None:
    found = wasmrt("serve", "--check")
    assert b"echo" in found.stdout and b"2026-07-28 and 2025-11-25" in found.stdout


@pytest.mark.ci("slow")
def test_the_check_reports_why_the_shell_is_not_offered(home: Path) -> None:
    configure(home, "[shell]\nenabled = false\n")
    found = wasmrt("serve", "--check", "--json", "--workspace", str(home))
    assert "shell" not in [each["name"] for each in json.loads(found.stdout)["tools"]]
    assert b"shell is not offered: it is disabled; to enable it: wasmrt config set shell.enabled true" in found.stderr
    assert b"shell is not offered" not in wasmrt("serve", "--check", "--json").stderr, "without a workspace is no shell"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--user", "a\tb"], "printable"),
        (["--json"], "--check"),
        (["--check", "--print-config", "claude"], "cannot be combined"),
        (["--print-config", "emacs"], "emacs"),
    ],
)
def test_invalid_options_are_reported_in_one_sentence(home: Path, arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, ["serve", *arguments], prog_name="wasmrt")
    assert done.exit_code == 2 and said in done.stderr


def test_an_unknown_preset_ends_the_server(home: Path) -> None:
    assert "unknown preset: 'nothing'" in wasmrt("serve", "--preset", "nothing", code=2).stderr.decode()


def test_an_invalid_configuration_is_reported_on_stderr(home: Path) -> None:
    configure(home, "[tools\n")
    done = wasmrt(
        "serve", stdin=lines({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}), code=2
    )
    assert b"config.toml" in done.stderr
    answer = json.loads(done.stdout)
    assert answer["error"]["code"] == -32603


GIVEN = ["--tool", "e*", "--read-only", "--user", "ann"]


def printed(client: str, *arguments: str) -> str:
    done = CliRunner().invoke(cli, ["serve", "--print-config", client, *arguments], prog_name="wasmrt")
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("client", ["claude-desktop", "cursor", "vscode", "gemini"])
def test_the_settings_for_a_client_name_this_server(home: Path, client: str) -> None:
    settings = json.loads(printed(client, *GIVEN, "--workspace", str(home)))
    entry = settings["servers" if client == "vscode" else "mcpServers"]["wasmrt"]
    assert entry["args"][-8:] == ["serve", *GIVEN, "--workspace", str(home)][-8:]
    assert entry["env"] == {"WASMRT_HOME": str(home)} and Path(entry["command"]).is_absolute()


def test_the_settings_start_the_server(home: Path) -> None:
    entry = json.loads(printed("cursor", *GIVEN))["mcpServers"]["wasmrt"]
    sent = lines({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    command = [entry["command"], *entry["args"]]
    done = subprocess.run(command, env=entry["env"], input=sent, capture_output=True, timeout=60, check=True)
    assert [each["name"] for each in json.loads(done.stdout)["result"]["tools"]] == ["echo"]


def test_the_settings_for_codex_and_claude_are_toml_and_a_command(home: Path) -> None:
    codex = tomllib.loads(printed("codex", "--tool", 'a"b'))
    assert codex["mcp_servers"]["wasmrt"]["args"][-2:] == ["--tool", 'a"b']
    claude = shlex.split(printed("claude", "--tool", "a b"))
    assert claude[:4] == ["claude", "mcp", "add", "wasmrt"] and claude[-2:] == ["--tool", "a b"]
    as_data = json.loads(printed("claude", "--json"))
    assert as_data["client"] == "claude" and as_data["arguments"][-1] == "serve"


def test_only_protocol_messages_are_on_standard_output(home: Path) -> None:
    """Text that a library prints goes to stderr; here it is printed by a module that is loaded with the tools."""
    code = (
        "import sys, os; from wasmrt.cli import main; import wasmrt.cli.serve.registry as served\n"
        "before = served.open_served\n"
        "def noisy(*given):\n    print('noise', flush=True); os.write(1, b'more noise\\n'); return before(*given)\n"
        "served.open_served = noisy; sys.argv = ['wasmrt', 'serve']; main()"
    )
    sent = lines({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, timeout=60, check=True)
    assert len(done.stdout.splitlines()) == 1 and json.loads(done.stdout)["id"] == 1
    assert b"noise\nmore noise\n" in done.stderr


def test_the_first_response_does_not_wait_for_the_tools(home: Path) -> None:
    """Loading the tools waits for a byte from the test."""
    code = (
        "import os, sys; from wasmrt.cli import main; import wasmrt.cli.serve.session as tools\n"
        "gate, before = int(sys.argv.pop()), tools._open\n"
        "def waiting(*given):\n    os.read(gate, 1); return before(*given)\n"
        "tools._open = waiting; sys.argv[1:] = ['serve']; main()"
    )
    gate, opener = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(gate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[gate]
    )
    assert process.stdin is not None and process.stdout is not None
    line = Line(process.stdout.fileno(), process.stdin.fileno())
    try:
        assert line.ask("server/discover")["supportedVersions"]
        number = line.request("tools/list", {"_meta": META})
        assert line.legacy("ping") == {}, "answered, and the list is not"
        os.write(opener, b"x")
        assert line.until(number)["result"]["tools"]
    finally:
        os.close(opener)
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
        os.close(gate)


def test_http_creates_a_token_once_and_prints_it_on_stderr(home: Path) -> None:
    def listed(url: str, token: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        return httpx.post(url, json=message, headers=headers, timeout=60, trust_env=False)

    with served() as (url, said):
        token = said[2].rpartition(": ")[2].strip()
        tools = listed(url, token).json()["result"]["tools"]
        assert [each["name"] for each in tools] == SERVED
        renewed = wasmrt("serve", "--new-token", "local").stdout.decode().strip()
        assert listed(url, token).status_code == 401 and listed(url, renewed).status_code == 200
    with served() as (url, said):
        assert "this once" not in "".join(said) and listed(url, renewed).status_code == 200


def test_http_serves_pages_by_link_and_not_by_token(home: Path) -> None:
    with served() as (url, said):
        link = said[1].partition("grants: ")[2].partition(" ")[0]
        pages = link.partition("?")[0]
        token = {"authorization": "Bearer " + said[2].rpartition(": ")[2].strip()}
        assert httpx.get(pages, headers=token, trust_env=False).status_code == 403
        assert httpx.post(f"{pages}x", headers=token, content=b"a=b", trust_env=False).status_code == 403
        with httpx.Client(trust_env=False) as browser:
            begun = browser.get(link)
            assert begun.status_code == 200 and "set-cookie" in begun.headers
            inside = re.search(r'url=([^"]+)"', begun.text)
            assert inside is not None
            page = browser.get(httpx.URL(link).join(inside[1]))
            assert "No requests are pending" in page.text
            assert browser.post(url, json={}).status_code == 401, "a session of a person is no client's token"
        assert httpx.get(link, trust_env=False).status_code == 403, "a link works once"


@pytest.mark.parametrize("address", ["x", "127.0.0.1:99999", "0.0.0.0:0", "example.com:1", ""])
def test_invalid_listen_addresses_are_reported(home: Path, address: str) -> None:
    done = CliRunner().invoke(cli, ["serve", "--http", address], prog_name="wasmrt")
    assert done.exit_code == 2 and "error" in done.stderr
