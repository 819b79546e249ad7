"""Commands that are not known to be harmless require an approval, whatever rule allows the shell."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path

import pytest

from wasmrt import CallbackApprover, Permission, ShellTool, ToolPolicy, ToolRegistry, ToolRule
from wasmrt.agent.builtin.shell import Action, ShellSettings
from wasmrt.agent.builtin.shell._code import is_known_code
from wasmrt.agent.builtin.shell._decide import decide_command
from wasmrt.agent.builtin.shell._known import kind_of
from wasmrt.agent.builtin.shell._lists import ASKS, KNOWN, OPERANDS
from wasmrt.agent.registry import preview_approval

ALLOWED = ToolPolicy(rules=(ToolRule(tool="shell", permission=Permission.ALLOW),))
LINES = tomllib.loads((Path(__file__).parent / "unknown.toml").read_text())


@pytest.mark.parametrize(
    "kind", ["latent", "functions", "options", "started", "written", "rest", "unknown", "injected", "lost"]
)
def test_command_that_is_not_known_to_be_harmless_does_not_run_unasked(kind: str) -> None:
    assert [line for line in LINES[kind] if decide_command(line).action is Action.RUN] == []


def test_similar_harmless_lines_run() -> None:
    verdicts = {line: decide_command(line) for line in LINES["runs"]}
    assert {line: verdict for line, verdict in verdicts.items() if verdict.action is not Action.RUN} == {}


def test_unlisted_program_requires_an_approval_that_names_the_setting() -> None:
    verdict = decide_command("frobnicate --all x")
    assert (verdict.action, verdict.rule) == (Action.ASK, "unlisted-program")
    assert "wasmrt config set --append shell.programs" in verdict.reason


def test_program_of_the_operator_runs_but_not_with_latent_code_or_after_a_write() -> None:
    added = ("frobnicate",)
    assert decide_command("frobnicate --all x", programs=added).action is Action.RUN
    assert decide_command("frobnicate '$(rm -rf src)'", programs=added).rule == "latent-code"
    assert decide_command("echo x > rules.py; frobnicate", programs=added).rule == "written-first"
    assert decide_command("rm -rf src; frobnicate", programs=added).rule == "rm-recursive"


def test_program_of_the_workspace_is_not_the_system_program_of_the_same_name() -> None:
    assert decide_command("echo x > ls; ./ls").rule == "written-first"
    assert decide_command("ls '$(id)'").action is Action.RUN
    assert decide_command("./ls '$(id)'").rule == "latent-code"


def test_each_listed_program_has_one_kind_and_each_entry_a_listed_program() -> None:
    names = [name for kind in KNOWN.values() for name in kind]
    assert sorted(set(names)) == sorted(names)
    assert [key for key in (*OPERANDS, *ASKS) if kind_of(key.split()[0]) is None] == []


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.remove('a')", "import os as o; o.remove('a')", "from os import remove", "import os.path as p",
        "open('a', 'w')", "open('a', mode='a')", "open(*['a', 'w'])", "f = open", "map(open, 'ab', 'ww')",
        "print = exec", "exec('x')", "eval('x')", "__import__('os')", "getattr(1, 'x')", "(1).__class__",
        "import json; json.codecs", "import json; json = 1; json.x()", "class A: pass", "def f(): pass",
        "import subprocess", "from . import x", "import uuid; uuid.os", "import sys; sys.modules",
        "x = [1]; x.clear.__self__", "print(", "globals()", "del x", "import datetime; datetime.sys",
        "with open('a', 'x') as f: f.write('b')", "async def f(): pass", "import time; time.sleep.__globals__",
    ],
)  # fmt: skip
def test_python_code_with_an_unlisted_name_is_not_known(code: str) -> None:
    assert not is_known_code("python3", code)


@pytest.mark.parametrize(
    "code",
    [
        "print(1 + 1)", "import json, sys; print(json.load(sys.stdin)['a'])", "print([x * 2 for x in range(3)])",
        "import datetime; print(datetime.datetime.now().isoformat())", "print(open('a.txt').read().upper())",
        "import os; print(os.path.join('a', 'b'))", "import math; print(math.sqrt(2))", "x = {}; x['a'] = 1; print(x)",
    ],
)  # fmt: skip
def test_python_code_with_listed_names_only_is_known(code: str) -> None:
    assert is_known_code("python3", code)


def test_rule_that_allows_the_shell_covers_an_unlisted_program_only_if_the_settings_name_it(folder: Path) -> None:
    for programs, runs in (((), False), (("frobnicate",), True)):
        registry = ToolRegistry(policy=ALLOWED)
        registry.register(ShellTool(folder, ShellSettings(programs=programs)), builtin=True)
        assert preview_approval(registry, "shell", {"command": "ls"}) is None
        assert (preview_approval(registry, "shell", {"command": "frobnicate"}) is None) is runs


def test_git_checkout_of_an_existing_path_requires_an_approval(folder: Path) -> None:
    (folder / "sub/src").mkdir(parents=True)
    shell = ShellTool(folder)
    assert shell.decide("git checkout sub").action is Action.ASK
    assert shell.decide("cd sub; git checkout src").action is Action.ASK
    assert shell.decide("git checkout src", "sub").action is Action.ASK
    for line in ("git checkout main", "git checkout -b sub", "git switch sub", "git checkout src"):
        assert shell.decide(line).action is Action.RUN


def test_program_asks_after_an_earlier_command_of_the_conversation_wrote_a_file(folder: Path, home: Path) -> None:
    registry = ToolRegistry(policy=ALLOWED, approver=CallbackApprover(lambda _: True))
    registry.register(ShellTool(folder), builtin=True)
    run = partial(registry.execute, "shell", trace="talk")
    assert preview_approval(registry, "shell", {"command": "make"}, trace="talk") is None
    run({"command": "printf 'all:\\n\\ttouch built.py\\n' > Makefile"})
    request = preview_approval(registry, "shell", {"command": "make"}, trace="talk")
    assert request is not None and "it may run files that commands of this conversation changed: Makefile" in str(
        request.preview
    )
    assert preview_approval(registry, "shell", {"command": "cat Makefile"}, trace="talk") is None
    assert preview_approval(registry, "shell", {"command": "make"}, trace="another") is None
    run({"command": "make"})  # approved, and its own files need no other approval
    assert (folder / "built.py").exists()
    assert preview_approval(registry, "shell", {"command": "make"}, trace="talk") is None
