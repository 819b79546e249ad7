"""`wasmrt config` shows, changes and explains settings, and keeps what it does not change."""

from __future__ import annotations

import copy
import json
import re
import stat
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import Result

from tests.runtime.denials.lines import Tree, read_configuration
from wasmrt.agent.config import SETTINGS, OperatorConfig, read_config_file
from wasmrt.core.errors import ConfigFileError
from wasmrt.core.settings import Setting
from wasmrt.runtime.config import WasmRuntimeConfig

Run = Callable[..., Result]
TEXT = """# mine
[tools.filter]   # external tools
external_allow_list = ["b", "a"]  # order matters

[limits]
timeout_seconds = 5.0
"""
REQUIRED: Tree = {
    "web_search": {"web_search": {"provider": "searxng", "url": "https://search.example.org/"}},
    "workspace": {"workspace": {"path": "files"}},
    "serve": {
        "serve": {
            "resource": "https://t.example.com/mcp",
            "issuer": "https://l.example.com",
            "jwks_url": "https://l.example.com/keys",
            "users": {"a": "ann"},
        }
    },
    "tools": {"presets": {"work": {"tools": ["a"]}}},
}
"""Settings that others need."""


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "data/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def shown(wasmrt: Run, *arguments: str) -> dict[str, Any]:
    rows = json.loads(wasmrt("config", "show", *arguments, "--json").stdout)
    return {row["key"]: row for row in rows}


def test_set_keeps_comments_and_order_and_writes_a_private_file(wasmrt: Run, file: Path) -> None:
    file.write_text(TEXT)
    wasmrt("config", "set", "tools.filter.allow_external", "true")
    wasmrt("config", "set", "--append", "tools.filter.external_allow_list", "c")
    wasmrt("config", "set", "limits.timeout_seconds", "7")
    wasmrt("config", "set", 'tools.rules."files-*".permission', "ask")
    text = file.read_text()
    for kept in ("# mine\n[tools.filter]   # external tools\n", '["b", "a", "c"]  # order matters'):
        assert kept in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = tomllib.loads(text)
    assert read["limits"]["timeout_seconds"] == 7.0 and read["tools"]["filter"]["allow_external"] is True
    assert read["tools"]["rules"] == {"files-*": {"permission": "ask"}}
    wasmrt("config", "unset", "tools.filter.external_allow_list")
    assert "external_allow_list" not in file.read_text() and "# mine" in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("limits.timeout_seconds", "soon"), "limits.timeout_seconds limit timeout_seconds must be a positive number"),
        (("approvals.approver", "nobody"), "must be one of auto, terminal, queue, deny"),
        (("tools.filter.allow_externl", "true"), "did you mean tools.filter.allow_external?"),
        (("tools.filter", "true"), "unknown setting"),
        (("a = 1\nb", "2"), "expected the key of a setting"),
        (("--append", "limits.fuel", "2"), "is not a list"),
        (("workspace.per_user", "true"), "requires the key path"),
    ],
)
def test_an_invalid_change_writes_nothing(wasmrt: Run, file: Path, arguments: tuple[str, ...], told: str) -> None:
    file.write_text(TEXT)
    assert told in wasmrt("config", "set", *arguments, code=2).stderr
    assert file.read_text() == TEXT


def test_show_names_the_source_of_each_value(wasmrt: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(TEXT)
    monkeypatch.setenv("WASMRT_SECRETS_BACKEND", "file")
    rows = shown(wasmrt)
    assert rows["limits.timeout_seconds"] == {"key": "limits.timeout_seconds", "value": 5.0, "source": f"{file}:6"}
    assert rows["limits.fuel"]["source"] == "default" and rows["limits.fuel"]["value"] == 500_000_000
    assert (rows["secrets.backend"]["value"], rows["secrets.backend"]["source"]) == (
        "file", "environment WASMRT_SECRETS_BACKEND",
    )  # fmt: skip
    assert set(shown(wasmrt, "limits")) == {each.key for each in SETTINGS if each.key.startswith("limits.")}
    assert "wasmrt config show" in wasmrt("config", "show", "limitz", code=2).stderr
    assert wasmrt("config", "get", "limits.timeout_seconds").stdout == "5.0\n"
    assert "is not set" in wasmrt("config", "get", "tools.preset", code=1).stderr


def test_secrets_are_never_shown(wasmrt: Run, file: Path) -> None:
    password, token = "hunter" + "2hunter2", "ghp_" + "aB3dE6gH9jK2mN5p" + "Q8sT1vW4yZ7cF0bL3xR6"
    file.write_text(
        f'[network]\nrate_limit_storage = "redis://:{password}@127.0.0.1:6379/0"\n'
        f'[web_search]\nprovider = "searxng"\nurl = "https://me:{password}@search.example.com/"\n'
        f'[tools.filter]\nexternal_allow_list = ["{token}"]\n'
    )
    said = ""
    for command in (("show",), ("show", "--json")):
        said += wasmrt("config", *command).stdout
    for key in ("network.rate_limit_storage", "web_search.url", "tools.filter.external_allow_list"):
        for command in ("get", "explain"):
            ended = wasmrt("config", command, key)
            said += ended.stdout + ended.stderr
    file.write_text("")
    set_ = wasmrt("config", "set", "network.rate_limit_storage", f"redis://:{password}3@127.0.0.1/0")
    assert "hidden" in said and password not in said + set_.stdout + set_.stderr and token not in said


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "editor.sh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(program))


def test_edit_writes_only_a_valid_file_and_loses_nothing(
    wasmrt: Run, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(TEXT)
    editor(
        tmp_path,
        monkeypatch,
        "printf '[limits]\\nfuel = 0\\n[nets]\\n# long work\\n' > \"$1\"; touch -d '+9 sec' \"$1\"",
    )
    refused = wasmrt("config", "edit", code=2).stderr
    assert "limits.fuel" in refused and "(line 2)" in refused and "[nets]: is not known" in refused
    assert file.read_text() == TEXT
    rejected = file.with_name("config.rejected.toml")
    assert "# long work" in rejected.read_text() and str(rejected) in " ".join(refused.split())
    assert stat.S_IMODE(rejected.stat().st_mode) == 0o600
    editor(tmp_path, monkeypatch, "sed -i 's/fuel = 0/fuel = 9/; /nets/d' \"$1\"; touch -d '+9 sec' \"$1\"")
    wasmrt("config", "edit")
    assert file.read_text() == "[limits]\nfuel = 9\n# long work\n" and not rejected.exists()
    editor(tmp_path, monkeypatch, "true")
    assert "nothing was changed" in wasmrt("config", "edit", code=2).stderr


def test_explain_has_type_unit_default_value_and_command(wasmrt: Run, file: Path) -> None:
    file.write_text(TEXT)
    told = json.loads(wasmrt("config", "explain", "limits.timeout_seconds", "--json").stdout)
    assert (told["type"], told["unit"], told["default"], told["value"]) == ("number", "seconds", 60.0, 5.0)
    command = told["command"].split()[1:]
    wasmrt(*command)
    assert wasmrt("config", "get", "limits.timeout_seconds").stdout.strip() == command[-1]
    assert "Timeout of a call" in wasmrt("config", "explain", "limits.timeout_seconds").stdout


def tree_of(setting: Setting, value: Any = None) -> Tree:
    """Return a configuration with what a setting requires and, unless it is None, a value of the setting."""
    path = [part.lower() if part.isupper() else part for part in setting.key.split(".")]
    if setting.key == "tools.flows.rules.NAME":
        path[-1] = "new-host"
    tree: Tree = copy.deepcopy(REQUIRED.get(path[0], {}))
    if setting.key == "web_search.provider":
        tree = {}
    if path[0] == "presets":
        tree = {"presets": {"name": {"tools": ["a"]} if path[-1] == "read_only" else {"read_only": True}}}
    if value is not None:
        table = tree
        for name in path[:-1]:
            table = table.setdefault(name, {})
        table[path[-1]] = value
    return tree


def effective(config: OperatorConfig) -> tuple[OperatorConfig, WasmRuntimeConfig]:
    runtime = WasmRuntimeConfig(**config.as_runtime_settings())
    return replace(config, runtime={}), replace(runtime, memory=runtime.get_memory_settings() or False)


def test_each_described_setting_exists_with_its_default_and_example(tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "my-ca.pem"))
    for name in ("leak-rules.toml", "services.toml"):
        (tmp_path / name).touch()
    for setting in SETTINGS:
        missing = effective(read_configuration(tmp_path, tree_of(setting)))
        example = effective(read_configuration(tmp_path, tree_of(setting, setting.example)))
        assert setting.default != setting.example, setting.key
        if setting.default is not None:
            assert effective(read_configuration(tmp_path, tree_of(setting, setting.default))) == missing, setting.key
            assert example != missing, f"the example of {setting.key} has no effect"


def test_every_setting_is_described(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[zzzz]\n")
    with pytest.raises(ConfigFileError) as caught:
        read_config_file(path)
    sections = set(re.findall(r"\[(\w+)\]", caught.value.hint or ""))
    assert sections == {each.key.partition(".")[0] for each in SETTINGS}
    tables = {each.key.rpartition(".")[0] for each in SETTINGS} - {"tools.flows.rules"}
    for table in tables:
        path.write_text(f"[{table}]\nzzzz = 1\n")
        with pytest.raises(ConfigFileError) as caught:
            read_config_file(path)
        listed = next(problem for key, problem in caught.value.problems if key == f"{table}.zzzz")
        known = set(listed.partition("known are ")[2].split(", "))
        assert known == {each.key.rpartition(".")[2] for each in SETTINGS if each.key.rpartition(".")[0] == table}
