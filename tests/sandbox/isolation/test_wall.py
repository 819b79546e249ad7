"""Forbidden calls from inside sealed processes, each after a positive control, here and in a container."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner
from wasmrt.testing.wall import KINDS, Row, run_wall

from tests.sandbox.isolation.conftest import needs_landlock, needs_seccomp
from wasmrt.cli import cli
from wasmrt.sandbox.isolation.confine import Kind

ROOT = Path(__file__).resolve().parents[3]
pytestmark = [needs_seccomp, needs_landlock]
LEAST = 35


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    return run_wall()


def told(rows: list[Row]) -> list[str]:
    return [f"{row.kind} {row.user} {row.attempt}: {row.control}, sealed {row.outcome}" for row in rows]


@pytest.mark.ci("slow")
def test_no_forbidden_call_succeeds(rows: tuple[Row, ...]) -> None:
    assert told([row for row in rows if not row.held]) == []


@pytest.mark.ci("slow")
@pytest.mark.parametrize("kind", KINDS)
def test_many_forbidden_calls_have_a_positive_control(rows: tuple[Row, ...], kind: Kind) -> None:
    for user in {row.user for row in rows}:
        proven = [row for row in rows if row.kind == kind and row.user == user and row.proven]
        assert len(proven) >= LEAST, (user, told([row for row in rows if row not in proven]))


@pytest.mark.ci("slow")
def test_root_also_runs_the_checks_as_nobody(rows: tuple[Row, ...]) -> None:
    assert {row.user for row in rows} == ({0, 65534} if os.getuid() == 0 else {os.getuid()})


@pytest.mark.ci("slow")
@pytest.mark.parametrize("kind", [Kind.RUN_WORKER, Kind.COMPILE_WORKER])
def test_a_worker_is_killed_by_a_call_that_is_not_allowed(rows: tuple[Row, ...], kind: Kind) -> None:
    for attempt in ("socket AF_INET", "execve", "ptrace", "kill", "unshare", "io_uring_setup", "bpf", "write to 1"):
        outcomes = {row.outcome for row in rows if row.kind == kind and row.attempt == attempt}
        assert outcomes == {"killed by SIGSYS"}


@pytest.mark.parametrize("outcome", ["done", "hung", "not tried: ", "killed by SIGSEGV", "EBADF", "EINVAL", ""])
def test_an_outcome_without_refusal_does_not_count_as_passed(outcome: str) -> None:
    assert not Row("open", "shell", 0, "done", outcome).held


def in_container(*arguments: str) -> list[Row]:
    command = [sys.executable, "-m", "tests.sandbox.isolation.container", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [Row(**row) for row in json.loads(done.stdout)]


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.ci("slow")
def test_confinement_works_inside_a_default_container_profile() -> None:
    rows = in_container()
    assert told([row for row in rows if not row.held]) == []
    controls = {row.attempt: row.control for row in rows}
    assert {controls[name] for name in ("unshare", "mount", "bpf", "keyctl", "io_uring_setup")} == {"EPERM"}
    for kind in KINDS:
        for user in {row.user for row in rows}:
            assert sum(row.proven for row in rows if (row.kind, row.user) == (kind, user)) >= LEAST


@pytest.mark.ci("slow")
def test_doctor_wall_shows_every_row(monkeypatch: pytest.MonkeyPatch, rows: tuple[Row, ...]) -> None:
    monkeypatch.setattr("wasmrt.cli.operate.attacks.run_wall", lambda: rows)
    runner = CliRunner()
    shown = runner.invoke(cli, ["doctor", "--attack", "--wall"])
    assert shown.exit_code == 0
    assert "BROKE OUT" not in shown.output
    data = json.loads(runner.invoke(cli, ["doctor", "--attack", "--wall", "--json"]).stdout)
    assert len(data) == len(rows)
    assert data[0] == asdict(rows[0]) | {"proven": True, "held": True}


def test_doctor_wall_fails_if_an_attack_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (Row("open", "run-worker", 0, "done", "EACCES"), Row("open", "run-worker", 0, "done", "done"))
    monkeypatch.setattr("wasmrt.cli.operate.attacks.run_wall", lambda: rows)
    shown = CliRunner().invoke(cli, ["doctor", "--attack", "--wall"])
    assert shown.exit_code == 1
    assert "BROKE OUT" in shown.output


def test_doctor_wall_requires_the_attack_option() -> None:
    assert CliRunner().invoke(cli, ["doctor", "--wall"]).exit_code == 2
