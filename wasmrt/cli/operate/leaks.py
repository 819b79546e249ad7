"""`wasmrt advanced leaks`: scan a file for secrets, list the rules, or check a rule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NoReturn

import click

from wasmrt.cli.shared.errors import fail
from wasmrt.cli.shared.groups import CommandGroup
from wasmrt.cli.shared.output import print_message, show
from wasmrt.core.counts import format_counted
from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.limits import MIB
from wasmrt.core.terminal import to_single_line
from wasmrt.egress.leaks import (
    Direction,
    LeakDetector,
    LeakMatch,
    LeakReport,
    Rule,
    Severity,
    check_rule,
    read_rule_file,
)

_MAX_FILE_BYTES = 64 * MIB
_FOUND = 1
_SEVERITIES = list(Severity)


@click.group(cls=CommandGroup)
def leaks() -> None:
    """Scan files for secrets.

    Example: wasmrt advanced leaks scan build.log
    """


_RULES_OPTION = click.option(
    "--rules", "rule_files", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with additional rules; may be repeated.",
)  # fmt: skip
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@leaks.command()
@click.argument("file", type=click.File("rb"))
@_RULES_OPTION
@click.option("--direction", type=click.Choice(["inward", "outward"]), default="outward", show_default=True)
@_JSON_OPTION
def scan(file: BinaryIO, rule_files: Sequence[Path], direction: str, as_json: bool) -> None:
    """Scan FILE, or standard input for -, and print the positions of secrets, but never the secrets themselves.

    Exit code 0: nothing found; 1: secrets found; 2: usage error.

    Example: git diff | wasmrt advanced leaks scan -
    """
    detector = _make_detector(rule_files, as_json=as_json)
    data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        _fail(
            ConfigurationError(f"the input is over {_MAX_FILE_BYTES} bytes", hint="scan it in parts"), as_json=as_json
        )
    report = detector.scan_bytes(data, direction=Direction(direction))
    _print_report(report, data, as_json=as_json)
    if report.matches:
        raise SystemExit(_FOUND)


def _print_report(report: LeakReport, data: bytes, *, as_json: bool) -> None:
    found = _group_by_span(report)
    if as_json:
        matches = [match.as_dict() | {"also": also} for match, also in found]
        show(json.dumps({"should_block": report.should_block, "matches": matches}))
        return
    for match, also in found:
        line = data.count(b"\n", 0, match.start) + 1
        column = match.start - data.rfind(b"\n", 0, match.start)
        rest = (" certain" if match.certain else "") + (f" also {', '.join(also)}" if also else "")
        show(to_single_line(f"{line}:{column} {match.rule} {match.severity} {match.action}{rest}"))
    print_message(f"{len(found)} found" if found else "no secrets found")


def _group_by_span(report: LeakReport) -> list[tuple[LeakMatch, list[str]]]:
    """Return the most severe match of each span of text, with the IDs of the other rules that matched the same span."""
    spans: dict[tuple[int, int], list[LeakMatch]] = {}
    for match in report.matches:
        spans.setdefault((match.start, match.end), []).append(match)
    found = []
    for matches in spans.values():
        worst = max(matches, key=lambda match: (_SEVERITIES.index(match.severity), match.certain))
        found.append((worst, [match.rule for match in matches if match is not worst]))
    return found


@leaks.command(name="rules")
@_RULES_OPTION
@_JSON_OPTION
def list_rules(rule_files: Sequence[Path], as_json: bool) -> None:
    """List the rules with their provider, severity and source.

    Example: wasmrt advanced leaks rules --json
    """
    found = _make_detector(rule_files, as_json=as_json).rules
    if as_json:
        show(json.dumps([_describe_rule(rule) for rule in found]))
        return
    for rule in found:
        click.echo("\t".join(map(to_single_line, (rule.id, rule.provider, rule.severity, rule.source))))
    print_message(format_counted(len(found), "rule"))


@leaks.command(name="test")
@click.argument("rule_id", metavar="RULE")
@_RULES_OPTION
@_JSON_OPTION
def test_rule(rule_id: str, rule_files: Sequence[Path], as_json: bool) -> None:
    """Check RULE: its matching takes linear time, and it matches its examples but not its false positives.

    Exit code 0: the rule is valid; 1: it is not; 2: there is no such rule.

    Example: wasmrt advanced leaks test acme-key --rules acme.toml
    """
    rules = {rule.id: rule for rule in _make_detector(rule_files, as_json=as_json).rules}
    if rule_id not in rules:
        _fail(
            ConfigurationError(
                f"there is no rule {rule_id!r}", hint="to list the rules, run: wasmrt advanced leaks rules"
            ),
            as_json=as_json,
        )
    rule = rules[rule_id]
    try:
        check_rule(rule)
    except ConfigurationError as error:
        fail(error, as_json=as_json)
        raise SystemExit(_FOUND) from error
    matching, not_matching = len(rule.matching), len(rule.not_matching)
    if as_json:
        show(json.dumps(_describe_rule(rule) | {"matching": matching, "not_matching": not_matching}))
    print_message(f"{rule.id}: linear time, matches {matching} examples and none of {not_matching} false positives")


def _describe_rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "provider": rule.provider,
        "severity": str(rule.severity),
        "source": rule.source,
        "expression": rule.expression,
    }


def _make_detector(rule_files: Sequence[Path], *, as_json: bool) -> LeakDetector:
    try:
        return LeakDetector(rules=[rule for path in rule_files for rule in read_rule_file(path)])
    except WasmrtError as error:
        _fail(error, as_json=as_json)


def _fail(error: WasmrtError, *, as_json: bool) -> NoReturn:
    raise SystemExit(fail(error, as_json=as_json)) from error
