"""`wasmrt leaks`: data on standard output, messages on standard error, and never the secret itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.egress.leaks.examples import example_of
from wasmrt.cli.operate.leaks import leaks
from wasmrt.egress.leaks import Direction, LeakDetector

RULES = LeakDetector().rules
TOKEN = example_of(next(rule for rule in RULES if rule.id == "github-pat")).strip()
RUNNER = CliRunner()

OWN_KEY = "own_" + "0a1b2c3d" * 3
OWN = """
[[rules]]
id = "own-key"
source = "ours"
token = 'own_[0-9a-f]{24}'
matching = ["OWN-KEY"]
not_matching = ["own_12"]
""".replace("OWN-KEY", OWN_KEY)


def test_a_leak_is_reported_with_place_and_rule_and_exit_code_1() -> None:
    result = RUNNER.invoke(leaks, ["scan", "-"], input=f"fine\n  {TOKEN}\n")
    assert result.exit_code == 1
    assert result.stdout.startswith("2:3 github-pat critical block")
    assert TOKEN not in result.output
    assert result.stderr == "1 found\n"


def test_a_secret_that_two_rules_find_is_reported_once() -> None:
    text = f"Authorization: Bearer {TOKEN}\n"
    found = LeakDetector().scan(text, direction=Direction.OUTWARD).matches
    assert len({(match.start, match.end) for match in found}) == 1 < len(found)
    result = RUNNER.invoke(leaks, ["scan", "-"], input=text)
    assert result.stdout == "1:23 github-pat critical block certain also bearer-authorization\n"
    assert result.stderr == "1 found\n"
    (match,) = json.loads(RUNNER.invoke(leaks, ["scan", "-", "--json"], input=text).stdout)["matches"]
    assert (match["rule"], match["also"]) == ("github-pat", ["bearer-authorization"])


def test_a_clean_file_exits_with_0(tmp_path: Path) -> None:
    file = tmp_path / "clean.txt"
    file.write_text("nothing to see\n")
    result = RUNNER.invoke(leaks, ["scan", str(file)])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no secrets found\n")


def test_json_output_is_the_report() -> None:
    result = RUNNER.invoke(leaks, ["scan", "-", "--json", "--direction", "inward"], input=TOKEN)
    report = json.loads(result.stdout)
    assert report["should_block"] is False
    assert report["matches"][0]["rule"] == "github-pat"


def test_rules_are_listed_with_their_sources() -> None:
    listed = json.loads(RUNNER.invoke(leaks, ["rules", "--json"]).stdout)
    assert len(listed) == len(RULES) and all(rule["source"] for rule in listed)
    assert len(RUNNER.invoke(leaks, ["rules"]).stdout.splitlines()) == len(listed)


def test_a_rule_is_checked_by_name(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    checked = RUNNER.invoke(leaks, ["test", "own-key", "--rules", str(file), "--json"])
    described = json.loads(checked.stdout)
    assert (described["id"], described["matching"], described["not_matching"]) == ("own-key", 1, 1)
    assert "matches 1 examples and none of 1 false positives" in checked.stderr
    assert RUNNER.invoke(leaks, ["test", "jwt"]).exit_code == 0


@pytest.mark.parametrize("arguments", [["test", "no-such-rule"], ["scan", "no-such-file"], ["scan"], ["nothing"]])
def test_an_invalid_command_exits_with_2(arguments: list[str]) -> None:
    assert RUNNER.invoke(leaks, arguments).exit_code == 2


def test_custom_rules_are_used_if_they_pass_their_checks(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    found = RUNNER.invoke(leaks, ["scan", "-", "--rules", str(file)], input=OWN_KEY)
    assert "own-key" in found.stdout
    file.write_text(OWN.replace("\nnot_matching", "\n# not_matching"))
    refused = RUNNER.invoke(leaks, ["scan", "-", "--rules", str(file)], input="x")
    assert refused.exit_code == 2 and "hint: add false positives to not_matching" in refused.stderr


@pytest.mark.parametrize("command", ["scan", "rules", "test"])
def test_help_shows_an_example(command: str) -> None:
    assert "Example:" in RUNNER.invoke(leaks, [command, "--help"]).stdout
