"""Tests of `wasmrt run`, `wasmrt inspect`, and conventions of all commands."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from keyword import iskeyword
from pathlib import Path

import click
import pytest

from wasmrt.catalog.bundled import REGISTRY_TOOLS
from wasmrt.cli import cli
from wasmrt.cli.shared import root as root
from wasmrt.core.limits import MAX_PARAMS_BYTES

Run = Callable[..., "object"]
Write = Callable[..., Path]
COMMANDS = cli.list_commands(click.Context(cli))


def test_a_bundled_tool_runs_from_an_argument_a_file_and_stdin(wasmrt: Run, tmp_path: Path) -> None:
    params = '{"message": "hi"}'
    (tmp_path / "params.json").write_text(params)
    expected = wasmrt("run", "echo", params).stdout
    assert "hi" in expected
    assert wasmrt("run", "echo", f"@{tmp_path / 'params.json'}").stdout == expected
    assert wasmrt("run", "echo", "-", stdin=params).stdout == expected


def test_json_carries_result_usage_logs_and_decisions(wasmrt: Run) -> None:
    output = json.loads(wasmrt("run", "echo", '{"message": "hi"}', "--json").stdout)
    assert {"result", "usage", "logs", "decisions", "duration", "call_id"} <= output.keys()
    assert output["usage"]["fuel"] > 0


def test_an_installed_tool_comes_before_a_bundled_one(wasmrt: Run, tool_file: Write) -> None:
    wasmrt("install", tool_file("echo", of="json"), "--name", "echo")
    assert "operation" in wasmrt("run", "echo", '{"message": "hi"}', code=2).stderr


@pytest.mark.parametrize("params", ["{not json", "", '{"message": NaN}', "[" * 100_000])
def test_params_that_are_not_json_are_bad_input(wasmrt: Run, params: str) -> None:
    told = wasmrt("run", "echo", "--", params, code=2).stderr
    assert told.startswith("error: params ")
    assert "hint: " in told


def test_params_that_do_not_fit_the_schema_name_the_field(wasmrt: Run) -> None:
    assert "message" in wasmrt("run", "echo", "{}", code=2).stderr
    error = json.loads(wasmrt("run", "echo", '{"message": 5}', "--json", code=2).stderr)
    assert error["kind"] == "invalid-parameters"
    assert "message" in error["message"]


def test_missing_and_endless_params_are_refused(wasmrt: Run, tmp_path: Path) -> None:
    assert "cannot be read" in wasmrt("run", "echo", f"@{tmp_path / 'absent'}", code=2).stderr
    assert "over" in wasmrt("run", "echo", "-", stdin=b" " * (MAX_PARAMS_BYTES + 1), code=2).stderr
    assert "not UTF-8" in wasmrt("run", "echo", "-", stdin=b'{"message": "\xff"}', code=2).stderr


def test_component_file_runs_without_capabilities_by_default(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar={"http": {"allowlist": [{"host": "api.example.com"}]}})
    report = json.loads(wasmrt("inspect", path, "--json").stdout)
    assert "api.example.com" in report["asks"][0]
    assert report["granted"] == [
        "may not do anything outside its sandbox: no network, no files, no secrets, no other tools"
    ]
    given = path.with_name("parrot.capabilities.json")
    report = json.loads(wasmrt("inspect", path, "--capabilities", given, "--json").stdout)
    assert "api.example.com" in report["granted"][0]
    assert "hi" in wasmrt("run", path, '{"message": "hi"}').stdout


def test_an_installed_tool_takes_no_capabilities_from_the_command_line(wasmrt: Run, tool_file: Write) -> None:
    path = tool_file(sidecar={})
    wasmrt("install", path)
    told = wasmrt("run", "parrot", "{}", "--capabilities", path.with_name("parrot.capabilities.json"), code=2).stderr
    assert "runs with the grant that it was installed with" in told


def test_inspect_shows_world_imports_exports_schema_and_digest(wasmrt: Run) -> None:
    report = json.loads(wasmrt("inspect", "echo", "--json").stdout)
    assert report["origin"] == "bundled"
    assert len(report["digest"]) == 64
    assert report["world"] in report["exports"]
    assert report["tools"][0]["schema"]["properties"]["message"]
    shown = wasmrt("inspect", "echo").stdout
    for word in (report["world"], report["digest"], "capabilities: none needed", "params: message: string"):
        assert word in shown


def test_an_unknown_tool_command_or_option_is_bad_input_with_the_next_step(wasmrt: Run) -> None:
    told = wasmrt("run", "ecco", code=2).stderr
    assert "no tool named 'ecco'" in told
    assert "hint: did you mean echo?" in told
    told = wasmrt("run", "build_software", code=2).stderr
    assert "needs a language model" in told and "builder_tool(" in told and "docs/builder.md" in told
    assert "Did you mean install?" in wasmrt("instal", code=2).stderr
    told = wasmrt("list", "--no-such", code=2).stderr
    assert told.startswith("error: no such option")
    assert "hint: wasmrt list --help" in told
    assert json.loads(wasmrt("list", "--no-such", "--json", code=2).stderr)["code"] == "usage"


@pytest.mark.parametrize("name", REGISTRY_TOOLS)
def test_inspecting_a_registry_only_tool_suggests_its_description(wasmrt: Run, name: str) -> None:
    told = wasmrt("inspect", name, code=2).stderr
    assert "is a tool of the host, not a component" in told and f"wasmrt tools describe {name}" in told


@pytest.mark.parametrize("name", ["_root", "../run", "run.py", "__init__"])
def test_module_names_are_not_commands(wasmrt: Run, name: str) -> None:
    assert "unknown command" in wasmrt(name, code=2).stderr


def test_untrusted_text_is_escaped_for_the_terminal(wasmrt: Run) -> None:
    hostile = "red \x1b[31m and \x9b2J and \u202e turned"
    for result in (
        wasmrt("run", "echo", json.dumps({"message": hostile})),
        wasmrt("run", hostile, code=2),
        wasmrt("run", "echo", hostile, code=2),
        wasmrt("run", "echo", hostile, "--json", code=2),
    ):
        for character in "\x1b\x9b\u202e":
            assert character not in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(wasmrt: Run, command: str) -> None:
    shown = wasmrt(command, "--help").stdout
    if not isinstance(cli.get_command(click.Context(cli), command), click.Group):
        assert "Examples:" in shown
        assert f"wasmrt {command}" in shown.partition("Examples:")[2]


@pytest.mark.parametrize(
    "command", ["doctor", "grant", "inspect", "install", "list", "remove", "rollback", "run", "verify"]
)
def test_commands_with_data_support_json(wasmrt: Run, command: str) -> None:
    assert "--json" in wasmrt(command, "--help").stdout


def test_help_and_version_name_every_command_and_exit_code(wasmrt: Run) -> None:
    shown = wasmrt("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command}\b", shown, re.MULTILINE)
    for code in ("0  success", "1  the tool", "2  usage", "3  denied", "4  internal error of wasmrt"):
        assert code in shown
    assert re.fullmatch(r"wasmrt \d+\.\d+\.\d+\n", wasmrt("--version").stdout)


def test_doctor_finds_everything_in_order(wasmrt: Run) -> None:
    checks = json.loads(wasmrt("doctor", "--json").stdout)
    assert {check["name"] for check in checks} >= {"versions", "allocator", "engine", "cache", "catalog", "clock"}
    assert not [check for check in checks if check["state"] == "failed"]
    assert "STATE" in wasmrt("doctor").stdout


def test_doctor_fails_when_the_catalog_is_damaged(wasmrt: Run, home: Path) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "data" / "catalog.sqlite3").write_bytes(b"no database" * 1000)
    checks = json.loads(wasmrt("doctor", "--json", code=1).stdout)
    assert [check["name"] for check in checks if check["state"] == "failed"] == ["catalog"]


def test_a_relative_home_is_refused(wasmrt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", "relative/place")
    assert "absolute path" in wasmrt("list", code=2).stderr


@pytest.mark.ci("slow")
def test_closed_output_is_not_an_internal_error(home: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "wasmrt", "run", "echo", '{"message": "hi"}'],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 1
    assert result.stderr == "error: cannot write the output (No space left on device)\n"
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [sys.executable, "-m", "wasmrt", "doctor"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (1, "")


def test_command_list_matches_the_commands_help() -> None:
    commands = Path(root.__file__).parents[1]
    files = {
        name
        for folder, names in root.FOLDERS.items()
        for name in names
        if (commands / folder / f"{name}{'_' * iskeyword(name)}.py").exists()
    }
    assert {*COMMANDS, *root.HIDDEN} == files == root.COMMANDS.keys()
    for name in root.COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None and command.help is not None
        assert " ".join(command.help.split()).startswith(root.COMMANDS[name])


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_help_is_in_groups_and_nothing_is_cut(wasmrt: Run, columns: int) -> None:
    shown = click.Context(cli, info_name="wasmrt", terminal_width=columns).get_help()
    titles = re.findall(r"^(\w+):$", shown, re.MULTILINE)
    assert titles[-5:] == ["Use", "Author", "Grant", "Serve", "Operate"]
    assert "..." not in shown.partition("Use:")[2] and max(map(len, shown.splitlines())) <= columns
    for group in ("mcp", "caps", "approvals", "config", "advanced"):
        assert "..." not in wasmrt(group, "--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("uninstall parrot --yes", "remove parrot --yes"),
        ("ls --json", "list --json"),
        ("add ./a.wasm", "install ./a.wasm"),
        ("upgrade parrot", "update parrot"),
        ("init weather", "new weather"),
        ("call echo '{}'", "run echo '{}'"),
        ("login calendar", "auth calendar"),
        ("logs", "audit"),
        ("describe echo", "inspect echo"),
        ("permissions", "caps"),
        ("start", "serve"),
        ("instal ./a.wasm", "install ./a.wasm"),
        ("mcp rm files", "mcp remove files"),
        ("mcp ls", "mcp list"),
    ],
)
def test_the_name_that_another_program_uses_leads_to_the_command(wasmrt: Run, typed: str, command: str) -> None:
    told = wasmrt(*shlex.split(typed), code=2).stderr
    assert "Did you mean" in told
    if "--json" not in typed:
        assert f"hint: wasmrt {command}\n" in told


def test_help_and_version_are_commands_too(wasmrt: Run) -> None:
    assert wasmrt("help").stdout == wasmrt("--help").stdout
    assert wasmrt("help", "mcp", "add").stdout == wasmrt("mcp", "add", "--help").stdout
    assert wasmrt("version").stdout == wasmrt("--version").stdout


@pytest.mark.parametrize("command", ["caps fmt", "caps schema", "audit head", "verify", "leaks rules"])
def test_a_seldom_used_command_keeps_its_old_name(wasmrt: Run, command: str) -> None:
    group, _, part = command.partition(" ")
    moved = f"{group}-{part}" if group in ("caps", "audit") else command
    old, new = (wasmrt(*name.split(), "--help").stdout for name in (command, f"advanced {moved}"))
    assert old.partition("\n")[2] == new.partition("\n")[2]


@pytest.mark.parametrize("group", [(), ("caps",), ("secret",)])
def test_a_group_without_a_command_shows_its_help_and_nothing_else(wasmrt: Run, group: tuple[str, ...]) -> None:
    told = wasmrt(*group, code=2).stderr
    assert told == wasmrt(*group, "--help").stdout
