"""Tests of warnings about secrets, installs and the installation."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal

Run = Callable[..., Result]
Write = Callable[..., Path]

WIDE = {"http": {"allowlist": [{"host": "api.example.com"}, {"host": "files.example.com"}]}}
NARROW = {"http": {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/"}]}}
BEARER = {
    "http": {
        "allowlist": [{"host": "api.example.com"}],
        "credentials": {
            "api": {"secret_name": "api_token", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}
        },
    }
}


@pytest.fixture(autouse=True)
def secrets_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")


# -- secrets -------------------------------------------------------------------------------------------------------


def test_missing_secret_is_reported_with_its_command(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar=BEARER)
    step = "wasmrt secret set api_token"
    assert f"the secret api_token is not set; run: {step}" in wasmrt("install", path, "--yes").stderr
    beside = path.with_name("parrot.capabilities.json")
    checked = wasmrt("caps", "check", beside).stderr
    assert checked.startswith(f"warning: the secret api_token is not set; run: {step}\n")
    assert re.search(r"\nparrot.capabilities.json is valid, with \d warnings?\n\Z", checked)
    told = json.loads(wasmrt("caps", "check", beside, "--json").stdout)["missing_secrets"]
    assert [(secret["name"], secret["hint"]) for secret in told] == [("api_token", f"run: {step}")]
    assert step in wasmrt("doctor").stdout
    for each in ("parrot", path):
        assert step in wasmrt("inspect", each).stdout.replace("\n", " ")
        assert json.loads(wasmrt("inspect", each, "--json").stdout)["missing_secrets"] == told
    wasmrt("secret", "set", "api_token", stdin="a-value")
    assert json.loads(wasmrt("install", path, "--json").stdout)["missing_secrets"] == []
    assert "api_token" not in wasmrt("doctor").stdout


def test_doctor_reports_a_missing_search_provider_key(wasmrt: Run, home: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data/config.toml").write_text('[web_search]\nprovider = "brave"\n')
    assert "web_search: the secret brave_api_key is not set; run: wasmrt secret set brave_api_key" in (
        wasmrt("doctor").stdout
    )
    wasmrt("secret", "set", "brave_api_key", stdin="a-value")
    assert "brave_api_key" not in wasmrt("doctor").stdout


@pytest.mark.parametrize(
    ("sections", "counted"),
    [
        ({}, ""),
        ({"workspace": True}, ", with 1 warning"),
        ({"workspace": True, "secrets": {"allowed_names": ["*"]}}, ", with 2 warnings"),
    ],
)
def test_caps_check_counts_warnings(wasmrt: Run, tmp_path: Path, sections: dict[str, object], counted: str) -> None:
    file = tmp_path / "x.capabilities.json"
    file.write_text(json.dumps(sections))
    checked = wasmrt("caps", "check", file)
    assert checked.stderr == f"x.capabilities.json is valid{counted}\n"
    assert [line.partition(":")[0] for line in checked.stdout.splitlines()] == ["warning"] * len(sections)


def test_unavailable_secret_store_does_not_stop_install(
    wasmrt: Run, tool_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    wasmrt("secret", "set", "other", stdin="a-value")
    monkeypatch.setenv("WASMRT_SECRETS_PASSPHRASE", "not what it was written with")
    assert (
        "needs a key file; unset WASMRT_SECRETS_PASSPHRASE"
        in wasmrt("install", tool_file(sidecar=BEARER), "--yes").stderr
    )
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "none-of-that-name")
    told = wasmrt("install", tool_file(sidecar=BEARER)).stderr
    assert "already installed" in told and "whether the secret api_token is set is unknown" in told


def test_secret_of_a_login_suggests_the_login(wasmrt: Run, tool_file: Write) -> None:
    oauth = {"authorization_url": "https://a.example/a", "token_url": "https://a.example/t", "client_id": "c"}
    path = tool_file(sidecar=BEARER | {"auth": {"secret_name": "api_token", "oauth": oauth}})
    assert "run: wasmrt auth parrot" in wasmrt("install", path, "--yes").stderr


def test_ungranted_and_optional_secrets_are_not_reported(wasmrt: Run, tool_file: Write, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.json"
    nothing.write_text("{}")
    assert "api_token" not in wasmrt("install", tool_file(sidecar=BEARER), "--grant", nothing).stderr
    optional = json.loads(json.dumps(BEARER))
    optional["http"]["credentials"]["api"]["optional"] = True
    assert "not set" not in wasmrt("install", tool_file(sidecar=optional), "--name", "other", "--yes").stderr


def test_secret_test_without_validation_request_has_a_hint(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=BEARER), "--yes")
    told = wasmrt("secret", "test", "api_token", "--tool", "parrot", code=2).stderr
    added = json.loads("{" + told.partition("checks the secret: ")[2].strip() + "}")
    assert added["auth"]["secret_name"] == "api_token"
    path = tool_file(sidecar=BEARER | added)
    assert "api_token works" not in wasmrt("install", path, "--yes").stderr  # the example is a valid section


@pytest.mark.parametrize("command", ["set", "remove", "import"])
def test_secret_commands_support_json(wasmrt: Run, command: str) -> None:
    wasmrt("secret", "set", "api_token", stdin="a-value")
    arguments = {"set": ("api_token",), "remove": ("api_token",), "import": ("-",)}[command]
    answer = json.loads(wasmrt("secret", command, *arguments, "--json", stdin="API_TOKEN=a-value").stdout)
    assert answer["user"] == "local"
    assert answer.get("removed", answer.get("set")) in ("api_token", ["api_token"])


# -- installing ----------------------------------------------------------------------------------------------------


def test_stale_capability_file_in_the_build_folder_is_reported(wasmrt: Run, tool_file: Write, tmp_path: Path) -> None:
    built = tool_file()
    project = tmp_path / "project"
    (project / "build").mkdir(parents=True, exist_ok=True)
    (project / "wasmrt.toml").write_text('name = "parrot"\nlanguage = "rust"\n')
    path = built.rename(project / "build" / "parrot.wasm")
    copy, original = (folder / "parrot.capabilities.json" for folder in (project / "build", project))
    for sidecar in (copy, original):
        sidecar.write_text(json.dumps(NARROW))
    assert "wasmrt build" not in wasmrt("install", path, "--yes").stderr
    original.write_text(json.dumps(WIDE))
    warned = wasmrt("install", path, "--yes").stderr
    assert "in the build folder differs from the project's; to update the copy, run: wasmrt build" in warned
    assert "wasmrt build" not in wasmrt("install", path, "--capabilities", original, "--yes").stderr
    copy.unlink()
    assert (
        "is missing from the build folder"
        in json.loads(wasmrt("install", path, "--yes", "--json").stdout)["warnings"][0]
    )


def test_replacing_a_bundled_tool_needs_an_explicit_name(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file("echo")
    told = wasmrt("install", path, code=2).stderr
    assert "a bundled tool is named echo" in told and "--name echo" in told
    assert json.loads(wasmrt("list", "--json").stdout) == []
    assert "will run the installed one instead" in wasmrt("install", path, "--name", "echo").stderr
    assert "will run the installed one instead" not in wasmrt("install", path).stderr  # already confirmed
    code, said = on_a_terminal(b"n\n", "install", tool_file("time"))
    assert code == 2 and "Replace the bundled time?" in said


def test_narrower_reinstall_is_reported_without_asking(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file(sidecar=WIDE), "--yes")
    told = wasmrt("install", tool_file(sidecar=NARROW)).stderr
    assert "no longer asks" in told and "installed parrot version 2" in told
    assert "may GET" not in told.partition("no longer asks")[0]
    assert "awaits a grant" in wasmrt("install", tool_file(sidecar=WIDE), code=3).stderr
    assert "awaits a grant" in wasmrt("install", tool_file(sidecar=NARROW, of="json"), code=3).stderr


def test_pending_version_keeps_its_number_on_reinstall(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file())
    path = tool_file(sidecar=WIDE)
    for _ in range(3):
        assert "version 2 of parrot awaits" in wasmrt("install", path, code=3).stderr
    for _ in range(2):
        assert json.loads(wasmrt("install", path, "--yes", "--json").stdout)["number"] == 2
    assert json.loads(wasmrt("list", "--json").stdout)[0]["pending"] is None


def test_remove_asks_on_a_terminal_and_needs_yes_in_scripts(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file())
    assert "wasmrt remove parrot --yes" in wasmrt("remove", "parrot", code=2).stderr
    assert json.loads(wasmrt("remove", "parrot", "--json", code=2).stderr)["code"] == "not-confirmed"
    code, said = on_a_terminal(b"n\n", "remove", "parrot")
    assert code == 2 and "Remove parrot with its 1 version" in said
    assert "parrot" in wasmrt("list").stdout
    code, said = on_a_terminal(b"\x04", "remove", "parrot")
    assert code == 130 and said.splitlines()[-1] == "error: interrupted"
    code, said = on_a_terminal(b"y\n", "remove", "parrot")
    assert code == 0 and "removed parrot" in said
    assert "no tool named 'parrot'" in wasmrt("remove", "parrot", code=2).stderr


# -- doctor --------------------------------------------------------------------------------------------------------


def state_of(wasmrt: Run, check: str, *, code: int = 0) -> tuple[str, str]:
    checks = {each["name"]: each for each in json.loads(wasmrt("doctor", "--json", code=code).stdout)}
    return checks[check]["state"], checks[check]["found"]


def test_doctor_names_modified_components(wasmrt: Run, tool_file: Write, home: Path) -> None:
    wasmrt("install", tool_file())
    assert state_of(wasmrt, "catalog")[0] == "ok"
    (stored,) = home.rglob("components/*.wasm")
    stored.write_bytes(stored.read_bytes()[:-1] + b"\xff")
    state, found = state_of(wasmrt, "catalog", code=1)
    assert state == "failed" and "parrot" in found


def test_doctor_reports_a_home_that_cannot_be_used(wasmrt: Run, absent_home: Path) -> None:
    absent_home.write_text("a file where a folder should be")
    state, found = state_of(wasmrt, "folders", code=1)
    assert state == "failed" and str(absent_home) in found and "cannot be written" in found


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights as POSIX has them")
def test_doctor_warns_about_a_home_others_can_write(wasmrt: Run, home: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data").chmod(0o777)
    assert state_of(wasmrt, "folders")[0] == "warning"


@pytest.mark.ci("slow")
def test_doctor_reports_the_shell_backend(wasmrt: Run, home: Path) -> None:
    def shell() -> tuple[str, str]:
        checks = json.loads(wasmrt("doctor", "--json").stdout)
        return next((check["state"], check["found"]) for check in checks if check["name"] == "shell")

    (home / "data").mkdir(parents=True, exist_ok=True)
    for text, state, said in (
        ("enabled = false", "optional", "wasmrt config set shell.enabled true"),
        ("unsafe_host = true", "warning", "unsafe_host runs commands without confinement"),
        ("unsafe_host = true\nsession = true", "warning", "wasmrt config unset shell.unsafe_host"),
    ):
        (home / "data/config.toml").write_text(f"[shell]\n{text}\n")
        found = shell()
        assert found[0] == state and said in found[1]
