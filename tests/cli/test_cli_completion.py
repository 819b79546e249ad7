"""Tests of shell completion, the width of help pages, and doctor's report on logins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import Result

from wasmrt.catalog.bundled import bundled_names
from wasmrt.cli import cli
from wasmrt.egress.oauth import OAuthState, Tokens, store_tokens
from wasmrt.egress.secrets import open_store

Run = Callable[..., Result]
Write = Callable[..., Path]
LOGIN = {
    "secret_name": "desk_key",
    "provider": "desk",
    "oauth": {
        "authorization_url": "https://login.example.com/agree",
        "token_url": "https://login.example.com/token",
        "client_id": "me",
    },
}
KEY = {"desk": {"secret_name": "desk_key", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}}
FILE = {"http": {"allowlist": [{"host": "api.example.com"}], "credentials": KEY}, "auth": LOGIN}


def completed(home: Path, *words: str, shell: str = "bash") -> list[str]:
    """Return the completions of the last of `words`."""
    environ = os.environ | {"_WASMRT_COMPLETE": f"{shell}_complete", "WASMRT_HOME": str(home)}
    environ |= {"COMP_WORDS": " ".join(["wasmrt", *words]), "COMP_CWORD": str(len(words))}
    result = subprocess.run(
        [sys.executable, "-m", "wasmrt"], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.stderr == ""
    return result.stdout.split()


@pytest.mark.ci("slow")
def test_commands_and_names_of_tools_are_completed(wasmrt: Run, tool_file: Write, home: Path) -> None:
    wasmrt("install", tool_file())

    assert "plain,grant" in completed(home, "gr")
    assert completed(home, "inspect", "pa") == ["plain,parrot"]
    assert completed(home, "run", "ech") == ["plain,echo"]
    assert completed(home, "grant", "") == [f"plain,{name}" for name in sorted([*bundled_names(), "parrot"])]
    assert completed(home, "run", "memory_r") == ["plain,memory_read"]
    assert completed(home, "run", "./x") == ["file,./x"]
    assert "plain,--revoke" in completed(home, "grant", "--re")


def test_broken_catalog_completes_nothing_without_output(home: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data" / "catalog.sqlite3").write_bytes(b"no database at all" * 100)

    assert completed(home, "inspect", "pa") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(wasmrt: Run, shell: str, tmp_path: Path) -> None:
    script = wasmrt("completion", shell).stdout

    assert f"_WASMRT_COMPLETE={shell}_complete" in script and "wasmrt" in script
    assert json.loads(wasmrt("completion", shell, "--json").stdout)["script"].rstrip("\n") + "\n" == script
    if (program := shutil.which(shell)) is not None:
        file = tmp_path / "script"
        file.write_text(script)
        assert subprocess.run([program, "-n", str(file)], check=False, capture_output=True).stderr == b""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def test_every_help_page_fits_80_columns(wasmrt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in commands(cli):
        shown = wasmrt(*path, "--help").stdout
        assert [line for line in shown.splitlines() if len(line) > 80] == [], path


def needed(wasmrt: Run) -> tuple[str, str]:
    checks = {each["name"]: each for each in json.loads(wasmrt("doctor", "--json").stdout)}
    return checks["needed secrets"]["state"], checks["needed secrets"]["found"]


@pytest.mark.ci("slow")
@pytest.mark.parametrize(
    ("refresh", "place", "ended", "said"),
    [
        (None, "https://login.example.com/token", True, "has expired"),
        ("refresh-1", "https://login.example.com/token", True, None),
        (None, "https://login.example.com/token", False, None),
        ("refresh-1", "https://elsewhere.example.com/token", False, "has a different token URL than the grant"),
    ],
)
def test_doctor_reports_missing_expired_and_replaced_logins(
    wasmrt: Run,
    tool_file: Write,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    refresh: str | None,
    place: str,
    ended: bool,
    said: str | None,
) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")  # the test cases would share a keyring
    wasmrt("install", tool_file(sidecar=FILE), "--yes")
    assert needed(wasmrt)[0] == "warning" and "wasmrt auth parrot" in needed(wasmrt)[1]

    state = OAuthState(
        token_url=place,
        client_id="me",
        client_secret=None,
        refresh_token=None,
        access_token_field="access_token",
        expires_at=None,
    )
    expires = time.time() + (-60 if ended else 3600)
    store_tokens(open_store(home / "data"), "local", "desk_key", state, Tokens("access-token-1", refresh, expires))

    state_now, found = needed(wasmrt)
    assert state_now == ("ok" if said is None else "warning")
    if said is not None:
        assert said in found and "wasmrt auth parrot" in found


def test_config_networks_are_listed_with_value_and_file(wasmrt: Run, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "desk.capabilities.json"
    file.write_text('{"http": {"allowlist": [{"host": "10.1.0.5"}]}}')

    told = wasmrt("caps", "explain", file, "--url", "https://10.1.0.5/", code=3).stderr
    assert "wasmrt config set --append network.unsafe_allowed_networks 10.1.0.5/32" in told
