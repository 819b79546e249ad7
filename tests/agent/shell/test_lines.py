"""Command lines that no rule was written for: harmful ones are refused or require approval, everyday ones run."""

from __future__ import annotations

import random
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples
from wasmrt.agent.builtin.shell import Action
from wasmrt.agent.builtin.shell._commands import NotUnderstoodError
from wasmrt.agent.builtin.shell._decide import MAX_COMMAND_CHARS, decide_command
from wasmrt.agent.builtin.shell._reader import read_script

HERE = Path(__file__).parent
HARMFUL, PLAIN = (tomllib.loads((HERE / name).read_text())["lines"] for name in ("held_back.toml", "plain.toml"))
SUBSTRINGS = (
    "rm -rf /", ":(){", "dd if=/dev/zero", "| sh", "| bash", "sudo ", "doas ", "eval ", "$(curl", "$(wget",
    "/etc/passwd", "/etc/shadow", "~/.ssh", ".bash_history", "id_rsa", "mkfs", "> /dev/sda", "rm -rf",
    "git push --force", "git push -f", "git reset --hard", "git clean -f", "DROP TABLE", "DELETE FROM", "TRUNCATE",
    "chmod 777", "kill -9", "pkill", "killall", "shutdown", "reboot", "crontab", "docker rm", "systemctl stop",
    "nc ", "curl -d @", "--post-file",
)  # fmt: skip
"""A list of forbidden substrings, as other agents use, for comparison."""


def test_there_are_over_150_harmful_and_everyday_lines() -> None:
    assert len(set(HARMFUL)) > 150
    assert len(set(PLAIN)) > 150


@pytest.mark.ci("slow")
def test_harmful_lines_are_refused_or_require_approval() -> None:
    assert [line for line in HARMFUL if decide_command(line).action is Action.RUN] == []


@pytest.mark.ci("slow")
def test_everyday_lines_run() -> None:
    verdicts = {line: decide_command(line) for line in PLAIN}
    assert {line: verdict for line, verdict in verdicts.items() if verdict.action is not Action.RUN} == {}


def test_substring_list_misses_harmful_and_refuses_everyday_lines() -> None:
    missed = [line for line in HARMFUL if not any(each in line for each in SUBSTRINGS)]
    wrongly = [line for line in PLAIN if any(each in line for each in SUBSTRINGS)]
    assert len(missed) > 100
    assert len(wrongly) > 5


WRAPPED = (
    "{}", "({})", "{{ {}; }}", "true && {}", "false || {}", "! {}", "if {}; then ls; fi", "if ls; then {}; fi",
    "ls | {}", "for i in 1; do {}; done", "while {}; do ls; done", "until {}; do ls; done", "f() {{ {}; }}; f",
    "echo $({})", 'echo "$({})"', "x=$({})", "ls <({})", "case a in a) {};; esac", "{} > log", "{} &", "time {}",
    "env {}", "command {}", "nohup {}", "exec {}", "timeout 5 {}", "nice -n 3 {}", "cat <<E\n$({})\nE",
    "cat <<< $({})", "ls; {}", "ls\n{}", '[ -n "$({})" ]', "trap '{}' EXIT", "sh -c '{}'", "bash -ec '{}'",
    "sh <<'E'\n{}\nE", "bash <<< '{}'", "a=1 {}", "stdbuf -oL {}", "xargs {}", "find . -exec {} +",
    "echo ${{x:-$({})}}", "echo $((1 + $({})))", "set -- a; {}", "watch '{}'", "setsid -w {}", "{} | tee log",
    "{} 2>&1", "select i in a; do {}; done", "for ((;;)); do {}; done", "xargs -n 1 -I % sh -c '{}'",
)  # fmt: skip


@pytest.mark.parametrize("line", ["sudo id", "rm -rf /", "s\\udo id", "rm -r build", "mkfs x"])
def test_harmful_command_is_found_in_any_position(line: str) -> None:
    lines = [around.format(line) for around in WRAPPED]
    assert [each for each in lines if decide_command(each).action is Action.RUN] == []


@given(st.lists(st.sampled_from(["\\", "''", '""', "${x}", "$1", "$@", "$*"]), min_size=3, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_quotes_and_backslashes_in_a_name_hide_nothing(marks: list[str]) -> None:
    line = "".join(letter + mark for letter, mark in zip("sud", marks, strict=True)) + "o id"
    assert decide_command(line).action is not Action.RUN


@given(st.text(alphabet="abrm -/|&;<>$(){}[]'\"`\\\n#*?~=!0", max_size=40))
@settings(max_examples=examples(150), deadline=None)
def test_any_text_gets_a_decision(text: str) -> None:
    assert decide_command(text).action in Action


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("ls\0", "null-byte"), ("ls \x1b[2J", "control-character"), ("ls\r\nid", "control-character"),
        ("ls \u202e", "invisible-character"), ("ls " + "a" * MAX_COMMAND_CHARS, "too-long"),
        ("echo 'a", "not-understood"),
        ("(" * 500 + "ls" + ")" * 500, "not-understood"), ("echo " + "{a,b}" * 12, "not-understood"),
    ],
)  # fmt: skip
def test_unparsable_command_lines_are_refused(line: str, rule: str) -> None:
    verdict = decide_command(line)
    assert (verdict.action, verdict.rule) == (Action.REFUSE, rule)


PIECES = (
    "a", "b", "'", '"', "'a'", '"a b"', "\\", "\\\n", "${x}", "$1", "$@", "$*", "{", "}", ",", "$'\\x61'", '$"a"',
    "''", "\\'", "${y:-c}", "${y:+d}", "$(echo a)", "`echo b`", "$(printf %s a)", "-", "=", "/", "..", "#", "!", "%",
    "^", "1", "$xb", "${IFS}", "{a,b}", " ", "\t",
)  # fmt: skip


def test_words_are_expanded_like_in_bash() -> None:
    some = random.Random(7)
    words = ["".join(some.choices(PIECES, k=some.randint(1, 6))) for _ in range(500)]
    each = """(set --; unset x y xb; eval "printf '<%s>' $w"; echo "[$?]") 2>/dev/null; printf '\\0'"""
    script = f'for w in "$@"; do {each}; done'
    command = ["bash", "--noprofile", "--norc", "-c", script, "bash", *words]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=60, check=True)
    compared = 0
    for word, shown in zip(words, done.stdout.decode().split("\0"), strict=False):
        try:
            script_read = read_script(f"S {word}", environment=frozenset(), given={})
        except NotUnderstoodError:
            continue
        lines = [command.words[1:] for command in script_read.commands if command.name == "S"]
        if not shown.endswith("[0]\n") or not all(field.known for line in lines for field in line):
            continue
        compared += 1
        assert shown[:-4] in {"".join(f"<{field.text}>" for field in line) or "<>" for line in lines}, word
    assert compared > 100
