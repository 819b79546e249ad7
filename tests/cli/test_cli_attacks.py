"""Tests of the output of `wasmrt doctor --attack`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from wasmrt.testing.attacks import ATTACKS, Attack, Outcome

import wasmrt.cli.operate.attacks as cli_attacks
from wasmrt.cli.operate.host_attacks import HOST_ATTACKS, NAMED_PAGE, HostAttack, run, send_account
from wasmrt.runtime.runtime import WasmToolRuntime

Run = Callable[..., "object"]
ENDS = {"held": (True, True), "late": (True, False), "BROKE OUT": (False, True)}


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three attacks with the outcomes of their names."""

    def ended(attack: Attack, _: WasmToolRuntime) -> Outcome:
        as_expected, in_time = ENDS[attack.name]
        return Outcome(
            attack=attack.name, ended=TimeoutError(), stopped_by="x", seconds=1.0,
            as_expected=as_expected, in_time=in_time,
        )  # fmt: skip

    monkeypatch.setattr(cli_attacks, "ATTACKS", [Attack(name=name, about="", body=ATTACKS[0].body) for name in ENDS])
    monkeypatch.setattr(cli_attacks, "run", ended)
    monkeypatch.setattr(cli_attacks, "HOST_ATTACKS", [HostAttack("open", "succeeds", lambda _: "")])


@pytest.mark.usefixtures("outcomes")
def test_attack_stopped_late_is_not_reported_as_break_out(wasmrt: Run) -> None:
    header, *rows = wasmrt("doctor", "--attack", code=1).stdout.splitlines()
    assert header.split()[-1] == "RESULT"
    assert [row.endswith(name) for row, name in zip(rows, ENDS, strict=False)] == [True] * 3
    assert rows[3].split()[:2] == ["open", "nothing"] and rows[3].endswith("BROKE OUT")
    assert rows[-1] == "1 of 4 attacks were stopped, and the host still responds"
    told = json.loads(wasmrt("doctor", "--attack", "--json", code=1).stdout)
    assert [(each["held"], each["late"]) for each in told] == [
        (True, False),
        (False, True),
        (False, False),
        (False, False),
    ]


@pytest.mark.parametrize("attack", HOST_ATTACKS, ids=[attack.name for attack in HOST_ATTACKS])
def test_attack_on_the_host_is_stopped(wasmrt: Run, attack: HostAttack) -> None:
    assert run(attack).stopped_by


def test_request_without_private_text_to_a_named_page_is_sent(wasmrt: Run, tmp_path: Path) -> None:
    assert send_account(NAMED_PAGE, tmp_path) == ""
