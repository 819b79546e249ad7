"""Tests of `wasmrt mcp`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.compiled import Installation
from tests.interop.mcp_client import hostile
from tests.interop.mcp_client.hostile_http import hostile_site
from wasmrt.cli.shared.registry import print_problems
from wasmrt.cli.shared.root import cli
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.core.errors import ConfigurationError
from wasmrt.egress.secrets import Secret
from wasmrt.interop.mcp.client import KeptLogin, McpServerConfig

HOSTILE = str(Path(hostile.__file__).resolve())
CONFIG = '[tools.filter]\nallow_external = true\n[tools.rules."bad_*"]\npermission = "allow"\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = sharing_code(tmp_path / "home")
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")  # not the machine's keyring
    data = folder / "data"
    (data / "config.toml").write_text(CONFIG)
    return data


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args], prog_name="wasmrt")


def add(case: str, *options: str, name: str = "bad") -> Result:
    return run("add", name, *options, "--yes", "--", sys.executable, HOSTILE, case)


def test_a_server_is_added_listed_called_checked_and_removed(home: Path) -> None:
    added = add("invisible", "--trust", "local", "--json")
    assert added.exit_code == 0, added.output
    data = json.loads(added.stdout)
    assert [(tool["called"], tool["state"]) for tool in data["tools"]] == [("bad_get_thing", "agreed")]
    assert f"{HOSTILE!r}" in added.stderr  # the exact command is shown
    (row,) = json.loads(run("list", "--json").stdout)
    assert (row["name"], row["tools"], row["state"], row["trust"]) == ("bad", 1, "ready", "local")
    answered = run("call", "bad", "get_thing", "{}", "--json")
    assert json.loads(answered.stdout)["result"] == "abc"
    checked = run("check", "--json")
    assert checked.exit_code == 0
    assert json.loads(checked.stdout)[0]["protocol"] == "2025-11-25"
    assert run("remove", "bad").exit_code == 0
    assert json.loads(run("list", "--json").stdout) == []
    assert json.loads((home / "mcp-trust.json").read_text())["servers"] == {}


def test_removing_a_server_removes_the_login_of_the_user(home: Path) -> None:
    url = "https://mcp.example.com/mcp"
    assert run("add", "site", url, "--yes", "--no-connect").exit_code == 0
    login = KeptLogin(open_secrets(), "local", McpServerConfig(name="site", url=url))
    login.set("access_token", "of-the-login")
    open_secrets().set("local", "mcp_site_client_secret", Secret("of-the-client"))
    assert run("remove", "site").exit_code == 0
    assert open_secrets().list("local") == ()


@pytest.mark.ci("slow")
def test_call_announces_the_server_start_unless_json(home: Path) -> None:
    assert add("invisible", "--trust", "local").exit_code == 0
    for command in (("mcp", "call", "bad", "get_thing"), ("tools", "run", "bad_get_thing", "{}")):
        called = CliRunner().invoke(cli, command)
        assert (called.exit_code, called.stdout) == (0, '"abc"\n'), called.output
        assert "progress: starting the server bad\n" in called.stderr
        assert "starting" not in CliRunner().invoke(cli, [*command, "--json"]).stderr


def test_server_is_not_started_or_stored_without_consent(home: Path) -> None:
    refused = run("add", "bad", "--", sys.executable, HOSTILE, "fine")
    assert refused.exit_code == 3
    assert "this was not approved" in refused.stderr
    assert not (home / "mcp-servers.json").exists()
    assert not (home.parent / "cache" / "mcp").exists()


def test_changed_definition_is_shown_and_needs_consent(home: Path) -> None:
    assert add("fine").exit_code == 0
    text = (home / "mcp-trust.json").read_text()
    (home / "mcp-trust.json").write_text(text.replace("Gets a thing.", "Gave a thing."))
    seen = run("tools", "bad")
    assert "changed: get_thing" in seen.stderr
    assert '-"description": "Gave a thing."' in seen.stderr
    assert '+"description": "Gets a thing."' in seen.stderr
    assert run("check", "bad").exit_code == 1
    assert run("trust", "bad").exit_code == 3
    assert run("trust", "bad", "--yes", "--level", "verified").exit_code == 0
    assert run("check", "bad").exit_code == 0
    assert json.loads(run("list", "--json").stdout)[0]["trust"] == "verified"


def test_a_script_is_started_by_its_absolute_path_and_may_read_its_project(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "src" / "server.py").write_text(Path(HOSTILE).read_text())
    monkeypatch.chdir(project)
    added = run("add", "bad", "--yes", "--", sys.executable, "src/server.py", "fine")
    assert added.exit_code == 0, added.output
    assert f"it reads {project}\n" in added.stderr
    stored = json.loads((home / "mcp-servers.json").read_text())["servers"][0]
    assert stored["command"][1:] == [str(project / "src" / "server.py"), "fine"]
    assert stored["read"] == [str(project)]
    missing = run("add", "other", "--yes", "--", sys.executable, "no-such.py")
    assert missing.exit_code == 2 and "the script 'no-such.py' does not exist" in missing.stderr


@pytest.mark.parametrize(("line", "step"), [
    ("raise SystemExit('python: No module named x')", "-- uvx PACKAGE"),
    ("raise SystemExit('ERR_UNKNOWN_BUILTIN_MODULE: No such built-in module: node:sqlite')", "a newer Node.js"),
    ("raise SystemExit('no')", "a folder (--read, --write)"),
])  # fmt: skip
def test_a_program_that_exits_at_once_gets_a_hint_for_its_output(home: Path, line: str, step: str) -> None:
    refused = run("add", "bad", "--yes", "--", sys.executable, "-c", line)
    assert refused.exit_code == 1 and step in refused.stderr


def test_a_script_in_a_parent_of_the_home_directory_has_no_project(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "package.json").touch()
    (tmp_path / "server.py").write_text(Path(HOSTILE).read_text())
    assert run("add", "bad", "--yes", "--", sys.executable, str(tmp_path / "server.py"), "fine").exit_code == 0
    assert "read" not in json.loads((home / "mcp-servers.json").read_text())["servers"][0]


def test_a_folder_in_the_arguments_is_granted_only_by_an_option(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for options, noted in (((), True), (("--replace", "--write", str(folder)), False)):
        added = run("add", "bad", *options, "--yes", "--", sys.executable, HOSTILE, "fine", str(folder))
        assert added.exit_code == 0, added.output
        assert (f"to allow it: --read {folder} or --write {folder}" in added.stderr) is noted
        assert (f"it writes {folder}\n" in added.stderr) is not noted


def test_edited_command_needs_consent(home: Path) -> None:
    assert add("fine").exit_code == 0
    text = (home / "mcp-servers.json").read_text()
    (home / "mcp-servers.json").write_text(text.replace('"fine"', '"exits-at-once"'))
    assert json.loads(run("list", "--json").stdout)[0]["state"] == "not trusted"
    called = run("call", "bad", "get_thing")
    assert called.exit_code != 0
    assert "the current command of this MCP server" in called.stderr
    assert "wasmrt mcp trust bad" in called.stderr
    assert run("trust", "bad").exit_code == 3
    assert add("fine", "--trust", "local", name="other").exit_code == 0
    called = run("call", "other", "get_thing")
    assert "bad" not in called.stderr, "a call prints only the problems of its own server"
    assert "bad cannot be used" in CliRunner().invoke(cli, ["tools", "list"]).stderr


def test_refused_tools_of_a_server_are_one_line_with_the_command_that_explains_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problems = {
        f"calc_{number}": ConfigurationError("bad schema", code="mcp-tool", hint="wasmrt mcp tools calc")
        for number in range(10)
    }
    print_problems(problems)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("calc_4 and 5 more cannot be used; for the reasons: wasmrt mcp tools calc")
    print_problems(problems, called="calc_3")
    assert capsys.readouterr().err == "calc_3 cannot be used: bad schema; wasmrt mcp tools calc\n"


def test_server_that_cannot_start_is_not_stored(home: Path) -> None:
    failed = add("exits-at-once")
    assert failed.exit_code == 1
    assert "I have had enough" in failed.stderr
    assert not (home / "mcp-servers.json").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("add bad http://a.test/mcp", "https://"),
        ("add Bad https://a.test/mcp", "is not a valid server name"),
        ("add bad https://a.test/mcp --env A=1", "only for servers with a command"),
        ("add bad --env A -- python", "NAME=VALUE"),
        ("add bad -- no-such-program-here", "was not found"),
        ("call nobody tool", "there is no MCP server"),
        ("trust nobody", "there is no MCP server"),
        ("remove nobody", "there is no MCP server"),
        ("auth nobody", "there is no MCP server"),
        ("check nobody", "there is no MCP server"),
    ],
)
def test_mcp_usage_error_is_one_sentence_with_a_hint(line: str, said: str) -> None:
    failed = run(*shlex.split(line), "--json") if "--" not in line else run(*shlex.split(line))
    assert failed.exit_code == 2
    assert said in failed.stderr
    assert "hint" in failed.stderr


def test_a_login_is_for_servers_with_a_url() -> None:
    assert add("fine").exit_code == 0
    failed = run("auth", "bad")
    assert failed.exit_code == 2
    assert "has no login" in failed.stderr


def test_invalid_server_file_reports_all_errors(home: Path) -> None:
    (home / "mcp-servers.json").write_text('{"servers": [{"name": "A", "url": "https://a.test/"}, {"name": "b"}]}')
    failed = run("list")
    assert failed.exit_code == 2
    assert "servers.0" in failed.stderr
    assert "servers.1" in failed.stderr


@pytest.fixture
def site(home: Path) -> Iterator[Callable[[str], str]]:
    (home / "config.toml").write_text(f'{CONFIG}[network]\nunsafe_allowed_networks = ["127.0.0.0/8"]\n')
    with hostile_site() as server:
        yield server.url


@pytest.mark.parametrize(
    ("case", "said", "step"),
    [
        ("web-page", "text/html", "the MCP URL of its documentation"),
        ("no-page", "Not Found", "the MCP URL of its documentation"),
        ("start-error", "no licence", "the MCP URL of its documentation"),
        ("old-version", "supports no MCP version that wasmrt supports", "update the server"),
    ],
)
def test_url_that_is_not_an_mcp_server_is_refused_with_a_hint(
    site: Callable[[str], str], case: str, said: str, step: str
) -> None:
    refused = run("add", "bad", site(case), "--yes", "--json")
    error = json.loads(refused.stderr.splitlines()[-1])
    assert refused.exit_code == 1 and said in error["message"] and step in error["hint"]


@pytest.mark.parametrize(
    ("case", "said", "step"),
    [
        ("list-error", "answered with an error: no", "an MCP server on standard input and output"),
        ("list-shape", "a response that is not valid MCP", "an MCP server on standard input and output"),
        ("old-version", "supports no MCP version that wasmrt supports", "update the server"),
    ],
)
def test_command_that_is_not_an_mcp_server_is_refused_with_a_hint(case: str, said: str, step: str) -> None:
    refused = add(case, "--json")
    error = json.loads(refused.stderr.splitlines()[-1])
    assert refused.exit_code == 1 and said in error["message"] and step in error["hint"]
