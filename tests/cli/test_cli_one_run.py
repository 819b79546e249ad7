"""Tests that `wasmrt run` takes every tool by every name, and applies the policy to each call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.terminal import on_a_terminal
from wasmrt.cli.shared.output import show_columns

Run = Callable[..., Result]
Write = Callable[..., Path]
Configure = Callable[[str], None]
HI = '{"message": "hi"}'
POST = json.dumps({"method": "POST", "url": "https://nowhere.invalid/", "body": "x"})


@pytest.fixture
def configure(home: Path) -> Configure:
    """Writes the configuration file."""

    def write(text: str) -> None:
        (home / "data").mkdir(parents=True, exist_ok=True)
        (home / "data/config.toml").write_text(text)

    return write


@pytest.fixture
def words(wasmrt: Run, tool_file: Write) -> None:
    """Installs a component with several tools."""
    wasmrt("install", tool_file("words", of="files", sidecar={"workspace": True}), "--yes")


@pytest.mark.parametrize("command", [("run",), ("tools", "run")])
def test_a_rule_applies_to_a_call_from_the_command_line(
    wasmrt: Run, configure: Configure, command: tuple[str, ...]
) -> None:
    configure('[tools.rules.echo]\npermission = "deny"\n')
    told = wasmrt(*command, "echo", HI, code=3).stderr
    assert (
        "a rule of the policy denies the tool" in told and "wasmrt config set tools.rules.echo.permission ask" in told
    )
    configure('[tools.rules.time]\npermission = "deny"\n')
    assert json.loads(wasmrt(*command, "echo", HI).stdout) == "hi"


@pytest.mark.parametrize("name", ["read_file", "files.read_text", "file_read", "Files_Read_Text"])
def test_a_rule_applies_to_every_alias_of_a_tool(wasmrt: Run, configure: Configure, name: str, tmp_path: Path) -> None:
    configure('[tools.rules.read_file]\npermission = "deny"\n')
    told = wasmrt("run", name, '{"path": "a"}', "--workspace", tmp_path, code=3).stderr
    assert "read_file: a rule of the policy denies the tool" in told


def test_a_rule_applies_to_a_part_of_a_bundled_component(wasmrt: Run, configure: Configure, tmp_path: Path) -> None:
    configure('[tools.rules.read_file]\npermission = "deny"\n')
    wasmrt("run", "files", '{"path": "a"}', "--tool", "read_file", "--workspace", tmp_path, code=3)


def test_a_preset_and_read_only_restrict_a_call(wasmrt: Run, configure: Configure) -> None:
    configure('[presets.dev]\ntools = ["time"]\n')
    assert "the preset dev does not list the tool" in wasmrt("run", "echo", HI, "--preset", "dev", code=3).stderr
    assert wasmrt("run", "echo", HI, "--read-only").exit_code == 0
    assert "the view does not allow" in wasmrt("run", "http", POST, "--read-only", code=3).stderr


def test_a_call_that_requires_approval_is_denied_without_a_terminal(wasmrt: Run) -> None:
    told = wasmrt("run", "http", POST, code=3).stderr
    assert "requires approval" in told and "run the command on a terminal to be asked" in told
    assert "wasmrt config set tools.rules.http.permission allow" in told


def test_typing_a_call_approves_its_effects_but_replaces_no_required_approval(
    wasmrt: Run, configure: Configure, tmp_path: Path
) -> None:
    call = ("run", "write_file", '{"path": "a.txt", "content": "x"}', "--workspace", tmp_path)
    wasmrt(*call)
    for rule in ('permission = "ask"', 'confirmation = "always"'):
        configure(f"[tools.rules.write_file]\n{rule}\n")
        assert "requires approval" in wasmrt(*call, code=3).stderr


def test_the_user_answers_on_the_terminal(configure: Configure) -> None:
    configure('[tools.rules.echo]\npermission = "ask"\n')
    code, shown = on_a_terminal(b"y\n", "run", "echo", HI, prompt=b"[N]o")
    assert code == 0 and "echo" in shown


def test_an_ask_rule_applies_to_a_harmless_typed_command(wasmrt: Run, configure: Configure, tmp_path: Path) -> None:
    configure('[tools.rules."clipboard.read"]\npermission = "ask"\n[desktop]\ntools = ["clipboard.read"]\n')
    assert "requires approval" in wasmrt("run", "clipboard.read", "{}", code=3).stderr


@pytest.mark.parametrize("option", ["--unsafe-no-policy", "--no-policy"])
def test_skipping_the_policy_prints_a_warning(wasmrt: Run, configure: Configure, option: str) -> None:
    configure('[tools.rules.echo]\npermission = "deny"\n')
    result = wasmrt("run", "echo", HI, option)
    assert json.loads(result.stdout) == "hi" and "warning: this call skips the policy" in result.stderr
    assert "cannot be combined" in wasmrt("run", "echo", HI, option, "--read-only", code=2).stderr
    assert "cannot skip the policy" in wasmrt("run", "memory_tree", "{}", option, code=2).stderr
    assert "cannot skip the policy" in wasmrt("run", "skill_list", "{}", option, code=2).stderr


@pytest.mark.parametrize("name", ["words.list_dir", "words-list_dir", "WORDS_LIST_DIR"])
def test_a_tool_of_a_package_is_called_by_every_name(wasmrt: Run, words: None, tmp_path: Path, name: str) -> None:
    given = ('{"path": ""}', "--workspace", tmp_path)
    assert wasmrt("run", name, *given).stdout == wasmrt("run", "words", *given, "--tool", "list_dir").stdout


def test_a_misspelled_part_of_a_package_is_bad_input(wasmrt: Run, words: None) -> None:
    assert "did you mean list_dir?" in wasmrt("run", "words.lst_dir", code=2).stderr


def test_a_tool_that_only_a_registry_has_is_called(wasmrt: Run) -> None:
    assert "skills" in wasmrt("run", "skill_list").stdout
    assert "omit --tool" in wasmrt("run", "skill_list", "--tool", "x", code=2).stderr


def test_a_file_with_the_name_of_a_bundled_tool_gets_no_rule_for_that_tool(
    wasmrt: Run, tool_file: Write, configure: Configure
) -> None:
    configure('[tools.rules.http]\npermission = "allow"\n[tools.rules."http-file"]\npermission = "deny"\n')
    assert "http-file: a rule" in wasmrt("run", tool_file("http"), HI, code=3).stderr


def test_the_list_has_every_kind_of_tool_in_groups(
    wasmrt: Run, tool_file: Write, configure: Configure, home: Path
) -> None:
    wasmrt("install", tool_file("parrot"), "--yes")
    (home / "data/plugins").mkdir()
    (home / "data/plugins/upper.toml").write_text("")
    configure('[tools]\nplugin_dir = "plugins"\n[desktop]\ntools = ["clipboard.read"]\n[memory]\nenabled = false\n')
    shown = wasmrt("list").stdout
    groups = dict(
        part.partition(":\n")[::2] for part in re.split(r"^(?=\w[^\n]*:$)", shown, flags=re.MULTILINE) if part
    )
    assert "parrot" in groups["Installed"] and "upper" in groups["Plugins"]
    assert "echo" in groups["Included"] and "clipboard.read" in groups["Included"]
    assert "shell" in groups["Included, but off"] and "memory_read" in groups["Included, but off"]
    rows = json.loads(wasmrt("list", "--json", "--all").stdout)
    assert {(row["name"], row["group"]) for row in rows} >= {
        ("parrot", "installed"),
        ("upper", "plugins"),
        ("shell", "off"),
    }
    assert [row["name"] for row in json.loads(wasmrt("list", "--json").stdout)] == ["parrot"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_tables_fit_the_terminal_and_names_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("wasmrt.cli.shared.output.terminal_width", lambda: columns)
    name = "a-tool-with-a-long-name"
    show_columns(("NAME", "SOURCE", "CAN"), [(name, "builtin", "use the network, change something outside " * 3)])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns and any(line.startswith(name) for line in lines)
    show_columns(
        ("TOOL", "CAN", "CLAIM"), [(name, "read files, delete-files " * 4, "the server claims that it reads " * 3)]
    )
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns
    assert " ".join(" ".join(line[32:].strip() for line in lines[1:]).split()).count("change something outside") >= 1


def test_an_update_without_installed_tools_says_that_nothing_is_updated(wasmrt: Run) -> None:
    assert "no installed tool has a source to update it from" in wasmrt("update").stderr
