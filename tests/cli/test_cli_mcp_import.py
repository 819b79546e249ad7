"""Tests of `wasmrt mcp import`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.compiled import Installation
from tests.interop.mcp_client import hostile
from wasmrt.cli.shared.root import cli
from wasmrt.cli.shared.secrets import open_secrets
from wasmrt.egress.secrets import Secret

HOSTILE = str(Path(hostile.__file__).resolve())
FINE = {"command": sys.executable, "args": [HOSTILE, "fine"]}
VALUE = "not-a-" + "real-value"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = sharing_code(tmp_path / "home")
    monkeypatch.setenv("WASMRT_HOME", str(folder))
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    return folder / "data"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mcp.json"


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["mcp", *args], prog_name="wasmrt")


def bring(file: Path, data: Any, *options: str, yes: bool = True) -> tuple[Result, list[dict[str, Any]]]:
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    done = run("import", str(file), "--json", *(["--yes"] if yes else []), *options)
    return done, json.loads(done.stdout) if done.stdout else []


def test_a_clients_file_is_imported_with_its_secrets_stored_apart_and_twice_without_change(
    home: Path, file: Path
) -> None:
    entry = {**FINE, "env": {"GITHUB_TOKEN": VALUE, "LOG_LEVEL": "info", "PORT": 3}, "alwaysAllow": ["x"]}
    data = {"mcpServers": {"Git Hub": entry}, "theme": "dark"}
    done, (row,) = bring(file, data)
    assert done.exit_code == 0, done.output
    assert (row["name"], row["state"], row["tools"]) == ("git-hub", "added", 1)
    assert "the key 'theme' was not imported" in done.stderr
    assert "the key 'alwaysAllow' was not imported" in done.stderr
    assert "with the variable GITHUB_TOKEN from the secret mcp_git-hub_github_token" in done.stderr
    stored = (home / "mcp-servers.json").read_text()
    assert VALUE not in stored + done.output
    assert json.loads(stored)["servers"][0]["env"] == {"LOG_LEVEL": "info", "PORT": "3"}
    assert open_secrets().get("local", "mcp_git-hub_github_token").reveal() == VALUE
    again, (row,) = bring(file, data, yes=False)
    assert (again.exit_code, row["state"]) == (0, "unchanged")
    assert (home / "mcp-servers.json").read_text() == stored
    changed, (row,) = bring(file, {"mcpServers": {"git-hub": {**entry, "args": [HOSTILE, "invisible"]}}})
    assert changed.exit_code == 1 and "already exists" in row["problem"] and "--replace" in row["hint"]


def test_a_server_that_is_not_approved_leaves_no_secret(home: Path, file: Path) -> None:
    done, (row,) = bring(file, {"mcpServers": {"a": {**FINE, "env": {"API_KEY": VALUE}}}}, yes=False)
    assert (done.exit_code, row["state"]) == (1, "refused")
    assert open_secrets().list("local") == () and not (home / "mcp-servers.json").exists()


def test_the_form_of_vs_code_asks_for_its_inputs_as_secrets(file: Path) -> None:
    entry = {**FINE, "type": "stdio", "env": {"KEY": "${input:api-key}"}}
    data = {"servers": {"demo": entry}, "inputs": [{"id": "api-key", "type": "promptString", "password": True}]}
    done, (row,) = bring(file, data)
    assert done.exit_code == 1
    assert row["problem"] == "the value of the input 'api-key' is missing: the other client asks its user for it"
    assert row["hint"].endswith("wasmrt secret set mcp_demo_key")
    open_secrets().set("local", "mcp_demo_key", Secret(VALUE))
    done, (row,) = bring(file, data)
    assert (done.exit_code, row["state"]) == (0, "added"), done.output


@pytest.mark.parametrize(("entry", "said", "step"), [
    ({"command": "docker", "args": ["run", "-i", "image"]}, "rights of their daemon", "docker run -p"),
    ({"command": "npx", "args": ["--registry=x", "pkg"]}, "'--registry'", "supported options"),
    ({"command": "no-such-program-here"}, "was not found", "install it"),
    ({**FINE, "args": ["${workspaceFolder}/a.py"]}, "${workspaceFolder}", "write its value"),
    ({**FINE, "args": "a"}, "args must be a list", "write it like"),
    ({**FINE, "env": {"API_KEY": "<your key>"}}, "env.API_KEY is a placeholder", "write its value"),
    ({**FINE, "env": {"LD_PRELOAD": "/x"}}, "LD_PRELOAD", ""),
    ({**FINE, "env": {"A": ["x"]}}, "env.A must be a string", "correct the file"),
    ({**FINE, "url": "https://a.test/"}, "both command and url", "remove one"),
    ({**FINE, "args": ["--db=postgres://me:" + "pw" + "@h/d"]}, "an argument contains a secret", "--secret-env"),
    ({**FINE, "args": ["--api-key", VALUE]}, "an argument contains a secret", "--secret-env"),
    ({**FINE, "args": [f"--token={VALUE}"]}, "an argument contains a secret", "--secret-env"),
    ({"url": "https://a.test/", "headers": {"X-Api-Key": "x"}}, "the header 'X-Api-Key'", "bearer"),
    ({"url": "http://a.test/"}, "https://", "this machine"),
    ({"type": "ws", "url": "https://a.test/"}, "type is 'ws'", "correct the file"),
    ({}, "neither command nor url", "add one"),
    ("x", "not an object", "write it like"),
])  # fmt: skip
def test_an_entry_that_cannot_be_used_is_refused_with_its_reason_and_does_not_stop_the_others(
    file: Path, entry: Any, said: str, step: str
) -> None:
    done, (bad, disabled) = bring(file, {"mcpServers": {"bad": entry, "off": {**FINE, "disabled": True}}})
    assert (done.exit_code, bad["state"], disabled["state"]) == (1, "refused", "disabled")
    assert said in bad["problem"] and step in (bad["hint"] or "")
    assert f"bad was not added: {bad['problem']}" in done.stderr


@pytest.mark.parametrize(("text", "said"), [
    ('{"mcpServers": {}, }', "plain JSON"), ("[]", "it has no object"), ('{"mcpServers": []}', "it has no object"),
    ('{"mcpServers": {"a": {}, "a": {}}}', "duplicate keys"),
])  # fmt: skip
def test_a_file_that_no_client_wrote_is_refused(file: Path, text: str, said: str) -> None:
    done, rows = bring(file, text)
    assert done.exit_code == 2 and rows == [] and said in done.stderr
